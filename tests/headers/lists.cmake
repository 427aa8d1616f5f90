# cmake -DINCLUDE=include/reef -P lists.cmake
#
# What an instruction does follows from what it says, never from how many values it names: lists of operands are
# counted by views, which say what stands where, and by schedule/, to which all instructions are alike.

cmake_minimum_required(VERSION 3.25)

file(GLOB_RECURSE files RELATIVE "${INCLUDE}" "${INCLUDE}/*.hpp" "${INCLUDE}/*.ipp" "${INCLUDE}/*.cuh")
set(views 0)
set(wrong "")
foreach(file IN LISTS files)
  file(STRINGS "${INCLUDE}/${file}" lines REGEX "[.>](reads|writes|accumulates|after)[.](size|empty)[(]")
  if(file MATCHES "views[.][hi]pp$|^run/(operands|transfers)[.][hi]pp$|^schedule/")
    list(LENGTH lines counted)
    math(EXPR views "${views} + ${counted}")
  elseif(lines)
    string(APPEND wrong "${file}: ${lines}\n  fix: a mode or a function of the instruction, or a view of its kind.\n")
  endif()
endforeach()

if(views EQUAL 0)
  message(FATAL_ERROR "no list is counted under ${INCLUDE}, not even by a view")
endif()
if(wrong)
  message(FATAL_ERROR "${wrong}")
endif()
