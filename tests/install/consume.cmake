# cmake -DSOURCE=... -DBINARY=... -DREEF_SOURCE=... -DPREFIX=... -DVERSION=... -DCOMPILER=...
#       -DGENERATOR=... [-DLAUNCHER=mpiexec;-n;2] [-DNO_MPI=ON] [-DFAILS=REGEX] [-DPRINTS=TEXT]
#       [-DOPTIONS=a;b] [-DREFUSED=TARGET=REGEX;...] -P consume.cmake
#
# Configures, builds and runs one consumer from an empty build folder. With NO_MPI it does so as if
# no MPI and no BLAS were installed, and checks that the program needs neither. With FAILS it must not be
# configured, for that reason; PRINTS is what it prints beside what all consumers do. Each TARGET of REFUSED must not be
# built, for that reason.

cmake_minimum_required(VERSION 3.25)

function(reef_step what)
  execute_process(COMMAND ${ARGN} RESULT_VARIABLE status OUTPUT_VARIABLE output ERROR_VARIABLE output)
  if(NOT status EQUAL 0)
    message(FATAL_ERROR "${what} failed (${status}):\n${output}")
  endif()
  set(output "${output}" PARENT_SCOPE)
endfunction()

file(REMOVE_RECURSE "${BINARY}")
set(options ${OPTIONS} "-DCMAKE_PREFIX_PATH=${PREFIX}" "-DREEF_SOURCE=${REEF_SOURCE}" "-DREEF_VERSION=${VERSION}")
if(NO_MPI)
  list(APPEND options -DCMAKE_DISABLE_FIND_PACKAGE_MPI=ON)
endif()
if(FAILS)
  execute_process(COMMAND ${CMAKE_COMMAND} -S "${SOURCE}" -B "${BINARY}" -G "${GENERATOR}" ${options}
    RESULT_VARIABLE status OUTPUT_VARIABLE output ERROR_VARIABLE output)
  string(REGEX REPLACE "[ \n]+" " " output "${output}")
  if(status EQUAL 0 OR NOT output MATCHES "${FAILS}")
    message(FATAL_ERROR "it must not be configured, for this reason: ${FAILS}\n${output}")
  endif()
  return()
endif()
reef_step("configuring" ${CMAKE_COMMAND} -S "${SOURCE}" -B "${BINARY}" -G "${GENERATOR}"
  "-DCMAKE_CXX_COMPILER=${COMPILER}" ${options})
# These projects choose no build type. That is said once, and not to one that has chosen.
string(REGEX MATCHALL "Reef: without a build type" warned "${output}")
list(LENGTH warned warned)
if(options MATCHES "CMAKE_BUILD_TYPE|REEF_WARN_OF_NO_OPTIMISATION" OR GENERATOR MATCHES "Multi|Visual|Xcode")
  set(expected 0)
else()
  set(expected 1)
endif()
if(NOT warned EQUAL expected)
  message(FATAL_ERROR "warned ${warned} times, not ${expected}, of a build without optimisation:\n${output}")
endif()
reef_step("building" ${CMAKE_COMMAND} --build "${BINARY}" --target consumer)
reef_step("running" ${LAUNCHER} "${BINARY}/consumer")
string(FIND "${output}" "reef ${VERSION}: (2, 3, 4) holds 24 elements" position)
if(position EQUAL -1)
  message(FATAL_ERROR "the consumer printed something else:\n${output}")
endif()

foreach(refused IN LISTS REFUSED)
  string(REGEX MATCH "^([^=]+)=(.+)$" refused "${refused}")
  set(reason "${CMAKE_MATCH_2}")
  execute_process(COMMAND ${CMAKE_COMMAND} --build "${BINARY}" --target ${CMAKE_MATCH_1}
    RESULT_VARIABLE status OUTPUT_VARIABLE text ERROR_VARIABLE text)
  if(status EQUAL 0 OR NOT text MATCHES "${reason}")
    message(FATAL_ERROR "${refused}: it must not be built, for this reason.\n${text}")
  endif()
endforeach()

if(PRINTS AND NOT output MATCHES "${PRINTS}")
  message(FATAL_ERROR "the consumer did not print ${PRINTS}:\n${output}")
endif()

if(NO_MPI)
  reef_step("ldd" ldd "${BINARY}/consumer")
  if(output MATCHES "libmpi|libdnnl|blas|libcu")
    message(FATAL_ERROR "a program of reef::core needs a library that it never uses:\n${output}")
  endif()
endif()
