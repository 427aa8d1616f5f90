# cmake -DINCLUDE=include -P columns.cmake
#
# No line of the library has more than 120 bytes, so that comments, tables and texts fit beside another file.

cmake_minimum_required(VERSION 3.25)

file(GLOB_RECURSE headers "${INCLUDE}/*")
if(NOT headers)
  message(FATAL_ERROR "no header was found under ${INCLUDE}")
endif()

string(REPEAT "[^\n]" 121 too_long)
set(wrong "")
foreach(header IN LISTS headers)
  file(READ "${header}" text)
  while(text MATCHES "${too_long}")
    string(FIND "${text}" "${CMAKE_MATCH_0}" begin)
    string(SUBSTRING "${text}" 0 ${begin} before)
    string(REGEX MATCHALL "\n" lines "${before}")
    list(LENGTH lines line)
    math(EXPR line "${line} + 1")
    string(APPEND wrong "\n  ${header}:${line}")
    math(EXPR end "${begin} + 121")
    string(SUBSTRING "${text}" ${end} -1 rest)
    string(FIND "${rest}\n" "\n" end)
    string(SUBSTRING "${rest}" ${end} -1 rest)
    set(text "${before}${rest}")
  endwhile()
endforeach()

if(wrong)
  message(FATAL_ERROR "lines of more than 120 bytes:${wrong}\nfix: break them; clang-format breaks code.")
endif()
