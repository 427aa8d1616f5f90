#!/bin/sh
# Runs every benchmark that is built and keeps its results.
#
#   cmake --preset release -DREEF_BUILD_BENCH=ON && cmake --build build/release --target bench
#   bench/run_all.sh [FOLDER]            all into FOLDER, by default bench/results
#   BENCH=build/release/bench ONLY='optim|core' RUN=/usr/bin/nice bench/run_all.sh
#
# Each program makes FOLDER/NAME.json, which compare.py reads; summary.md is made of all of them. Peers are run
# by peers/run.py and need python3-torch. RUN is set before each command: what keeps others away meanwhile.
set -eu
root=$(cd "$(dirname "$0")/.." && pwd)
folder=${1:-$root/bench/results}
programs=${BENCH:-$root/build/release/bench}
only=${ONLY:-.}
mkdir -p "$folder"

for program in "$programs"/*_bench; do
  name=$(basename "$program" _bench)
  case $name in
    peers_*) continue ;;                 # run.py starts them
    comm_*) set -- mpiexec --allow-run-as-root --oversubscribe --bind-to none -n 2 "$program" ;;
    *) set -- "$program" ;;
  esac
  echo "$name" | grep -Eq "$only" || continue
  echo "$name"
  # Ranks other than 0 write nothing.
  ${RUN:-} "$@" --benchmark_out="$folder/$name.json" --benchmark_out_format=json > /dev/null \
    || echo "  failed: $name" >&2
done

python3 "$root/bench/summary.py" "$folder"/*.json > "$folder/summary.md"

if echo peers | grep -Eq "$only"; then
  ${RUN:-} python3 "$root/bench/peers/run.py" --build "$programs" --config a,b256,b50k --precision fp32,bf16 \
    --layout 2t,2x1 --rounds 7 --out "$folder/peers"
fi
