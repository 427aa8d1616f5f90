# Sourced by examples/quickstart.sh and tests/run.sh: installs by apt what is missing.
#
#   reef_install quickstart    a compiler, CMake, an MPI, oneDNN, Boost's and two other headers
#   reef_install tests         the same, both MPIs, GoogleTest, Google Benchmark, ccache, Python,
#                              what tokenizers read by
#   reef_install torch         what quickstart needs, and libtorch: 160 MB
#
# Prints the list first. Does nothing, and calls no apt, where all is there. Stops the script with
# status 3 where it cannot install.

reef_say() { printf '%s\n' "reef: $*"; }

# An MPI that is already there is used, whoever installed it.
reef_have_mpi() { command -v mpicc >/dev/null 2>&1 && command -v mpiexec >/dev/null 2>&1; }
reef_mpi_is_mpich() { mpicc -show 2>/dev/null | grep -q mpich; }

reef_packages() {
  echo g++ cmake ninja-build libdnnl-dev libboost-dev nlohmann-json3-dev libcli11-dev
  case $1 in
    quickstart)
      reef_have_mpi || echo libopenmpi-dev openmpi-bin
      ;;
    tests)
      if ! reef_have_mpi || reef_mpi_is_mpich; then
        [ -n "$(command -v mpicc.openmpi)" ] || echo libopenmpi-dev openmpi-bin
      fi
      [ -n "$(command -v mpicc.mpich)" ] || echo libmpich-dev mpich
      [ -n "$(command -v python3)" ] || echo python3
      echo ccache pkg-config libgtest-dev libgmock-dev libbenchmark-dev
      echo libpcre2-dev libutf8proc-dev libsentencepiece-dev libssl-dev etcd-server
      ;;
    torch)
      echo libtorch-dev
      ;;
  esac
}

reef_installed() {
  case $(dpkg-query -W -f '${Status}' "$1" 2>/dev/null) in
    *' installed') return 0 ;;
    *) return 1 ;;
  esac
}

# Where the compiler looks by itself, and g++ alone takes its headers.
reef_has_torch() {
  ${CXX:-g++} --version 2>/dev/null | grep -q 'Free Software Foundation' || return 1
  echo '#include <torch/csrc/api/include/torch/version.h>' | ${CXX:-g++} -E -x c++ - >/dev/null 2>&1
}

reef_needs() {
  reef_say "needed: a C++20 compiler (g++ 12 or clang 14), CMake 3.25, Ninja, an MPI (Open MPI 4.1),"
  reef_say "oneDNN or another BLAS with cblas.h, the headers of Boost 1.74, nlohmann-json and CLI11;"
  reef_say "for the tests also GoogleTest and, if they are to run under both MPIs, MPICH."
}

reef_install() {
  if ! command -v dpkg-query >/dev/null 2>&1 || ! command -v apt-get >/dev/null 2>&1; then
    if [ -n "${REEF_NO_INSTALL:-}" ]; then return 0; fi
    reef_say "this is neither Debian nor Ubuntu, so nothing is installed."
    reef_needs
    reef_say "If all of it is there, set REEF_NO_INSTALL=1 and start again."
    exit 3
  fi
  reef_missing=
  for reef_package in $(reef_packages "$1"); do
    reef_installed "$reef_package" || reef_missing="$reef_missing $reef_package"
  done
  if [ -z "$reef_missing" ]; then
    reef_say "all packages are installed."
  elif [ -n "${REEF_NO_INSTALL:-}" ]; then
    reef_say "not installed, because REEF_NO_INSTALL is set:$reef_missing"
  else
    reef_say "to be installed by apt:$reef_missing"
    if [ "$(id -u)" = 0 ]; then
      reef_as_root=
    elif command -v sudo >/dev/null 2>&1; then
      reef_as_root=sudo
    else
      reef_say "neither root nor sudo. As root, run: apt-get install$reef_missing"
      exit 3
    fi
    $reef_as_root apt-get update -q || reef_say "apt-get update failed; trying with the lists at hand."
    # shellcheck disable=SC2086
    if ! $reef_as_root env DEBIAN_FRONTEND=noninteractive \
        apt-get install -q -y --no-install-recommends $reef_missing; then
      reef_say "apt could not install:$reef_missing"
      reef_needs
      exit 3
    fi
  fi
  reef_check_cmake
}

reef_check_cmake() {
  reef_cmake=$(cmake --version 2>/dev/null | sed -n 's/^cmake version //p')
  case $reef_cmake in
    '' | [012].* | 3.[0-9].* | 3.1[0-9].* | 3.2[0-4].*)
      reef_say "CMake 3.25 or later is needed, and this is ${reef_cmake:-none}."
      reef_say "A newer one: https://cmake.org/download, or python3 -m pip install cmake"
      exit 3
      ;;
  esac
}

# How many compilers run at once: the cores, but no more than one per 2 GiB of memory.
reef_jobs() {
  reef_cores=$(getconf _NPROCESSORS_ONLN 2>/dev/null || echo 2)
  reef_memory=$(awk '/^MemTotal/ {print int($2 / 2097152)}' /proc/meminfo 2>/dev/null || echo 1)
  [ "${reef_memory:-0}" -ge 1 ] || reef_memory=1
  if [ "$reef_memory" -lt "$reef_cores" ]; then echo "$reef_memory"; else echo "$reef_cores"; fi
}
