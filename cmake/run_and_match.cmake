# cmake -DCOMMAND=a;b;c -DSOURCE=example.cpp -P run_and_match.cmake
#
# Runs COMMAND, which must end with status 0, and looks in its output for the text of every line
# `// prints: TEXT` of SOURCE, in this order.

cmake_minimum_required(VERSION 3.25)

execute_process(COMMAND ${COMMAND} RESULT_VARIABLE status OUTPUT_VARIABLE output ERROR_VARIABLE errors)
if(NOT status EQUAL 0)
  message(FATAL_ERROR "exit status ${status}\n${output}\n${errors}")
endif()

file(STRINGS "${SOURCE}" expected REGEX "^// prints: ")
set(rest "${output}")
foreach(line IN LISTS expected)
  string(REGEX REPLACE "^// prints: " "" line "${line}")
  string(FIND "${rest}" "${line}" position)
  if(position EQUAL -1)
    message(FATAL_ERROR "`${line}` is not in the rest of the output:\n${rest}\nThe whole output:\n${output}")
  endif()
  string(LENGTH "${line}" length)
  math(EXPR position "${position} + ${length}")
  string(SUBSTRING "${rest}" ${position} -1 rest)
endforeach()
