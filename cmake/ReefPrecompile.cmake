# reef_precompile(TARGET [HEADER...])
#
# Parses <reef/trainer.hpp>, or the headers given, once for all sources of a target (a precompiled header), and
# includes them in each. It pays from the second source on, and each time that one is compiled again. With
# ccache, CCACHE_SLOPPINESS=pch_defines,time_macros is needed; ccache then runs in its depend mode for TARGET. Another
# target with the same options shares it: target_precompile_headers(other REUSE_FROM TARGET).
#
# The target links reef::reef or reef::compiled (reef::core or reef::compiled_core where HEADER needs no more),
# before or after. Sources in other languages than C++ are left as they are.

include_guard(GLOBAL)

function(reef_precompile target)
  if(NOT TARGET ${target})
    message(FATAL_ERROR
      "reef_precompile(${target}): there is no such target.\n  fix: call it after add_executable or add_library.")
  endif()
  set(headers ${ARGN})
  if(NOT headers)
    set(headers reef/trainer.hpp)
  endif()
  list(TRANSFORM headers REPLACE "^<(.*)>$" "\\1")
  list(TRANSFORM headers REPLACE "(.+)" "$<$<COMPILE_LANGUAGE:CXX>:<\\1$<ANGLE-R>>")
  target_precompile_headers(${target} PRIVATE ${headers})
  # A precompiled header of g++ holds a checksum of each file with a #pragma once. Outside of depend mode ccache takes
  # one from before where nothing but a comment has changed, and that file is then defined twice.
  get_target_property(launcher ${target} CXX_COMPILER_LAUNCHER)
  if(launcher MATCHES "ccache")
    set_property(TARGET ${target} PROPERTY CXX_COMPILER_LAUNCHER ${CMAKE_COMMAND} -E env CCACHE_DEPEND=1 ${launcher})
  endif()
endfunction()
