#!/bin/sh
# Make the virtual environment $1 with clusterlab and its tools in it. Re-run when the pins change.
set -eu
venv=${1:-.venv}
python=${PYTHON:-python3}

command -v "$python" >/dev/null || {
  echo "set-up needs Python 3.11 or newer: apt-get install python3 python3-venv" >&2
  exit 2
}
"$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' || {
  echo "set-up needs Python 3.11 or newer, found $("$python" --version); set PYTHON=python3.x" >&2
  exit 2
}
# Debian splits venv from python3.
if ! "$python" -c 'import ensurepip, venv' 2>/dev/null; then
  if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
    apt-get update -qq && apt-get install -qq -y --no-install-recommends python3-venv >/dev/null
  else
    echo "set-up needs the venv module: apt-get install python3-venv" >&2
    exit 2
  fi
fi

[ -x "$venv/bin/python" ] || "$python" -m venv "$venv"
echo "set-up: installing clusterlab into $venv (torch is the large part; a minute or two)"
"$venv/bin/pip" install -q --disable-pip-version-check -c constraints.txt -e '.[dev]'
touch "$venv/.ready"
