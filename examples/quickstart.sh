#!/bin/sh
# sh examples/quickstart.sh [OPTION OF reef-train...]
#
# Installs what is missing, builds reef-train and trains a byte-level GPT of about a million
# parameters on Reef's own sources, on 4 MPI ranks. Writes report.html, metrics.jsonl and
# trace.json (for https://ui.perfetto.dev); those of an earlier run are renamed. Options given here go to reef-train, after our own.

set -eu
cd "$(dirname "$0")/.."
. cmake/packages.sh

reef_say "quickstart: install, build, train on 4 ranks"
reef_install quickstart

# A build folder that tests/run.sh has set up is used as it is.
if [ ! -f build/release/build.ninja ]; then
  reef_say "configuring build/release"
  cmake --preset release -DREEF_BUILD_TESTS=OFF -DREEF_BUILD_BENCH=OFF
fi
reef_say "building build/release/examples/reef-train"
cmake --build build/release -j "$(reef_jobs)" --target reef-train

# 4 ranks also on fewer cores and as root, as in a container. The launcher is the one that belongs
# to the MPI which CMake found.
mpiexec=$(sed -n 's/^MPIEXEC_EXECUTABLE:[A-Z]*=//p' build/release/CMakeCache.txt)
oversubscribe=
if "$mpiexec" --version 2>&1 | grep -q -i 'open'; then oversubscribe=--oversubscribe; fi
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
export OMPI_MCA_hwloc_base_binding_policy=none OMPI_MCA_btl_vader_single_copy_mechanism=none
export OMP_NUM_THREADS="${OMP_NUM_THREADS:-1}"

# Of SIGTERM and SIGINT (Ctrl-C) Open MPI's launcher tells its ranks after so many seconds, and kills them after
# as many again: in the 1 of its default weights are not written. SIGUSR1 it passes on at once.
case " $* " in
  *" --checkpoint"* | *" --export"*) seconds=20 ;;
  *) seconds=3 ;;
esac
export OMPI_MCA_odls_base_sigkill_timeout="${OMPI_MCA_odls_base_sigkill_timeout:-$seconds}"

reef_say "training; report.html, metrics.jsonl and trace.json are written here: $(pwd)"
set -- --recipe ddp --model 4x4x128 --context 128 --batch 4 --steps 1000 --lr 4e-3 --seed 1 \
  --metrics metrics.jsonl --trace trace.json --report report.html --prompt '/// ' "$@"
exec "$mpiexec" $oversubscribe -n 4 build/release/examples/reef-train "$@"
