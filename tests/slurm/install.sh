#!/bin/sh
# Install what the real-Slurm tests need, on Debian 12 or alike, as root. Does nothing where it is there.
set -eu
packages="slurmctld slurmd slurm-client slurm-wlm-basic-plugins munge libpmix2 libpmix-bin python3-pmix \
iproute2 util-linux gcc libc6-dev openmpi-bin"

missing=""
for package in $packages; do
  # Architecture-qualified or not, one line "installed" is enough.
  dpkg-query -W -f '${db:Status-Status}\n' "$package" 2>/dev/null | grep -qx installed ||
    missing="$missing $package"
done
if [ -n "$missing" ]; then
  [ "$(id -u)" = 0 ] || { echo "not root: apt-get install$missing" >&2; exit 1; }
  echo "system packages: installing$missing"
  export DEBIAN_FRONTEND=noninteractive
  # Another apt-get may be running; a machine that was just made often has one.
  apt-get -o DPkg::Lock::Timeout=300 update -qq
  # shellcheck disable=SC2086  # a list of words
  apt-get -o DPkg::Lock::Timeout=300 install -qq -y --no-install-recommends $missing >/dev/null
fi

# Slurm's PMIx plugin opens this by absolute path, and only libpmix-dev ships it. Labs in namespaces
# have their own; a flat lab, which changes nothing on the machine, needs it.
for folder in /usr/lib/*/pmix2/lib; do
  if [ -e "$folder/libpmix.so.2" ] && [ ! -e "$folder/libpmix.so" ] && [ "$(id -u)" = 0 ]; then
    ln -s libpmix.so.2 "$folder/libpmix.so"
  fi
done
