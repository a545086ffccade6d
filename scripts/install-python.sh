#!/usr/bin/env bash
# Installs the Python package `sumcast` (the PyTorch backend) from this clone.
#
#   scripts/install-python.sh
#
# Into the virtual environment that is active; where none is, into .venv of this repository, which it
# makes, since Debian's own Python refuses packages of others. torch is installed if it is missing.
set -euo pipefail

root="$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)"
torch="torch==2.13.0"  # What the tests run with; any 2.x from there on should do.
"$root/scripts/install_packages.sh" build python >&2

made=""
if [ -z "${VIRTUAL_ENV:-}" ]; then
  VIRTUAL_ENV="$root/.venv"
  made=1
  [ -x "$VIRTUAL_ENV/bin/python" ] || python3 -m venv "$VIRTUAL_ENV"
fi
python="$VIRTUAL_ENV/bin/python"

if ! "$python" -c 'import torch, setuptools, wheel, ninja' 2> /dev/null; then
  "$python" -m pip install --quiet "$torch" numpy setuptools wheel ninja || {
    echo "install-python.sh: pip could not install $torch into $VIRTUAL_ENV; install torch there yourself, then run this again" >&2
    exit 1
  }
fi

# ccache knows the extension's objects from other clones.
if command -v ccache > /dev/null && [ -d /usr/lib/ccache ]; then
  export SUMCAST_LAUNCHER="${SUMCAST_LAUNCHER:-ccache}" PATH="/usr/lib/ccache:$PATH"
  export CCACHE_BASEDIR="$root" CCACHE_NOHASHDIR=1
fi
log="$(mktemp)"
trap 'rm -f "$log"' EXIT
MAX_JOBS="${MAX_JOBS:-$(nproc)}" "$python" -m pip install --no-build-isolation --no-deps \
  "$root/python" > "$log" 2>&1 || {
  cat "$log" >&2
  echo "install-python.sh: the package did not build; the compiler's words are above" >&2
  exit 1
}
cd /  # Not the folder's own `sumcast`, but what was installed.
"$python" -c 'import sumcast, torch; from sumcast import _native
print(f"sumcast {_native.version()} for torch {torch.__version__} is installed")'
if [ -n "$made" ]; then
  echo "enter the environment with: source $VIRTUAL_ENV/bin/activate"
fi
