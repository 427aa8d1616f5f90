#!/bin/sh
# through_ccache.sh CMAKE COMPILER FOLDER_OF_REEF_PRECOMPILE BINARY
#
# Builds a program with a precompiled header through ccache, changes a comment of the header, and builds it in an
# empty folder, where ccache has all from before: the header is still defined once.

set -eu
cmake=$1
compiler=$2
folder=$3
binary=$4

rm -rf "$binary"
mkdir -p "$binary/source"
cd "$binary/source"
cat >CMakeLists.txt <<TEXT
cmake_minimum_required(VERSION 3.25)
project(cached LANGUAGES CXX)
include("$folder/ReefPrecompile.cmake")
add_executable(cached main.cpp)
target_include_directories(cached PRIVATE "\${CMAKE_CURRENT_SOURCE_DIR}")
reef_precompile(cached once.hpp)
TEXT
printf '#pragma once\n#include "once.hpp"\n' >other.hpp

export CCACHE_DIR="$binary/cache" CCACHE_SLOPPINESS=pch_defines,time_macros
for comment in first other; do
  printf '#pragma once\n// the %s\nclass Once {};\n' "$comment" >once.hpp
  printf '#include "other.hpp"\nint main() { // the %s\n  return sizeof(Once) - 1;\n}\nint %s;\n' "$comment" "$comment" >main.cpp
  rm -rf "$binary/build"
  "$cmake" -S . -B "$binary/build" -G Ninja "-DCMAKE_CXX_COMPILER=$compiler" -DCMAKE_CXX_COMPILER_LAUNCHER=ccache >/dev/null
  "$cmake" --build "$binary/build"
  "$binary/build/cached"
done
