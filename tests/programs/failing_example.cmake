# cmake -DMPIEXEC=mpiexec;... -DPROGRAM=smallest-trainer -DDATA=LICENSE -P failing_example.cmake
#
# What a program of examples/ cannot go on with is said in the two lines of the error, and nothing hides them.

cmake_minimum_required(VERSION 3.25)

function(check what most)
  execute_process(COMMAND ${MPIEXEC} ${ARGN} TIMEOUT 300
    RESULT_VARIABLE status OUTPUT_VARIABLE output ERROR_VARIABLE output)
  if(NOT status MATCHES "^[1-9]")
    message(FATAL_ERROR "${what}: the job ended with ${status}:\n${output}")
  endif()
  string(REGEX MATCHALL "smallest-trainer: [^\n]*" said "${output}")
  list(LENGTH said times)
  if(times LESS 1 OR times GREATER most OR NOT output MATCHES "fix: " OR output MATCHES "terminate called|Signal: |Aborted")
    message(FATAL_ERROR "${what}: the error is not said, and alone:\n${output}")
  endif()
endfunction()

check("what both ranks find, once unless the launcher is slow to end the other" 2 -n 2 "${PROGRAM}")
check("what rank 1 alone finds" 1 -n 1 "${PROGRAM}" "${DATA}" : -n 1 "${PROGRAM}" /nowhere/no.txt)
