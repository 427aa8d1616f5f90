#!/bin/sh
# pkg_config.sh PKG_CONFIG COMPILER PKGCONFIG_DIR SOURCES OUTPUT VERSION [MPIEXEC...]
#
# Programs by a plain command line, as docs/install.md has it: of reef; of reef-mpi, and a Trainer of reef-compiled, if MPIEXEC is
# there. SOURCES is this folder. A Trainer whose compiler was told of no BLAS says so: rank 0, once.
set -eu
pkg_config=$1 compiler=$2 sources=$4 output=$5 version=$6
PKG_CONFIG_PATH=$3
export PKG_CONFIG_PATH
shift 6

fail() {
  echo "$*" >&2
  exit 1
}
flags() {
  [ "$("$pkg_config" --modversion "$1")" = "$version" ] || fail "$1 is not of version $version"
  "$pkg_config" --cflags --libs "$1"
}

# shellcheck disable=SC2046
"$compiler" -std=c++20 "$sources/core.cpp" $(flags reef) -o "$output"
"$output" | grep -q "reef $version: (2, 3, 4) holds 24 elements" || fail "the program of reef printed something else"
[ $# -gt 0 ] || exit 0

# shellcheck disable=SC2046
"$compiler" -std=c++20 "$sources/ranks.cpp" $(flags reef-mpi) -o "$output-mpi"
"$@" "$output-mpi" | grep -q "reef $version: (2, 3, 4) holds 24 elements" || fail "the program of reef-mpi printed something else"

# shellcheck disable=SC2046
"$compiler" -std=c++20 "$sources/trainer.cpp" $(flags reef-compiled) -UREEF_HAS_DNNL -UREEF_HAS_CBLAS -o "$output-trainer"
"$@" "$output-trainer" > "$output.out" 2> "$output.err" || fail "the Trainer failed: $(cat "$output.err")"
grep -q "losses 2[.]" "$output.out" || fail "the Trainer printed something else: $(cat "$output.out")"
[ "$(grep -c "matrix products run as Reef's own loops" "$output.err")" = 1 ] ||
  fail "without a BLAS this is to be said once, with reef-mpi as the way out: $(cat "$output.err")"
grep -q "pkg-config --cflags --libs reef-mpi" "$output.err" || fail "no way out is named: $(cat "$output.err")"

# With a BLAS, or where portable products are wanted, it is not.
for defined in REEF_HAS_DNNL REEF_HAS_CBLAS REEF_PORTABLE_PRODUCTS; do
  # shellcheck disable=SC2046
  echo "#include <reef/nn/host/products.hpp>
    static_assert(!reef::nn::host::lacks_blas);" |
    "$compiler" -std=c++20 $(flags reef-compiled-core) -D$defined -fsyntax-only -x c++ -
done
