# cmake -DCOMPILER=g++ -DSOURCE=rule.cpp -DINCLUDES=a;b -DDEFINITIONS=X;Y -P compile_fail.cmake
#
# Compiles SOURCE twice. As it is it must fail with the text of its first line; with -DFIXED it must
# compile, so that the way out which the message recommends is itself tested.

cmake_minimum_required(VERSION 3.25)

set(command "${COMPILER}" -std=c++20 -fsyntax-only -x c++)
foreach(directory IN LISTS INCLUDES)
  list(APPEND command "-I${directory}")
endforeach()
foreach(definition IN LISTS DEFINITIONS)
  list(APPEND command "-D${definition}")
endforeach()

file(STRINGS "${SOURCE}" first LIMIT_COUNT 1)
if(NOT first MATCHES "^// expect: (.+)$")
  message(FATAL_ERROR "${SOURCE}: line 1 must be `// expect: TEXT`.")
endif()
set(expected "${CMAKE_MATCH_1}")

execute_process(COMMAND ${command} "${SOURCE}"
  RESULT_VARIABLE status OUTPUT_VARIABLE output ERROR_VARIABLE output)
if(status EQUAL 0)
  message(FATAL_ERROR "${SOURCE} compiles, but must not.")
endif()
string(FIND "${output}" "${expected}" position)
if(position EQUAL -1)
  message(FATAL_ERROR "${SOURCE} fails, but not with\n  ${expected}\nThe compiler says:\n${output}")
endif()

execute_process(COMMAND ${command} -DFIXED "${SOURCE}"
  RESULT_VARIABLE status OUTPUT_VARIABLE output ERROR_VARIABLE output)
if(NOT status EQUAL 0)
  message(FATAL_ERROR "${SOURCE} with -DFIXED must compile. The compiler says:\n${output}")
endif()
