#!/usr/bin/env bash
# Builds and runs every test, from a bare clone: sanitizers first, then the preset `dev`, whose
# closing lines are the last thing printed.
#
#   scripts/test.sh            everything (what CI runs)
#   scripts/test.sh dev        one preset only: dev, asan, tsan or fuzz (fuzz: not part of CI)
#   scripts/test.sh python     the PyTorch backend only
#
# While working, a label or a name runs alone:  ctest --preset dev -L unit
set -euo pipefail

root="$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)"
cd "$root"
"$root/scripts/install_packages.sh" build data tests peers

if [ -z "${SUMCAST_LAUNCHER:-}" ] && command -v ccache > /dev/null; then
  export SUMCAST_LAUNCHER=ccache
  # Objects of one preset serve a clone in another folder.
  export CCACHE_BASEDIR="$root" CCACHE_NOHASHDIR=1
fi
jobs="$(nproc)"

# Memory and undefined behaviour: everything that handles bytes from outside. Threads: what has them.
asan_rooms="base wire core numeric table dataset hotset auth net runtime control collective mesh host api sparse embedding ps ps_programs plan pipeline manual sim fuzz transcript"
tsan_rooms="runtime control collective mesh host api sparse embedding ps pipeline"

# Installs the PyTorch backend, over the library of the preset `dev`, into an environment of the
# build folder, and has CTest know it.
prepare_python() {
  local venv="$root/build/python"
  echo "== PyTorch backend ==" >&2
  "$root/scripts/install_packages.sh" python
  cmake --preset dev > /dev/null
  cmake --build --preset dev -j "$jobs" --target libsumcast sumcastd
  [ -x "$venv/bin/python" ] || python3 -m venv "$venv"
  VIRTUAL_ENV="$venv" SUMCAST_LIBRARY_DIR="$root/build/dev/src" "$root/scripts/install-python.sh"
  "$venv/bin/python" -c 'import pytest, expecttest, hypothesis' 2> /dev/null ||
    "$venv/bin/python" -m pip install --quiet pytest expecttest hypothesis || {
    echo "test.sh: pip could not install pytest, expecttest and hypothesis into $venv, which the tests of the PyTorch backend need" >&2
    exit 1
  }
  cmake --preset dev -DSUMCAST_PYTHON="$venv/bin/python" > /dev/null
}

run_preset() {  # preset, rooms (empty: all)
  local preset="$1" rooms="${2:-}" targets=() pattern=""
  echo "== preset $preset ==" >&2
  cmake --preset "$preset" > /dev/null
  if [ -n "$rooms" ]; then
    for room in $rooms; do
      case "$room" in
        fuzz) targets+=(fuzz_replay_test) ;;
        sim) targets+=(sim_test small_test) ;;
        *) targets+=("${room}_test") ;;
      esac
    done
    pattern="^($(echo "$rooms small" | tr ' ' '|')|transcripts)[.]"
    cmake --build --preset "$preset" -j "$jobs" --target "${targets[@]}"
    ctest --preset "$preset" -R "$pattern" -j "$jobs"
  else
    cmake --build --preset "$preset" -j "$jobs"
    ctest --preset "$preset"
  fi
}

case "${1:-all}" in
  all)
    run_preset asan "$asan_rooms"
    run_preset tsan "$tsan_rooms"
    prepare_python
    run_preset dev
    ;;
  asan) run_preset asan "$asan_rooms" ;;
  tsan) run_preset tsan "$tsan_rooms" ;;
  dev) run_preset dev ;;
  python)
    prepare_python
    ctest --preset dev -L e2e
    ;;
  fuzz)
    cmake --preset fuzz > /dev/null
    cmake --build --preset fuzz -j "$jobs"
    for program in build/fuzz/bin/fuzz_*; do
      name="$(basename "$program")"
      mkdir -p "build/fuzz/corpus/$name"
      "$program" -max_total_time="${SUMCAST_FUZZ_SECONDS:-60}" "build/fuzz/corpus/$name"
    done
    ;;
  *)
    echo "usage: $0 [all|dev|asan|tsan|python|fuzz]" >&2
    exit 2
    ;;
esac
