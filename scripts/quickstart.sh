#!/usr/bin/env bash
# From a bare clone to a trained model: installs what is missing, builds the release programs, and
# runs `sumcast demo` with the arguments given.
set -euo pipefail

root="$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)"
"$root/scripts/install_packages.sh" build data

if [ -z "${SUMCAST_LAUNCHER:-}" ] && command -v ccache > /dev/null; then
  export SUMCAST_LAUNCHER=ccache
fi
build="$root/build/release"
# Standard output is the demo's.
cmake -S "$root" --preset release >&2
cmake --build "$build" --target sumcast sumcastd -j "$(nproc)" >&2
exec "$build/bin/sumcast" demo "$@"
