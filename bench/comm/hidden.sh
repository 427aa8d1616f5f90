#!/bin/sh
# How much of a 64 MiB all-reduce hides behind computing, over a loopback of 250 Mbit/s, or of MEGABITS.
#
#   sudo bench/comm/hidden.sh build/release/bench RESULTS [ROUNDS [MEGABITS]]
#
# Runs comm_hidden_bench with 2 ranks in a network namespace of its own, whose loopback tc-tbf
# limits; under Open MPI, and under MPICH where that was found; a rank is bound to a core, so that its
# own threads alone compete. Leaves comm_hidden.json and comm_hidden_mpich.json in RESULTS. The namespace
# is gone afterwards; the exit status counts what failed.
set -eu
usage="usage: hidden.sh FOLDER-OF-BENCHMARKS FOLDER-OF-RESULTS [ROUNDS [MEGABITS]]"
folder=${1:?"$usage"}
results=${2:?"$usage"}
rounds=${3:-11}
megabits=${4:-250}
failed=0
mkdir -p "$results"
space=reef-bench-$$

ip netns add "$space"
trap 'ip netns delete "$space"' EXIT
trap 'exit 1' INT TERM
ip netns exec "$space" ip link set lo up
ip netns exec "$space" tc qdisc add dev lo root tbf rate "${megabits}mbit" burst 256kb latency 100ms
bytes=$((megabits * 125000))

run() { # name, suffix, launcher...
  program=$folder/${1}_bench${2} file=$results/$1$2.json said=$results/$1$2.stderr.part
  shift 2
  if [ ! -x "$program" ]; then
    echo "no $program, left out"
    return
  fi
  if ip netns exec "$space" timeout 900 "$@" -n 2 "$program" "$rounds" "$bytes" \
    --benchmark_context=megabits="$megabits" --benchmark_out="$file.part" --benchmark_out_format=json 2> "$said"; then
    mv "$file.part" "$file"
  else
    echo "$program: exit status $?" >&2
    cat "$said" >&2
    rm -f "$file.part"
    failed=$((failed + 1))
  fi
  rm -f "$said"
}

export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
run comm_hidden "" mpiexec.openmpi --bind-to core \
  --mca pml ob1 --mca btl tcp,self --mca btl_tcp_if_include lo --mca oob_tcp_if_include lo
UCX_TLS=tcp,self UCX_NET_DEVICES=lo
export UCX_TLS UCX_NET_DEVICES
run comm_hidden _mpich mpiexec.mpich -bind-to core
exit "$failed"
