#!/bin/sh
# Install what the browser, real-Slurm and Prometheus tests need. Only on Debian-like machines as root: elsewhere the
# tests that miss something skip and say so (and fail when CI=true).
set -eu
if [ "$(id -u)" != 0 ] || ! command -v apt-get >/dev/null; then
  echo "system packages: not root or no apt-get here; tests that need Chromium, Slurm or Prometheus will say so" >&2
  exit 0
fi
here=$(dirname "$0")
export DEBIAN_FRONTEND=noninteractive
if ! command -v chromium >/dev/null; then
  echo "system packages: installing chromium"
  apt-get update -qq
  apt-get install -qq -y --no-install-recommends chromium >/dev/null
fi
if [ -x "$here/../slurm/install.sh" ]; then "$here/../slurm/install.sh"; fi
"$here/../prometheus/install.sh"
