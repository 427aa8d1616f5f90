#!/bin/sh
# pkg_config.sh PKG_CONFIG COMPILER PKGCONFIG_DIR SOURCE OUTPUT VERSION
set -eu
pkg_config=$1
PKG_CONFIG_PATH=$3
export PKG_CONFIG_PATH
[ "$("$pkg_config" --modversion reef)" = "$6" ]
# shellcheck disable=SC2046
"$2" -std=c++20 "$4" $("$pkg_config" --cflags --libs reef) -o "$5"
"$5" | grep -q "reef $6: (2, 3, 4) holds 24 elements"
