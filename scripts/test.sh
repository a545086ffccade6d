#!/usr/bin/env bash
# Builds and runs every test, from a bare clone: sanitizers first, then the preset `dev`, whose
# closing lines are the last thing printed.
#
#   scripts/test.sh            everything (what CI runs)
#   scripts/test.sh dev        one preset only: dev, asan, tsan or fuzz (fuzz: not part of CI)
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
asan_rooms="base wire core numeric auth net runtime control collective mesh api sim fuzz transcript"
tsan_rooms="runtime control collective mesh api"

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
    run_preset dev
    ;;
  asan) run_preset asan "$asan_rooms" ;;
  tsan) run_preset tsan "$tsan_rooms" ;;
  dev) run_preset dev ;;
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
    echo "usage: $0 [all|dev|asan|tsan|fuzz]" >&2
    exit 2
    ;;
esac
