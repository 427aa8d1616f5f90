#!/bin/sh
# implementation.sh PKG_CONFIG_FOLDER SOURCES OUTPUT COMPILER [MPIEXEC...]
#
# A program that has its bodies in a file of its own: with MPIEXEC examples/two_files by its build.sh, else one of
# reef::core. SOURCES is the source tree. Without that file, or with two, the linker says what lacks or is too much;
# without REEF_COMPILED, the compiler does.
set -eu
PKG_CONFIG_PATH=$1
export PKG_CONFIG_PATH
sources=$2 output=$3 compiler=$4
shift 4
rm -rf "$output"
mkdir -p "$output"
cd "$output"

fail() {
  echo "$*" >&2
  exit 1
}
# refused TEXT COMMAND...: the first of what it says has that text.
refused() {
  text=$1
  shift
  if "$@" >refused.log 2>&1; then fail "it must be refused: $*"; fi
  head -n 4 refused.log | grep -q "$text" || fail "not among the first lines: $text
$(head -n 20 refused.log)"
}

if [ $# -gt 0 ]; then
  CXX=$compiler LEVEL=-O0 sh "$sources/examples/two_files/build.sh" "$output"
  "$@" ./train >train.log || fail "the Trainer failed"
  grep -q "step 50  loss [0-2][.]" train.log || fail "the Trainer printed something else: $(cat train.log)"
  exit 0
fi

# shellcheck disable=SC2046
set -- "$compiler" -std=c++20 -O0 -DREEF_COMPILED $(pkg-config --cflags reef)
echo '#include <reef/core_implementation.hpp>' >bodies.cpp
"$@" -c bodies.cpp -o bodies.o
"$@" -c "$sources/tests/install/core.cpp" -o core.o
"$compiler" core.o bodies.o -pthread -o core
./core | grep -q "(2, 3, 4) holds 24 elements" || fail "the program of reef::core printed something else"
if ldd ./core | grep -q libmpi; then fail "the program of reef::core links MPI"; fi

refused "one_file_that_includes_reef_implementation_hpp" "$compiler" core.o -pthread -o none
cp bodies.o again.o
refused "reef_implementation_hpp_is_included_by_two_files_of_the_program" "$compiler" core.o bodies.o again.o -pthread -o two
refused "compiled without -DREEF_COMPILED" "$compiler" -std=c++20 $(pkg-config --cflags reef) -fsyntax-only bodies.cpp
