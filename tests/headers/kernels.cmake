# cmake -DINCLUDE=include/reef -P kernels.cmake
#
# Every kernel says how many threads its blocks have, so that the compiler leaves each of them registers
# enough on any device: without, one that needs a few more than today's no longer starts.

cmake_minimum_required(VERSION 3.25)

file(GLOB_RECURSE headers "${INCLUDE}/*.cuh" "${INCLUDE}/*.hpp")
set(kernels 0)
set(wrong "")
foreach(header IN LISTS headers)
  file(READ "${header}" text)
  string(REGEX MATCHALL "__global__[^(]*[(]" found "${text}")
  foreach(kernel IN LISTS found)
    math(EXPR kernels "${kernels} + 1")
    if(NOT kernel MATCHES "__launch_bounds__")
      list(APPEND wrong "${header}: ${kernel}...) has no __launch_bounds__")
    endif()
  endforeach()
endforeach()

if(kernels EQUAL 0)
  message(FATAL_ERROR "no kernel was found under ${INCLUDE}")
endif()
if(wrong)
  list(JOIN wrong "\n" wrong)
  message(FATAL_ERROR "${wrong}")
endif()
