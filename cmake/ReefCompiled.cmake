# The compiled library: what no template argument changes, out of the .ipp beside the headers.
#
#   reef::compiled_core   reef::core, compiled: what needs no MPI
#   reef::compiled        reef::reef, compiled: reef::compiled_core, and the rest
#
# Linked in place of reef::core or reef::reef. Built when something links it, or by
# `cmake --build . --target reef_compiled`; installed if it was built by then.

# Of those in reef::compiled what calls nothing of MPI: a unit by themselves, so that a program which asks a Trainer only
# what a step will be links none.
set(reef_bodies_of_plans "^reef/(comm/options|compress/detail/replanning|trainer/(settings|detail/(diagnosis|hooks|planning|policies)))[.]")

# Adds a translation unit that includes these .ipp to `sources`, if there are any.
function(reef_add_unit name unit)
  set(bodies ${ARGN})
  if(NOT bodies)
    return()
  endif()
  list(SORT bodies)
  list(TRANSFORM bodies REPLACE "(.+)" "#include <\\1>")
  list(JOIN bodies "\n" bodies)
  file(CONFIGURE OUTPUT "${PROJECT_BINARY_DIR}/${name}/${unit}.cpp" CONTENT "${bodies}\n")
  set(sources ${sources} "${PROJECT_BINARY_DIR}/${name}/${unit}.cpp" PARENT_SCOPE)
endfunction()

# A unit for each folder, of the bodies that IMPLEMENTATION, a header, includes.
function(reef_add_compiled name base implementation)
  set(sources "${PROJECT_SOURCE_DIR}/src/${name}.cpp")
  set(of_plans "")
  set(header "${PROJECT_SOURCE_DIR}/include/reef/${implementation}")
  set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS "${header}")
  file(STRINGS "${header}" all REGEX "^#include <reef/.*[.]ipp>")
  list(TRANSFORM all REPLACE "^#include <(.*)>" "\\1")
  set(folders ${all})
  list(TRANSFORM folders REPLACE "^reef/(swarm/[^/]+|[^/]+)/.*" "\\1")
  list(REMOVE_DUPLICATES folders)
  foreach(folder IN LISTS folders)
    set(bodies ${all})
    list(FILTER bodies INCLUDE REGEX "^reef/${folder}/")
    foreach(body IN LISTS bodies)
      if(body MATCHES "${reef_bodies_of_plans}")
        list(APPEND of_plans ${body})
      endif()
    endforeach()
    list(FILTER bodies EXCLUDE REGEX "${reef_bodies_of_plans}")
    reef_add_unit(${name} ${folder} ${bodies})
  endforeach()
  reef_add_unit(${name} plans ${of_plans})
  if(name STREQUAL "compiled_core")
    list(APPEND sources "${PROJECT_SOURCE_DIR}/src/compiled_graph.cpp")
  elseif(name STREQUAL "compiled")
    list(APPEND sources "${PROJECT_SOURCE_DIR}/src/compiled_bloom.cpp" "${PROJECT_SOURCE_DIR}/src/compiled_gpt.cpp"
      "${PROJECT_SOURCE_DIR}/src/compiled_gpt_neox.cpp" "${PROJECT_SOURCE_DIR}/src/compiled_llama.cpp"
      "${PROJECT_SOURCE_DIR}/src/compiled_session.cpp" "${PROJECT_SOURCE_DIR}/src/compiled_trainer.cpp")
  endif()
  add_library(reef_${name} STATIC EXCLUDE_FROM_ALL ${sources})
  add_library(reef::${name} ALIAS reef_${name})
  target_link_libraries(reef_${name} PUBLIC ${base} PRIVATE $<TARGET_NAME_IF_EXISTS:reef_own>)
  target_compile_definitions(reef_${name} PUBLIC REEF_COMPILED)
  if(name STREQUAL "compiled")
    target_compile_definitions(reef_${name} PUBLIC REEF_MODELS_IN_LIBRARY)
  endif()
  # Beside the package files of the build folder, where reef-config.cmake looks first.
  set_target_properties(reef_${name} PROPERTIES POSITION_INDEPENDENT_CODE ON
    ARCHIVE_OUTPUT_DIRECTORY "${PROJECT_BINARY_DIR}")
  if(REEF_INSTALL)
    install(FILES "$<TARGET_FILE:reef_${name}>" DESTINATION "${CMAKE_INSTALL_LIBDIR}" OPTIONAL)
  endif()
endfunction()

reef_add_compiled(compiled_core reef::core core_implementation.hpp)
if(TARGET reef::reef)
  reef_add_compiled(compiled "reef::compiled_core;reef::reef" implementation.hpp)
endif()
# For our own programs; those of others that are header-only, or have one file with swarm_implementation.hpp, need neither.
if(TARGET reef::swarm)
  reef_add_compiled(compiled_swarm "reef::compiled_core;reef::swarm" swarm_implementation.hpp)
endif()
if(TARGET reef::swarm_elastic)
  reef_add_compiled(compiled_swarm_elastic "reef::compiled_swarm;reef::compiled;reef::swarm_elastic" swarm_elastic_implementation.hpp)
endif()
