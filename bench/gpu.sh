#!/bin/sh
# Reef on a GPU, on a machine with nvcc, CMake, Ninja and g++, but neither network nor our packages:
#
#   sh bench/gpu.sh prepare            here: puts the packages into .carry/ (ignored), by apt
#   sh bench/gpu.sh build 90           here, where there is nvcc: compiles all for sm_90 into .carry/ too, with
#                                      what runs it and nothing that builds; there, minutes are saved
#   sh bench/gpu.sh [--seconds 540] [--results bench/results]
#                                      there: goes on where the last call stopped
#   sh bench/gpu.sh rehearse [--seconds 540] [--results build/gpu/results] [--command 'ninja -C build/gpu ...']
#                                      here: the same, with our packages hidden and no GPU needed; or that command
#
# Carried are Open MPI, oneDNN, GoogleTest, Google Benchmark, CLI11, JSON and the headers of Boost that are used, as
# unpacked packages of Debian 12: they need glibc 2.36. The steps: configure for the cards that are there, build the
# CUDA tests, run each, build the benchmarks, run those beside cuBLAS, CUB, the runtime's copies and PyTorch, write
# gpu_*.md. A call ends before its seconds are over: with 0 where all is done, with 75 where it is to be called again,
# and with 1 where all is done and something failed. What a step left is in build/gpu; remove that to begin anew.
#
#   PYTHON   the one that has PyTorch (python3)
#   TESTS, BENCHES        which of them, by name (all)
#   REEF_GPU_REHEARSE=1   a machine without a GPU will do: tests and benchmarks skip, with their reason

set -eu
cd "$(dirname "$0")/.."
root=$(pwd)
carry=$root/.carry
build=$root/build/gpu
say() { printf '%s\n' "gpu.sh: $*"; }

# -- prepare -----------------------------------------------------------------------------------

# The packages themselves, and the libraries of theirs that no machine need have.
wanted='^(libboost[0-9.]*-dev|googletest|lib(gtest|gmock|benchmark|cli11|dnnl|openmpi|pmix|hwloc|event-|udev1)|openmpi-|nlohmann|zlib1g$)'
seeds='libboost-dev libgtest-dev libgmock-dev libbenchmark-dev libcli11-dev nlohmann-json3-dev libdnnl-dev libopenmpi-dev openmpi-bin'

