# cmake -DINCLUDE=include/reef -P language.cmake
#
# Every header reaches core/language.hpp, which says in one sentence what a compiler or a flag lacks: each
# includes another one of Reef, and language.hpp is the only one that includes none. Namespaces are opened in a way that
# Universal Ctags understands.

cmake_minimum_required(VERSION 3.25)

file(GLOB_RECURSE headers RELATIVE "${INCLUDE}" "${INCLUDE}/*.hpp" "${INCLUDE}/*.cuh")
if(NOT "core/language.hpp" IN_LIST headers)
  message(FATAL_ERROR "there is no ${INCLUDE}/core/language.hpp")
endif()
list(REMOVE_ITEM headers core/language.hpp)
set(wrong "")
foreach(header IN LISTS headers)
  file(STRINGS "${INCLUDE}/${header}" lines REGEX "^#include <reef/" LIMIT_COUNT 1)
  if(NOT lines)
    string(APPEND wrong "${header} includes no header of Reef. fix: #include <reef/core/language.hpp>\n")
  endif()
endforeach()
file(GLOB_RECURSE files RELATIVE "${INCLUDE}" "${INCLUDE}/*.hpp" "${INCLUDE}/*.cuh" "${INCLUDE}/*.ipp")
foreach(file IN LISTS files)
  file(STRINGS "${INCLUDE}/${file}" lines REGEX "namespace [a-z_:]*::inline ")
  if(lines)
    string(APPEND wrong "${file}: ${lines}\n  fix: namespace reef {, inline namespace v0 {, and the rest, each on a line.\n")
  endif()
endforeach()

if(wrong)
  message(FATAL_ERROR "${wrong}")
endif()
