# cmake -DROOT=. -P page.cmake
#
# docs/pairs.md names every policy of swap, pipeline, compress and optim: a new one has a row there, or this fails. A policy is
# what a header of these folders asserts to be one.

cmake_minimum_required(VERSION 3.25)

file(READ "${ROOT}/docs/pairs.md" page)
set(policies "")
foreach(axis IN ITEMS swap pipeline compress optim)
  file(GLOB headers "${ROOT}/include/reef/${axis}/*.hpp")
  foreach(header IN LISTS headers)
    file(STRINGS "${header}" lines REGEX "^[^/]*(_policy|SwapPolicy|PipelinePolicy|CompressorPolicy|OptimizerPolicy)<[A-Z][a-z0-9]")
    string(REGEX MATCHALL "(_policy|SwapPolicy|PipelinePolicy|CompressorPolicy|OptimizerPolicy)<[A-Z][A-Za-z0-9]+" found "${lines}")
    list(TRANSFORM found REPLACE "^.*<" "")
    list(APPEND policies ${found})
  endforeach()
endforeach()
list(LENGTH policies count)
if(count LESS 25)
  message(FATAL_ERROR "only ${count} policies are found: ${policies}")
endif()

set(missing "")
foreach(policy IN LISTS policies)
  if(NOT page MATCHES "[|] `${policy}[`<]")
    list(APPEND missing ${policy})
  endif()
endforeach()
if(missing)
  message(FATAL_ERROR "docs/pairs.md has no row of: ${missing}\n"
    "  fix: name it in tests/pairs, and write the page anew: tests/pairs/pairs.py")
endif()
message(STATUS "${count} policies are on the page")
