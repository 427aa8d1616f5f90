# The packages of pkg-config, for who compiles by a command line. What they name beside Reef is what this build has
# found, so they serve the machine that they were installed on.
#
#   reef                 reef::core
#   reef-mpi             reef::reef: the MPI and the BLAS that CMake found
#   reef-compiled-core   reef::compiled_core, if it was built by then
#   reef-compiled        reef::compiled, the same
#
# reef-mpi names an MPI itself: it is for a compiler, or the wrapper (mpicxx) of that MPI.

# Each finds its own prefix from where it lies, so an installed tree can be moved.
file(RELATIVE_PATH reef_pc_prefix "/${CMAKE_INSTALL_DATADIR}/pkgconfig" "/")
string(REGEX REPLACE "/$" "" reef_pc_prefix "${reef_pc_prefix}")

# Of targets what a compiler is told, and what a linker. Folders that these know by themselves are left out; one that
# the loader does not know is named to it.
function(reef_flags_of cflags libs)
  set(compile "")
  set(link "")
  foreach(target IN LISTS ARGN)
    get_target_property(options ${target} INTERFACE_COMPILE_OPTIONS)
    get_target_property(link_options ${target} INTERFACE_LINK_OPTIONS)
    get_target_property(definitions ${target} INTERFACE_COMPILE_DEFINITIONS)
    get_target_property(folders ${target} INTERFACE_INCLUDE_DIRECTORIES)
    get_target_property(libraries ${target} INTERFACE_LINK_LIBRARIES)
    list(APPEND compile ${options})
    list(APPEND link ${link_options})
    foreach(definition IN LISTS definitions)
      list(APPEND compile "-D${definition}")
    endforeach()
    foreach(folder IN LISTS folders)
      if(NOT folder IN_LIST CMAKE_CXX_IMPLICIT_INCLUDE_DIRECTORIES)
        list(APPEND compile "-I${folder}")
      endif()
    endforeach()
    foreach(library IN LISTS libraries)
      if(IS_ABSOLUTE "${library}")
        file(REAL_PATH "${library}" real)
        get_filename_component(folder "${real}" DIRECTORY)
        if(real MATCHES "[.]so" AND NOT folder IN_LIST CMAKE_CXX_IMPLICIT_LINK_DIRECTORIES)
          list(APPEND link "-Wl,-rpath,${folder}")
        endif()
        list(APPEND link "${library}")
      elseif(library MATCHES "^-")
        list(APPEND link "${library}")
      endif()
    endforeach()
  endforeach()
  foreach(list IN ITEMS compile link)
    list(FILTER ${list} EXCLUDE REGEX "NOTFOUND$|[$]<|BOOST_ALL_NO_LIB")  # generator expressions are CMake's own
    list(TRANSFORM ${list} REPLACE "^SHELL:" "")
  endforeach()
  list(REMOVE_DUPLICATES compile)
  list(JOIN compile " " compile)
  list(JOIN link " " link)
  set(${cflags} "${compile}" PARENT_SCOPE)
  set(${libs} "${link}" PARENT_SCOPE)
endfunction()

# reef_package(NAME DESCRIPTION REQUIRES CFLAGS LIBS [OF library])   installed if the library, if any, was built
function(reef_package reef_pc_name reef_pc_description reef_pc_requires reef_pc_cflags reef_pc_libs)
  set(package "${PROJECT_BINARY_DIR}/${reef_pc_name}.pc")
  configure_file(cmake/package.pc.in "${package}" @ONLY)
  if(ARGC EQUAL 5)
    install(FILES "${package}" DESTINATION "${CMAKE_INSTALL_DATADIR}/pkgconfig")
  else()
    install(CODE "if(EXISTS \"$<TARGET_FILE:${ARGV6}>\")
      file(INSTALL \"${package}\" DESTINATION \"\${CMAKE_INSTALL_PREFIX}/${CMAKE_INSTALL_DATADIR}/pkgconfig\")
    endif()")
  endif()
endfunction()

set(reef_pc_parts Boost::headers)
if(TARGET nlohmann_json::nlohmann_json)
  list(APPEND reef_pc_parts nlohmann_json::nlohmann_json)
endif()
reef_flags_of(reef_pc_cflags reef_pc_libs ${reef_pc_parts})
reef_package(reef "${PROJECT_DESCRIPTION}" "" "-I\${includedir} -pthread ${reef_pc_cflags}" "-pthread")
reef_package(reef-compiled-core "Reef, with what no template argument changes in a library" "reef = ${PROJECT_VERSION}"
  "-DREEF_COMPILED" "-L\${libdir} -lreef_compiled_core" OF reef_compiled_core)
if(TARGET reef::mpi AND TARGET reef::blas)
  reef_flags_of(reef_pc_cflags reef_pc_libs reef::mpi MPI::MPI_C reef::blas)
  reef_package(reef-mpi "Reef with MPI and a BLAS" "reef = ${PROJECT_VERSION}" "${reef_pc_cflags}" "${reef_pc_libs}")
  reef_package(reef-compiled "Reef with MPI and a BLAS, and with what no template argument changes in a library"
    "reef-compiled-core = ${PROJECT_VERSION}, reef-mpi = ${PROJECT_VERSION}" "-DREEF_MODELS_IN_LIBRARY" "-L\${libdir} -lreef_compiled"
    OF reef_compiled)
endif()
