# cmake -DSOURCE=... -DBINARY=... -DREEF_SOURCE=... -DPREFIX=... -DVERSION=... -DCOMPILER=...
#       -DGENERATOR=... [-DLAUNCHER=mpiexec;-n;2] [-DNO_MPI=ON] -P consume.cmake
#
# Configures, builds and runs one consumer from an empty build folder. With NO_MPI it does so as if
# no MPI and no BLAS were installed, and checks that the program needs neither.

cmake_minimum_required(VERSION 3.25)

function(reef_step what)
  execute_process(COMMAND ${ARGN} RESULT_VARIABLE status OUTPUT_VARIABLE output ERROR_VARIABLE output)
  if(NOT status EQUAL 0)
    message(FATAL_ERROR "${what} failed (${status}):\n${output}")
  endif()
  set(output "${output}" PARENT_SCOPE)
endfunction()

file(REMOVE_RECURSE "${BINARY}")
set(options "-DCMAKE_PREFIX_PATH=${PREFIX}" "-DREEF_SOURCE=${REEF_SOURCE}" "-DREEF_VERSION=${VERSION}")
if(NO_MPI)
  list(APPEND options -DCMAKE_DISABLE_FIND_PACKAGE_MPI=ON)
endif()
reef_step("configuring" ${CMAKE_COMMAND} -S "${SOURCE}" -B "${BINARY}" -G "${GENERATOR}"
  "-DCMAKE_CXX_COMPILER=${COMPILER}" ${options})
reef_step("building" ${CMAKE_COMMAND} --build "${BINARY}" --target consumer)
reef_step("running" ${LAUNCHER} "${BINARY}/consumer")
string(FIND "${output}" "reef ${VERSION}: (2, 3, 4) holds 24 elements" position)
if(position EQUAL -1)
  message(FATAL_ERROR "the consumer printed something else:\n${output}")
endif()

if(NO_MPI)
  reef_step("ldd" ldd "${BINARY}/consumer")
  if(output MATCHES "libmpi|libdnnl|blas|libcu")
    message(FATAL_ERROR "a program of reef::core needs a library that it never uses:\n${output}")
  endif()
endif()
