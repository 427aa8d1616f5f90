#!/bin/sh
# Runs every benchmark that is built and keeps its results. The tables of bench/optim take longest; on two cores swapped
# steps take 40 minutes, on a GPU as many, the peers 25, and all others 15.
#
#   cmake --preset release -DREEF_BUILD_BENCH=ON && cmake --build build/release --target bench
#   bench/run_all.sh [FOLDER]            all into FOLDER, by default bench/results
#   BENCH=build/release/bench ONLY='optim|core' RUN=/usr/bin/nice bench/run_all.sh
#
# Each program leaves NAME.json in FOLDER, which compare.py reads, or, where a script of bench/optim, bench/pipeline or
# bench/peers starts it, files of its own; summary.md is made of the former. What cannot run here is named with its reason; the
# exit status counts what failed. Link shaping (comm_hidden) needs root, the programs with cuda in their names a GPU. PyTorch's figures,
# optim_adamw_torch, compress_torch and peers/run.py, need python3-torch. RUN is set before each command: what keeps others away
# meanwhile.
set -eu
root=$(cd "$(dirname "$0")/.." && pwd)
folder=${1:-$root/bench/results}
programs=${BENCH:-$root/build/release/bench}
only=${ONLY:-.}
python=${PYTHON:-/usr/bin/python3}   # Debian's PyTorch is of that one
failed=0
mkdir -p "$folder"

# Open MPI refuses to start as root, as in a container, unless it is told twice.
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1

chosen() { echo "$1" | grep -Eq "$only"; }
skip() { echo "  skipped: $1"; }

# FILE COMMAND...: keeps what the command prints, if it succeeds.
table() {
  file=$folder/$1
  shift
  if ${RUN:-} "$@" > "$file.part"; then mv "$file.part" "$file"; else lose "$file" "$*"; fi
}

# FILE COMMAND...: keeps what Google Benchmark writes.
google() {
  file=$folder/$1
  shift
  if ${RUN:-} "$@" --benchmark_out="$file.part" --benchmark_out_format=json > /dev/null; then
    mv "$file.part" "$file"
  else
    lose "$file" "$*"
  fi
}

lose() {
  echo "  failed: $2" >&2
  rm -f "$1.part"
  failed=$((failed + 1))
}

for program in "$programs"/*_bench; do
  name=$(basename "$program" _bench)
  case $name in peers_*) continue ;; esac   # run.py starts them
  chosen "$name" || continue
  echo "$name"
  case $name in
    comm_hidden)
      if [ "$(id -u)" != 0 ] || ! command -v tc > /dev/null; then
        skip "shaping a link needs root and iproute2"
      else
        ${RUN:-} sh "$root/bench/comm/hidden.sh" "$programs" "$folder" || failed=$((failed + 1))
      fi ;;
    comm_* | trace_step) google "$name.json" mpiexec -n 2 "$program" ;;
    optim_overlap | optim_convergence | optim_uneven)   # a script starts them, and writes several files
      ${RUN:-} "$python" "$root/bench/optim/${name#optim_}.py" --build "$programs" --out "$folder/$name" ||
        failed=$((failed + 1)) ;;
    pipeline_schedules)
      ${RUN:-} "$python" "$root/bench/pipeline/schedules.py" --build "$programs" --out "$folder/pipeline" ||
        failed=$((failed + 1)) ;;
    pipeline_placement)
      table "$name.md" mpiexec -n 8 "$program" "$root/tests/data/allocate_case5.json" 2,4,8 10 3 0 8 16 24 32 40 48 56 ;;
    swap_step)
      ${RUN:-} "$python" "$root/bench/swap/measured.py" --program "$program" \
        --out "$folder/swap_measured.md" || failed=$((failed + 1)) ;;
    swap_cuda_step)
      if nvidia-smi -L > /dev/null 2>&1; then
        ${RUN:-} "$python" "$root/bench/swap/measured.py" --cuda --program "$program" \
          --out "$folder/swap_cuda_measured.md" || failed=$((failed + 1))
      else
        skip "no GPU answers"
      fi ;;
    nn_cuda_kernels | device_cuda)
      if nvidia-smi -L > /dev/null 2>&1; then
        google "$name.json" "$program"
      else
        skip "no GPU answers"
      fi ;;
    papers_finetune)
      ${RUN:-} "$python" "$root/bench/papers/acco.py" --build "$(dirname "$programs")" --out "$folder/papers_acco.md" ||
        failed=$((failed + 1)) ;;
    plan_allocate) table "$name.md" "$program" --svg "$folder/$name.svg" ;;
    *) google "$name.json" "$program" ;;
  esac
done

if "$python" -c 'import torch' 2> /dev/null; then
  if chosen optim_adamw_torch; then
    echo optim_adamw_torch
    table "optim_adamw_torch.json" env OMP_NUM_THREADS=2 "$python" "$root/bench/optim/adamw_torch.py"
  fi
  if chosen compress_torch && [ -x "$programs/compress_codecs_bench" ]; then
    echo compress_torch
    table "compress_torch.json" "$python" "$root/bench/compress/torch_rival.py" --program "$programs/compress_codecs_bench"
  fi
  if chosen peers; then
    echo peers
    ${RUN:-} "$python" "$root/bench/peers/run.py" --python "$python" --build "$programs" \
      --config a,b256,b50k --precision fp32,bf16 --layout 2t,2x1 --rounds 7 --out "$folder/peers" ||
      failed=$((failed + 1))
  fi
else
  skip "optim_adamw_torch, compress_torch and peers: $python has no PyTorch; apt-get install python3-torch"
fi

"$python" "$root/bench/summary.py" "$folder"/*.json > "$folder/summary.md"
exit "$failed"
