# cmake -DPREFIX=... -DOTHER=... -DVERSION=0.1.0 -P other_version.cmake
#
# Copies what is installed in PREFIX to OTHER, as version 99.0.0 of Reef, whose inline namespace is v99.

cmake_minimum_required(VERSION 3.25)

file(REMOVE_RECURSE "${OTHER}")
file(COPY "${PREFIX}/include" "${PREFIX}/share" DESTINATION "${OTHER}")
file(GLOB files "${OTHER}/include/reef/core/*.hpp" "${OTHER}/include/reef/core/*.ipp" "${OTHER}/share/cmake/reef/*.cmake")
foreach(file IN LISTS files)
  file(READ "${file}" text)
  string(REGEX REPLACE "inline v[0-9]+" "inline v99" text "${text}")
  string(REPLACE "${VERSION}" "99.0.0" text "${text}")
  file(WRITE "${file}" "${text}")
endforeach()