prepare() {
  command -v apt-get >/dev/null && command -v dpkg-deb >/dev/null || { say "prepare needs apt and dpkg-deb."; exit 2; }
  new=$carry.new
  rm -rf "$new"
  mkdir -p "$new/debs"
  # shellcheck disable=SC2086
  names=$(apt-cache depends --recurse --no-recommends --no-suggests --no-conflicts --no-breaks --no-replaces \
    --no-enhances $seeds | grep -E "$wanted" | sort -u)
  # shellcheck disable=SC2086
  (cd "$new/debs" && apt-get -q download $names)
  for package in "$new"/debs/*.deb; do dpkg-deb -x "$package" "$new"; done
  rm -rf "$new/debs"
  prune "$new"
  rm -rf "$carry"
  mv "$new" "$carry"
  python3 bench/page.py >"$carry/commit"
  say "$(du -sm "$carry" | cut -f 1) MB in .carry: take it along."
}

# What building and running need, of all that the packages have.
prune() {
  libraries=$(find "$1/usr/lib" -name 'libmpi.so.*' | head -n 1)
  libraries=$(dirname "$libraries")
  # Boost: what our includes reach, and all that says which compiler this is.
  units=$1/boost.cpp
  grep -rhoE --include='*.[hc]*' '#include <boost/[^>]+>' include tests bench examples | sort -u >"$units"
  "${CXX:-g++}" -std=c++20 -M -I"$1/usr/include" "$units" | tr -s ' \\' '\n\n' | grep "$1/usr/include/boost/" |
    sed "s|^$1/usr/include/||" | sort -u >"$1/boost.list"
  mkdir "$1/boost"
  (cd "$1/usr/include" && tar -cf - -T "$1/boost.list" boost/version.hpp boost/config boost/config.hpp boost/hana) |
    tar -xf - -C "$1/boost"
  rm -rf "$1/usr/include/boost" "$units" "$1/boost.list"
  mv "$1/boost/boost" "$1/usr/include/boost"
  rmdir "$1/boost"
  find "$1" -name '*.a' ! -name 'libg[tm]*' ! -name 'libbenchmark*' -delete
  find "$1" \( -name '*fortran*' -o -name '*mpifh*' -o -name '*usempi*' -o -name '*java*' -o -name '*shmem.so*' \) \
    ! -path '*/openmpi3/*' -exec rm -rf {} +
  for kept in openmpi pmix cmake; do
    if [ -d "$1/usr/share/$kept" ]; then mkdir -p "$1/share" && mv "$1/usr/share/$kept" "$1/share/"; fi
  done
  rm -rf "$1/usr/share" "$1/usr/src" "$1/etc/openmpi-default-hostfile"
  mv "$1/share" "$1/usr/share"
  find "$1/usr" \( -name 'pmix2' -o -name 'hwloc' -o -name 'event2' \) -path '*include*' -exec rm -rf {} +
  rm -rf "$1"/usr/lib/*/pmix2/include "$1"/usr/include/hwloc* "$1"/usr/include/ev*
  find "$1"/usr/lib/*/openmpi/include -name '*shmem*' -exec rm -rf {} +
  rm -rf "$1"/usr/lib/*/openmpi/include/openmpi/*/
  # Plugins for networks whose libraries stay here.
  if [ -d "$1/lib" ]; then cp -a "$1/lib/." "$1/usr/lib/" && rm -rf "$1/lib"; fi
  for plugin in $(find "$1/usr/lib" -name 'mca_*.so'); do
    for needed in $(objdump -p "$plugin" | sed -n 's/^ *NEEDED *//p'); do
      case $needed in libc.so* | libm.so* | libpthread.so* | libdl.so* | librt.so* | libgcc_s.so* | ld-linux*) continue ;; esac
      [ -n "$(find "$1/usr/lib" -name "$needed")" ] || { rm -f "$plugin"; break; }
    done
  done
  find "$1/usr/lib" -type f -size +8M -exec gzip {} \;  # oneDNN is as large as all else
}

# -- there -------------------------------------------------------------------------------------

