#!/bin/sh
# Unpack Debian's Prometheus, promtool and node exporter into build/prometheus, for the tests. They are not installed:
# the packages would start services that listen on all addresses. Needs apt-get, not root. Does nothing where they are.
set -eu
root=$(cd "$(dirname "$0")/../.." && pwd)
target=$root/build/prometheus
[ -x "$target/usr/bin/promtool" ] && [ -x "$target/usr/bin/prometheus-node-exporter" ] && exit 0
command -v dpkg-deb >/dev/null || { echo "no dpkg-deb: tests of Prometheus will say so" >&2; exit 0; }

echo "system packages: unpacking prometheus, prometheus-node-exporter"
fresh=$target.$$
trap 'rm -rf "$fresh"' EXIT
mkdir -p "$fresh"
cd "$fresh"
fetch() { apt-get -qq download prometheus prometheus-node-exporter; }
# A machine that was just made has no lists yet; another apt-get may be running.
fetch 2>/dev/null || { apt-get -o DPkg::Lock::Timeout=300 update -qq && fetch; }
for package in ./*.deb; do
  dpkg-deb -x "$package" .
  rm "$package"
done
rm -rf "$target"
mv "$fresh" "$target"
