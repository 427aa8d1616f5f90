# cmake -DCUOBJDUMP=path -P ptx.cmake PROGRAM...
#
# Every program has PTX, which a GPU that is newer than the program compiles.

cmake_minimum_required(VERSION 3.25)

set(wrong "")
set(programs 0)
foreach(i RANGE 0 ${CMAKE_ARGC})
  if(i LESS 5 OR NOT EXISTS "${CMAKE_ARGV${i}}")  # cmake -D... -P this --
    continue()
  endif()
  math(EXPR programs "${programs} + 1")
  execute_process(COMMAND "${CUOBJDUMP}" --list-ptx "${CMAKE_ARGV${i}}" OUTPUT_VARIABLE ptx ERROR_VARIABLE ptx)
  if(NOT ptx MATCHES "PTX file.*[.]ptx")
    list(APPEND wrong "${CMAKE_ARGV${i}} has no PTX: ${ptx}")
  endif()
endforeach()

if(programs EQUAL 0)
  message(FATAL_ERROR "no program was found among those named")
endif()
if(wrong)
  list(JOIN wrong "\n" wrong)
  message(FATAL_ERROR "${wrong}")
endif()