use_carried() {
  [ -d "$carry/usr" ] || { say "there is no .carry: run 'sh bench/gpu.sh prepare' where there is a network."; exit 2; }
  libraries=$(dirname "$(find "$carry/usr/lib" -name 'libmpi.so.*' | head -n 1)")
  home=$libraries/openmpi
  for packed in "$libraries"/*.gz; do
    [ ! -f "$packed" ] || [ -f "${packed%.gz}" ] || gunzip -k "$packed"
  done
  export PATH="$carry/usr/bin:$PATH"
  export LD_LIBRARY_PATH="$libraries:$home/lib:$libraries/pmix2/lib${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}"
  if command -v nvcc >/dev/null; then  # programs that were carried look for cuBLASLt here
    LD_LIBRARY_PATH=$LD_LIBRARY_PATH:$(dirname "$(dirname "$(command -v nvcc)")")/lib64
  fi
  # Open MPI asks these where it was moved to; Debian keeps its parts in several places.
  export OPAL_PREFIX="$home" OPAL_BINDIR="$carry/usr/bin" OPAL_LIBDIR="$home/lib" \
    OPAL_DATADIR="$carry/usr/share" OPAL_PKGDATADIR="$carry/usr/share/openmpi" \
    OPAL_PKGLIBDIR="$home/lib/openmpi3" OPAL_INCLUDEDIR="$home/include" OPAL_SYSCONFDIR="$carry/etc" \
    PMIX_PREFIX="$libraries/pmix2" PMIX_INSTALL_PREFIX="$libraries/pmix2" \
    PMIX_MCA_pcompress_base_silence_warning=1
  export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMPI_MCA_rmaps_base_oversubscribe=1
}

# left: seconds of this call that are left.
left() { echo $((until - $(date +%s))); }

# step NAME SECONDS COMMAND...: once, if so many seconds are left; what it prints is in build/gpu/NAME.log. It ends
# the call where too few are left, or where the command ran out of them: then it begins again next time.
step() {
  name=$1
  needed=$2
  shift 2
  [ ! -f "$build/done/$name" ] || return 0
  if [ "$(left)" -lt "$needed" ] && [ "$stepped" = yes ]; then again "before $name"; fi
  stepped=yes
  say "$name ($(left) s left)"
  status=0
  timeout -k 5 "$(left)" "$@" >"$build/$name.log" 2>&1 || status=$?
  case $status in
    124 | 137) again "in $name" ;;
  esac
  echo "$status" >"$build/done/$name"
  if [ "$status" != 0 ]; then
    say "$name failed with $status:"
    tail -n 25 "$build/$name.log"
  fi
}

again() {
  write_reports
  say "stopped $1. Call me again."
  exit 75
}

# A step without which nothing goes on: it is tried again next time.
must() {
  step "$@"
  if [ "$(cat "$build/done/$1")" != 0 ]; then
    rm -f "$build/done/$1"
    say "the whole output is in build/gpu/$1.log"
    exit 1
  fi
}

write_reports() { "$python" bench/gpu_report.py --build "$build" --results "$results" || true; }

configure() {  # what else cmake is told
  cmake -S . -B "$build" -G Ninja -DCMAKE_BUILD_TYPE=Release -DCMAKE_CXX_FLAGS_RELEASE="-O2 -DNDEBUG" \
    -DCMAKE_CUDA_FLAGS_RELEASE="-Xcompiler=-O2 -DNDEBUG" -DREEF_ENABLE_CUDA=ON -DREEF_BUILD_TESTS=ON \
    -DREEF_BUILD_BENCH=ON -DREEF_BUILD_EXAMPLES=OFF -DREEF_CHECK_HEADERS=OFF -DREEF_ALL_CUDA_TESTS=ON \
    -DCMAKE_PREFIX_PATH="$carry/usr" -DCMAKE_LIBRARY_PATH="$libraries" \
    -DGTest_DIR="$libraries/cmake/GTest" -Dbenchmark_DIR="$libraries/cmake/benchmark" \
    -DBOOST_ROOT="$carry/usr" -DBoost_NO_BOOST_CMAKE=ON -DBoost_INCLUDE_DIR="$carry/usr/include" \
    -DREEF_MPICC_OPENMPI="$carry/usr/bin/mpicc.openmpi" -DMPIEXEC_EXECUTABLE="$carry/usr/bin/mpiexec.openmpi" \
    ${REEF_GPU_OPTIONS:-} "$@"
}

tests=${TESTS:-device.cuda device.cuda_transform compress.cuda_codecs compress.cuda_top_k nn.cuda_kernels nn.cuda_operators nn.cuda_llama_operators nn.cuda_bloom_operators nn.cuda_rows nn.cuda_session nn.cuda_packing trainer.cuda trainer.cuda_policies trainer.cuda_pipelines trainer.cuda_channels trainer.cuda_all_axes trace.nvtx}
benches=${BENCHES:-device_cuda nn_cuda_kernels nn_cuda_rows compress_cuda_codecs peers_gpt_reef_cuda swap_cuda_step}

# Entries of ctest, or of programs that were carried, that run one test.
entries_of() {
  if [ -d "$carry/programs" ]; then
    sed -nE "s/^($(echo "$1" | sed 's/[.]/[.]/g')([.]p[0-9]+)?) .*/\\1/p" "$carry/programs/entries"
    return
  fi
  ctest --test-dir "$build" -N -R "^$(echo "$1" | sed 's/[.]/[.]/g')([.]p[0-9]+)?\$" | sed -n 's/^ *Test *#[0-9]*: //p'
}

