#!/bin/sh
# Runs every benchmark that is built and keeps its results.
#
#   cmake --preset release -DREEF_BUILD_BENCH=ON && cmake --build build/release --target bench
#   bench/run_all.sh [FOLDER]            all into FOLDER, by default bench/results
#   BENCH=build/release/bench ONLY='optim|core' RUN=/usr/bin/nice bench/run_all.sh
#
# Each program makes FOLDER/NAME.json, which compare.py reads, or a table of its own, FOLDER/NAME.md; summary.md
# is made of the former. Link shaping (comm_hidden) needs root. Peers are run
# by peers/run.py and need python3-torch. RUN is set before each command: what keeps others away meanwhile.
set -eu
root=$(cd "$(dirname "$0")/.." && pwd)
folder=${1:-$root/bench/results}
programs=${BENCH:-$root/build/release/bench}
only=${ONLY:-.}
mkdir -p "$folder"

# Open MPI refuses to start as root, as in a container, unless it is told twice.
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1

for program in "$programs"/*_bench; do
  name=$(basename "$program" _bench)
  echo "$name" | grep -Eq "$only" || continue
  case $name in
    peers_*) continue ;;                 # run.py starts them
    *) echo "$name" ;;
  esac
  case $name in                          # tables of their own, on ranks
    comm_hidden) ${RUN:-} sh "$root/bench/comm/hidden.sh" "$programs" 11 > "$folder/$name.md" ;;
    comm_collectives) ${RUN:-} mpiexec -n 2 "$program" 67108864 > "$folder/$name.md" ;;
    trace_step) ${RUN:-} mpiexec -n 1 "$program" > "$folder/$name.md" ;;
    comm_*)                              # ranks other than 0 write nothing
      ${RUN:-} mpiexec -n 2 "$program" --benchmark_out="$folder/$name.json" \
        --benchmark_out_format=json > /dev/null ;;
    *)
      ${RUN:-} "$program" --benchmark_out="$folder/$name.json" --benchmark_out_format=json \
        > /dev/null ;;
  esac || echo "  failed: $name" >&2
done

python3 "$root/bench/summary.py" "$folder"/*.json > "$folder/summary.md"

if echo peers | grep -Eq "$only"; then
  ${RUN:-} python3 "$root/bench/peers/run.py" --build "$programs" --config a,b256,b50k --precision fp32,bf16 \
    --layout 2t,2x1 --rounds 7 --out "$folder/peers"
fi
