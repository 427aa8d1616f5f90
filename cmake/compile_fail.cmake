# cmake -DCOMPILER=g++ -DSOURCE=rule.cpp -DINCLUDES=a;b -DDEFINITIONS=X;Y [-DOPTIONS=-O] [-DHEADER=a.hpp -DFOLDER=f] -P compile_fail.cmake
# cmake -DCOMPILER=g++ -DHEADER=a.hpp -DFOLDER=f -DINCLUDES=a;b -DDEFINITIONS=X;Y [-DOPTIONS=-O] -P compile_fail.cmake
#
# Without SOURCE: HEADER is parsed into FOLDER, once for all sources that include it.
#
# Compiles SOURCE twice. As it is it must fail with the text of its first line; with -DFIXED it must
# compile, so that the way out which the message recommends is itself tested.
#
# A second line `// broken by: FLAG...` gives flags of the first compilation; then the text must be in the
# compiler's first error, since what is wrong with the flags shows in every line.

cmake_minimum_required(VERSION 3.25)

set(flags -std=c++20 ${OPTIONS})
foreach(definition IN LISTS DEFINITIONS)
  list(APPEND flags "-D${definition}")
endforeach()
set(includes "")
foreach(directory IN LISTS INCLUDES)
  list(APPEND includes "-I${directory}")
endforeach()

if(NOT SOURCE)
  file(WRITE "${FOLDER}/parsed.hpp" "#include <${HEADER}>\n")
  execute_process(COMMAND "${COMPILER}" ${flags} ${includes} -x c++-header "${FOLDER}/parsed.hpp"
      -o "${FOLDER}/parsed.hpp.gch"
    COMMAND_ERROR_IS_FATAL ANY)
  return()
endif()

set(command "${COMPILER}" ${flags} ${includes} -fsyntax-only)
file(STRINGS "${SOURCE}" uses REGEX "^#include <${HEADER}>")
if(HEADER AND uses)
  list(APPEND command -include "${FOLDER}/parsed.hpp")
endif()
list(APPEND command -x c++)

file(STRINGS "${SOURCE}" first LIMIT_COUNT 1)
if(NOT first MATCHES "^// expect: (.+)$")
  message(FATAL_ERROR "${SOURCE}: line 1 must be `// expect: TEXT`.")
endif()
set(expected "${CMAKE_MATCH_1}")

file(STRINGS "${SOURCE}" flags REGEX "^// broken by: ")
string(REGEX REPLACE "^// broken by: " "" flags "${flags}")
separate_arguments(flags UNIX_COMMAND "${flags}")

execute_process(COMMAND ${command} ${flags} "${SOURCE}"
  RESULT_VARIABLE status OUTPUT_VARIABLE output ERROR_VARIABLE output)
if(status EQUAL 0)
  message(FATAL_ERROR "${SOURCE} compiles, but must not.")
endif()
if(flags AND output MATCHES "[^\n]*error: [^\n]*")
  set(output "${CMAKE_MATCH_0}")
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
