#!/usr/bin/env bash
# Runs the same program over Sumcast and over a ps-lite that you have, alternately, on loopback, and
# prints medians and ratios.
#
#   bench/ps/compare.sh PSLITE [ROUNDS]
#
#   PSLITE   a ps-lite source tree in which build/libps.a (or libpslite.a) has been built; its
#            protobuf and ZeroMQ are linked from the system (libprotobuf-dev, libzmq3-dev)
#   ROUNDS   runs of each, default 5
#
# Needs the preset `release`:  cmake --build --preset release --target sumcast-bench-ps
set -euo pipefail

root="$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)"
peer="${1:?usage: compare.sh PSLITE [ROUNDS]}"
rounds="${2:-5}"
ours="${SUMCAST_BENCH_PS:-$root/build/release/bin/sumcast-bench-ps}"
[ -x "$ours" ] || { echo "compare.sh: $ours is missing; build the target sumcast-bench-ps" >&2; exit 1; }
library=""
for candidate in "$peer"/build/libps.a "$peer"/build/libpslite.a "$peer"/libpslite.a; do
  [ -f "$candidate" ] && library="$candidate" && break
done
[ -n "$library" ] || { echo "compare.sh: no libps.a or libpslite.a under $peer/build; build ps-lite first" >&2; exit 1; }

work="$(mktemp -d)"
trap 'rm -rf "$work"' EXIT
g++ -std=c++14 -O2 -I"$peer/include" "$root/bench/ps/ps_bench_main.cc" -o "$work/theirs" "$library" \
  -lzmq -lprotobuf -pthread

run() {  # program, file for the worker's lines
  local pids=() status=0
  export DMLC_PS_ROOT_URI=127.0.0.1 DMLC_NODE_HOST=127.0.0.1 DMLC_NUM_SERVER=1 DMLC_NUM_WORKER=1
  DMLC_PS_ROOT_PORT=$((20000 + RANDOM % 8000))
  export DMLC_PS_ROOT_PORT
  for role in scheduler server; do
    DMLC_ROLE=$role timeout 120 "$1" > /dev/null 2>> "$work/log" & pids+=($!)
  done
  DMLC_ROLE=worker timeout 120 "$1" >> "$2" 2>> "$work/log" & pids+=($!)
  for pid in "${pids[@]}"; do wait "$pid" || status=$?; done
  [ $status -eq 0 ] || { echo "compare.sh: $1 failed ($status):" >&2; tail -5 "$work/log" >&2; exit 1; }
}

for ((round = 0; round < rounds; ++round)); do
  run "$ours" "$work/ours.json"
  run "$work/theirs" "$work/theirs.json"
done

python3 - "$work/ours.json" "$work/theirs.json" <<'PY'
import json
import statistics
import sys


def medians(path):
    values = {}
    for line in open(path):
        entry = json.loads(line)
        name = entry.pop("name")
        key, value = next(iter(entry.items()))
        values.setdefault((name, key), []).append(value)
    return {key: statistics.median(all_of) for key, all_of in values.items()}


ours, theirs = medians(sys.argv[1]), medians(sys.argv[2])
print(f"{'':12}{'':16}{'Sumcast':>14}{'ps-lite':>14}{'ratio':>8}")
for (name, unit), value in ours.items():
    other = theirs[(name, unit)]
    print(f"{name:12}{unit:16}{value:14,.1f}{other:14,.1f}{value / other:8.2f}")
PY