# Runs one entry.
run_entry() {
  if [ -d "$carry/programs" ]; then
    use_carried
    line=$(sed -n "s|@|$carry/programs|g; s/^$(echo "$1" | sed 's/[.]/[.]/g') //p" "$carry/programs/entries")
    [ -n "$line" ] || { say "no entry $1 in .carry/programs/entries."; exit 2; }
    sh -c "$line"
    return
  fi
  ctest --test-dir "$build" -V --timeout 240 -R "^$(echo "$1" | sed 's/[.]/[.]/g')\$"
}

test_targets() { for test in $tests; do echo "${test}_test" | tr . _; done; }
bench_targets() { for bench in $benches; do echo "${bench}_bench"; done; }

# -- build -------------------------------------------------------------------------------------

# In .carry/programs: tests and benchmarks, and `entries`, of which each line is a test's name and its command,
# with @ for that folder.
build() {
  [ -d "$carry/usr/include" ] || { say "build needs all of .carry: run 'sh bench/gpu.sh prepare' first."; exit 2; }
  use_carried
  configure -DREEF_FOR_GPU=ON "-DCMAKE_CUDA_ARCHITECTURES=$architecture"
  # shellcheck disable=SC2046
  cmake --build "$build" -j "$(getconf _NPROCESSORS_ONLN)" --target $(test_targets) $(bench_targets)
  programs=$carry/programs
  rm -rf "$programs"
  mkdir "$programs"
  "$python" bench/page.py >"$carry/commit"
  for target in $(test_targets) $(bench_targets) libtrace_nvtx_observer.so; do
    find "$build" -name "$target" -type f -exec cp {} "$programs" \;
  done
  strip -s "$programs"/*
  ctest --test-dir "$build" --show-only=json-v1 | "$python" -c '
import json, os, shlex, sys
for test in json.load(sys.stdin)["tests"]:
    known = lambda path: os.path.exists(os.path.join(sys.argv[1], os.path.basename(path)))
    there = lambda path: "@/" + os.path.basename(path) if known(path) else path
    command = test.get("command", [""])
    if not any(known(part) for part in command[:4]):
        continue
    if os.path.basename(command[0]).startswith("mpiexec"):
        command[0] = os.path.basename(command[0])
    variables = [value for kind in test["properties"] if kind["name"] == "ENVIRONMENT" for value in kind["value"]]
    variables = ["=".join([name, there(value)]) for name, value in (one.split("=", 1) for one in variables)]
    print(test["name"], shlex.join(["env", *variables, *map(there, command)]))
' "$programs" >"$programs/entries"
  rm -rf "$carry/usr/include" "$libraries/cmake" "$home/include"
  find "$carry/usr" -name '*.a' -delete
  for packed in "$libraries"/*.gz; do rm -f "${packed%.gz}"; done
  say "$(grep -c . "$programs/entries") tests for sm_$architecture; $(du -sm "$carry" | cut -f 1) MB in .carry: take it along."
}

# has BENCH: whether it is to be run.
has() {
  case " $benches " in *" $1 "*) return 0 ;; *) return 1 ;; esac
}

# The folder of this python's libtorch with CUDA, or why there is none that can be used.
torch_folder() {
  [ ! -d "$carry/programs" ] || { echo "no: what was carried has no headers ('prepare' alone leaves them)"; return; }
  "$python" -c '
import os
try:
    import torch
    print("no: PyTorch has no CUDA" if not torch.version.cuda else "no: PyTorch has the C++ ABI of before 2015"
          if not torch.compiled_with_cxx11_abi() else os.path.dirname(torch.__file__))
except ImportError as error:
    print("no:", error)'
}

# Modules of libtorch on a GPU, in a build folder of their own: what is wrong with PyTorch is wrong here alone.
run_torch() {
  torch=$(torch_folder)
  case $torch in no:*) say "modules on a GPU are left out: ${torch#no: }."; return ;; esac
  own=$build/torch
  # Its cuBLAS is that of its own packages, which the toolkit's must not come before.
  for folder in "$torch"/../nvidia/*/lib "$torch/lib"; do
    [ ! -d "$folder" ] || LD_LIBRARY_PATH=$folder:$LD_LIBRARY_PATH
  done
  step torch_configure 60 sh "$0" --configure-torch "$torch"
  [ "$(cat "$build/done/torch_configure")" = 0 ] || return 0
  step torch_build 150 cmake --build "$own" -j "$jobs" --target torch_cuda_test torch_cuda_data_parallel_bench
  [ "$(cat "$build/done/torch_build")" = 0 ] || return 0
  for ranks in 1 2; do
    step "test_torch.cuda.p$ranks" 60 ctest --test-dir "$own" -V --timeout 240 -R "^torch[.]cuda[.]p$ranks\$"
  done
  step torch_bench 120 sh -c "'$own/bench/torch_cuda_data_parallel_bench' >'$build/torch.json'"
}

