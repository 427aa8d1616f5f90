#!/bin/sh
# sh examples/two_files/build.sh [FOLDER]
#
# Builds FOLDER/train (default: build/two_files) out of the two files here, by command lines alone. pkg-config finds an
# installed Reef (PKG_CONFIG_PATH=/prefix/share/pkgconfig). CXX is the compiler (default: g++), LEVEL of train.cpp its
# optimisation (-O2). Which bits a kernel has depends on the flags of train.cpp, not on those of reef.cpp. With another
# Reef or compiler, remove FOLDER first: reef.o is made once.
set -eu
cd "$(dirname "$0")"
folder=${1:-../../build/two_files}
compiler=${CXX:-g++}
if ! pkg-config --exists reef-mpi; then
  echo "build.sh: pkg-config finds no reef-mpi." >&2
  echo "  fix: cmake --install build/release --prefix /prefix, and PKG_CONFIG_PATH=/prefix/share/pkgconfig." >&2
  exit 1
fi
mkdir -p "$folder"
# shellcheck disable=SC2046
set -- -std=c++20 -DREEF_COMPILED $(pkg-config --cflags reef-mpi)
[ "$folder/reef.o" -nt reef.cpp ] || "$compiler" "$@" -O1 -c reef.cpp -o "$folder/reef.o"  # once
"$compiler" "$@" "${LEVEL:--O2}" -c train.cpp -o "$folder/train.o"
# shellcheck disable=SC2046
"$compiler" "$folder/train.o" "$folder/reef.o" $(pkg-config --libs reef-mpi) -o "$folder/train"
