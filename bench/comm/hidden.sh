#!/bin/sh
# How much of a 64 MiB all-reduce hides behind computing, over a loopback of 250 Mbit/s, or of MEGABITS.
#
#   sudo bench/comm/hidden.sh build/release/bench [ROUNDS [MEGABITS]]
#
# Runs comm_hidden_bench with 2 ranks in a network namespace of its own, whose loopback tc-tbf
# limits; under Open MPI, and under MPICH where that was found; a rank is bound to a core, so that its
# own threads alone compete. The namespace is gone afterwards.
set -eu
folder=${1:?"usage: hidden.sh FOLDER-OF-BENCHMARKS [ROUNDS [MEGABITS]]"}
rounds=${2:-11}
megabits=${3:-250}
space=reef-bench-$$

ip netns add "$space"
trap 'ip netns delete "$space"' EXIT
trap 'exit 1' INT TERM
ip netns exec "$space" ip link set lo up
ip netns exec "$space" tc qdisc add dev lo root tbf rate "${megabits}mbit" burst 256kb latency 100ms
bytes=$((megabits * 125000))

run() { # name, program, launcher...
  name=$1 program=$2
  shift 2
  if [ ! -x "$program" ]; then
    echo "$name: no $program, left out"
    return
  fi
  printf '\n%s, loopback of %s Mbit/s\n\n' "$name" "$megabits"
  ip netns exec "$space" timeout 900 "$@" -n 2 "$program" "$rounds" "$bytes" 2>/dev/null ||
    echo "$name: exit status $?"
}

export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
run "Open MPI" "$folder/comm_hidden_bench" mpiexec.openmpi --bind-to core \
  --mca pml ob1 --mca btl tcp,self --mca btl_tcp_if_include lo --mca oob_tcp_if_include lo
UCX_TLS=tcp,self UCX_NET_DEVICES=lo
export UCX_TLS UCX_NET_DEVICES
run "MPICH" "$folder/comm_hidden_bench_mpich" mpiexec.mpich -bind-to core
