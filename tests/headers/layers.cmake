# cmake -DINCLUDE=include/reef -P layers.cmake
#
# The folders are the architecture: a header includes from its own folder and from those below it. The
# four axes never include each other. profile, schedule and plan stand on core, io and trace alone.

cmake_minimum_required(VERSION 3.25)

set(order core io trace profile device codec comm data schedule plan graph nn run
  swap pipeline compress optim trainer swarm torch)
set(axes swap pipeline compress optim)
set(plain profile schedule plan)
set(base core io trace)

file(GLOB_RECURSE headers RELATIVE "${INCLUDE}" "${INCLUDE}/*.hpp" "${INCLUDE}/*.ipp"
  "${INCLUDE}/*.cuh")
set(checked 0)
set(wrong "")
foreach(header IN LISTS headers)
  if(NOT header MATCHES "^([a-z_]+)/")
    continue()  # reef.hpp and the umbrella headers include everything of their own
  endif()
  set(folder "${CMAKE_MATCH_1}")
  list(FIND order "${folder}" own)
  if(own EQUAL -1)
    list(APPEND wrong "${header}: the folder ${folder} has no place in the order of folders")
    continue()
  endif()
  file(STRINGS "${INCLUDE}/${header}" lines REGEX "^ *# *include <reef/")
  foreach(line IN LISTS lines)
    string(REGEX MATCH "<reef/([a-z_]+)" match "${line}")
    set(other "${CMAKE_MATCH_1}")
    math(EXPR checked "${checked} + 1")
    if(other STREQUAL folder)
      continue()
    endif()
    list(FIND order "${other}" below)
    if(below EQUAL -1 OR below GREATER own)
      list(APPEND wrong "${header} includes ${other}/, which is above ${folder}/")
    elseif(folder IN_LIST axes AND other IN_LIST axes)
      list(APPEND wrong "${header} includes ${other}/: the axes meet in trainer/rules.hpp only")
    elseif(folder IN_LIST plain AND NOT other IN_LIST plain AND NOT other IN_LIST base)
      list(APPEND wrong "${header} includes ${other}/: ${folder}/ stands on core, io and trace alone")
    endif()
  endforeach()
endforeach()

if(checked EQUAL 0)
  message(FATAL_ERROR "no include was found under ${INCLUDE}")
endif()
if(wrong)
  list(JOIN wrong "\n" wrong)
  message(FATAL_ERROR "${wrong}")
endif()
