# cmake -DPREFIX=... -DMOVED=... -DMPIEXEC=mpiexec -DVERSION=0.1.0 -P programs.cmake
#
# What is installed runs from wherever it is moved to, and says its version; without --data it trains on the
# headers that lie beside it.

cmake_minimum_required(VERSION 3.25)

function(check expected)
  execute_process(COMMAND ${ARGN} RESULT_VARIABLE status OUTPUT_VARIABLE output ERROR_VARIABLE output)
  if(NOT status EQUAL 0 OR NOT output MATCHES "${expected}")
    message(FATAL_ERROR "${ARGN}: status ${status}, expected ${expected} in:\n${output}")
  endif()
endfunction()

file(REMOVE_RECURSE "${MOVED}")
file(COPY "${PREFIX}/bin" "${PREFIX}/include" "${PREFIX}/share" DESTINATION "${MOVED}")

foreach(program IN ITEMS reef-train reef-plan reef-measure reef-generate)
  check("^${program} ${VERSION}\n$" "${MOVED}/bin/${program}" --version)
  check("--version" "${MOVED}/bin/${program}" --help)
endforeach()
check("sources in ${MOVED}/include/reef" ${MPIEXEC} -n 1 "${MOVED}/bin/reef-train" --model 1x2x32
  --context 16 --batch 4 --threads 1 --steps 1)

file(GLOB_RECURSE licence "${MOVED}/share/doc/LICENSE")
if(NOT licence)
  message(FATAL_ERROR "the licence is not installed")
endif()

file(REMOVE_RECURSE "${MOVED}/include")