run_all() {
  mkdir -p "$build/done" "$results"
  until=$(($(date +%s) + seconds))
  stepped=no
  card=$(nvidia-smi --query-gpu=name,driver_version --format=csv,noheader 2>/dev/null | head -n 1) || card=
  if [ -z "$card" ]; then
    [ -n "${REEF_GPU_REHEARSE:-}" ] || { say "nvidia-smi names no GPU. REEF_GPU_REHEARSE=1 goes through all without."; exit 2; }
    card="none: a rehearsal"
  fi
  echo "$card" >"$build/card"
  command -v nvcc >/dev/null || PATH=$PATH:/usr/local/cuda/bin
  use_carried
  export card
  jobs=$(getconf _NPROCESSORS_ONLN)
  programs=$build/bench
  if [ -d "$carry/programs" ]; then
    programs=$carry/programs
  else
    must configure 60 sh "$0" --configure
    # shellcheck disable=SC2046
    must build_tests 120 cmake --build "$build" -j "$jobs" --target $(test_targets)
  fi
  for test in $tests; do
    for entry in $(entries_of "$test"); do
      step "test_$entry" 60 sh "$0" --entry "$entry"
    done
  done
  if [ ! -d "$carry/programs" ]; then
    # shellcheck disable=SC2046
    must build_bench 120 cmake --build "$build" -j "$jobs" --target $(bench_targets)
  fi
  for bench in device_cuda nn_cuda_kernels nn_cuda_rows compress_cuda_codecs; do
    has $bench || continue
    step "bench_$bench" 200 "$programs/${bench}_bench" --benchmark_out="$build/$bench.json" --benchmark_out_format=json
  done
  if has compress_cuda_codecs && [ -s "$build/compress_cuda_codecs.json" ]; then
    step compress_cuda_top_k 60 "$python" bench/compress/cuda_top_k.py --ours "$build/compress_cuda_codecs.json" \
      --out "$build/compress_cuda_top_k.json"
  fi
  for model in b256 b50k gpt2; do
    for precision in fp32 bf16; do
      has peers_gpt_reef_cuda || continue
      step "peers_${model}_$precision" 150 "$python" bench/peers/gpu.py --build "$programs" --config $model \
        --precision $precision --out "$build/peers_${model}_$precision.json"
    done
  done
  if has swap_cuda_step && [ -n "${REEF_GPU_REHEARSE:-}" ]; then
    step swap 1 echo "skipped: no GPU answers"
  elif has swap_cuda_step; then
    step swap 300 "$python" bench/swap/measured.py --cuda --program "$programs/swap_cuda_step_bench" \
      --models 12x12x768,50257,1024,4 --share 0.5 --links 0:checked --counts 1 4 --rounds 5 --seconds 60 --out "$build/gpu_swap.md"
  fi
  if [ -z "${TESTS:-}${BENCHES:-}" ]; then run_torch; fi
  write_reports
  failed=0
  for done in "$build"/done/*; do [ "$(cat "$done")" = 0 ] || { say "failed: $(basename "$done")"; failed=1; }; done
  say "all steps are done; tables are in $results."
  exit $failed
}

# -- rehearse ----------------------------------------------------------------------------------

# Hides our packages from this process, in a namespace of its own: whoever finds one has found a carried one.
hide() {
  nothing=$(mktemp -d)
  : >"$nothing/file"
  mkdir "$nothing/folder"
  hidden=0
  for package in libboost1.74-dev libgtest-dev libgmock-dev googletest libbenchmark-dev libbenchmark1debian libcli11-dev \
      nlohmann-json3-dev libdnnl-dev libdnnl2 libopenmpi-dev libopenmpi3 openmpi-bin openmpi-common libmpich-dev mpich \
      libhwloc15 libpmix2 libevent-core-2.1-7 libevent-pthreads-2.1-7; do
    for file in $(dpkg -L "$package" 2>/dev/null | grep -E '^/(usr/)?(include|lib|bin|share/openmpi|share/cmake)|^/etc/openmpi'); do
      case $file in
        */include/boost | */include/gtest | */include/gmock | */include/benchmark | */include/CLI | */include/nlohmann | \
          */include/oneapi | */lib/*/openmpi | */lib/*/pmix2 | */share/openmpi | */share/cmake/[a-zA-Z]* | \
          */lib/*/cmake/[a-zA-Z]* | /etc/openmpi)
          [ ! -d "$file" ] || { mount --bind "$nothing/folder" "$file" && hidden=$((hidden + 1)); } ;;
        */include/* | */lib/*/cmake/*) ;;
        *.so* | *.a | */bin/*)
          [ -L "$file" ] || { [ -f "$file" ] && mount --bind "$nothing/file" "$file" && hidden=$((hidden + 1)); } ;;
      esac
    done
  done
  say "$hidden files and folders of packages are hidden."
}

rehearse() {
  hide
  export REEF_GPU_REHEARSE=1
  # Nobody is to wait for code that does not run.
  : "${REEF_GPU_OPTIONS:=-DREEF_CCACHE=ON -DCMAKE_CUDA_ARCHITECTURES=75-virtual}"
  export REEF_GPU_OPTIONS
  if [ -z "$hidden_command" ]; then run_all; fi
  use_carried
  sh -c "$hidden_command"
}

seconds=540
results=
python=${PYTHON:-python3}
command=run
hidden_command=
while [ $# -gt 0 ]; do
  case $1 in
    prepare | rehearse) command=$1 ;;
    build)
      command=build
      shift
      architecture=${1:?build needs an architecture, as 90} ;;
    --entry) shift; command=entry; entry=${1:?--entry needs a name} ;;
    --configure) command=configure ;;
    --configure-torch) shift; command=configure-torch; torch=${1:?--configure-torch needs the folder of a libtorch} ;;
    --command) shift; hidden_command=${1:?--command needs a command} ;;
    --seconds) shift; seconds=${1:?--seconds needs a number} ;;
    --results) shift; results=${1:?--results needs a folder} ;;
    *) sed -n '2,25s/^# \{0,1\}//p' "$0"; exit 2 ;;
  esac
  shift
done
if [ -z "$results" ]; then
  results=$root/bench/results
  [ $command != rehearse ] || results=$build/results
fi
case $command in
  prepare) prepare ;;
  rehearse)
    if [ "${REEF_GPU_HIDDEN:-}" = yes ]; then rehearse; exit; fi
    [ "$(id -u)" = 0 ] || { say "rehearse hides packages by mounts: run it as root."; exit 2; }
    REEF_GPU_HIDDEN=yes exec unshare --mount --propagation private sh "$0" rehearse --seconds "$seconds" \
      --results "$results" ${hidden_command:+--command "$hidden_command"} ;;
  configure) use_carried; configure ;;
  configure-torch)
    use_carried
    build=$build/torch
    configure -DREEF_ENABLE_TORCH=ON "-DREEF_TORCH_LIBRARY=$torch/lib/libtorch.so" ;;
  build) build ;;
  entry) run_entry "$entry" ;;
  run) run_all ;;
esac
