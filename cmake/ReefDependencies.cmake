# Finds what Reef stands on. The build and the installed package config both use this file, so that
# a consumer finds the same things by the same rules, at its own configure time.
#
#   reef_find_core()             Threads::Threads, Boost::headers, nlohmann_json (for io/ only)
#   reef_find_text()             reef::pcre2 (REEF_HAS_PCRE2), reef::utf8proc (REEF_HAS_UTF8PROC), reef::sentencepiece
#                                (REEF_HAS_SENTENCEPIECE), each if it is there: of tokenizers, linked by who asks for them
#   reef_find_mpi()              reef::mpi           if an MPI with C bindings is there
#   reef_find_blas()             reef::blas          oneDNN (REEF_HAS_DNNL), else CBLAS (REEF_HAS_CBLAS)
#   reef_find_cuda(AUTO|ON|OFF)  reef::cuda_toolkit  if a CUDA toolkit is there (REEF_HAS_CUDA)
#   reef_find_torch()            reef::libtorch      if libtorch is there, and this compiler takes its headers
#   reef_find_swarm()            reef::openssl       if OpenSSL 3 is there; Asio and Beast are among Boost's headers
#   reef_what_lacks(OUT core|reef|cuda|torch|swarm)  a sentence; empty where nothing does
#   reef_check_copy(OUT VERSION DIRECTORY)           a sentence if another Reef is in this build that does
#                                                    not go with this one; empty otherwise
#   reef_explain_links(reef|cuda|torch)                  once all is configured, to what links it though it lacks
#   reef_warn_of_no_optimisation()                   once all is configured, of a build without
#
# Those that find are macros: what find_package() sets must reach the caller's scope.

macro(reef_find_core)
  find_package(Threads QUIET)
  find_package(Boost 1.74 QUIET)
  find_package(nlohmann_json QUIET)
endmacro()

# By libraries and headers: what Debian has of the three describes itself in three ways.
macro(reef_find_text)
  foreach(reef_text IN ITEMS "pcre2|pcre2-8|pcre2.h" "utf8proc|utf8proc|utf8proc.h"
      "sentencepiece|sentencepiece|sentencepiece_processor.h")
    string(REPLACE "|" ";" reef_text "${reef_text}")
    list(POP_FRONT reef_text reef_text_name reef_text_library reef_text_header)
    string(TOUPPER "${reef_text_name}" reef_text_upper)
    if(NOT TARGET reef::${reef_text_name})
      find_library(REEF_${reef_text_upper}_LIBRARY ${reef_text_library})
      find_path(REEF_${reef_text_upper}_INCLUDE_DIR ${reef_text_header})
      mark_as_advanced(REEF_${reef_text_upper}_LIBRARY REEF_${reef_text_upper}_INCLUDE_DIR)
      if(REEF_${reef_text_upper}_LIBRARY AND REEF_${reef_text_upper}_INCLUDE_DIR)
        add_library(reef::${reef_text_name} INTERFACE IMPORTED GLOBAL)
        target_link_libraries(reef::${reef_text_name} INTERFACE "${REEF_${reef_text_upper}_LIBRARY}")
        target_include_directories(reef::${reef_text_name} INTERFACE "${REEF_${reef_text_upper}_INCLUDE_DIR}")
        target_compile_definitions(reef::${reef_text_name} INTERFACE REEF_HAS_${reef_text_upper})
      endif()
    endif()
  endforeach()
endmacro()

# Where both are installed, Open MPI is taken: its collectives stay usable with more ranks than
# cores. Set MPI_EXECUTABLE_SUFFIX or MPI_HOME to choose another. Nothing is changed for a project
# that found its MPI before us.
macro(reef_find_mpi)
  if(NOT TARGET reef::mpi)
    if(NOT TARGET MPI::MPI_C AND NOT DEFINED MPI_EXECUTABLE_SUFFIX AND NOT DEFINED MPI_HOME
        AND NOT DEFINED MPI_C_COMPILER AND NOT DEFINED ENV{MPI_HOME})
      find_program(REEF_MPICC_OPENMPI mpicc.openmpi)
      mark_as_advanced(REEF_MPICC_OPENMPI)
      if(REEF_MPICC_OPENMPI)
        set(MPI_EXECUTABLE_SUFFIX .openmpi)
      endif()
    endif()
    # A project in C++ alone is served too: the C bindings are called from C++ either way.
    get_property(reef_languages GLOBAL PROPERTY ENABLED_LANGUAGES)
    if(NOT "C" IN_LIST reef_languages)
      enable_language(C)
    endif()
    find_package(MPI QUIET COMPONENTS C)
    if(TARGET MPI::MPI_C)
      add_library(reef::mpi INTERFACE IMPORTED GLOBAL)
      target_link_libraries(reef::mpi INTERFACE MPI::MPI_C)
      # The removed C++ bindings would otherwise be included, and need a second library.
      target_compile_definitions(reef::mpi INTERFACE
        OMPI_SKIP_MPICXX MPICH_SKIP_MPICXX REEF_HAS_MPI)
    endif()
  endif()
endmacro()

# By library and header, not by dnnl-config.cmake: that one asks for an OpenCL SDK.
macro(reef_find_blas)
  if(NOT TARGET reef::blas)
    find_library(REEF_DNNL_LIBRARY dnnl)
    find_path(REEF_DNNL_INCLUDE_DIR oneapi/dnnl/dnnl.h)
    find_library(REEF_CBLAS_LIBRARY NAMES openblas cblas blas)
    find_path(REEF_CBLAS_INCLUDE_DIR cblas.h PATH_SUFFIXES openblas)
    mark_as_advanced(REEF_DNNL_LIBRARY REEF_DNNL_INCLUDE_DIR
                     REEF_CBLAS_LIBRARY REEF_CBLAS_INCLUDE_DIR)
    if(REEF_DNNL_LIBRARY AND REEF_DNNL_INCLUDE_DIR)
      add_library(reef::blas INTERFACE IMPORTED GLOBAL)
      target_link_libraries(reef::blas INTERFACE "${REEF_DNNL_LIBRARY}")
      target_include_directories(reef::blas INTERFACE "${REEF_DNNL_INCLUDE_DIR}")
      target_compile_definitions(reef::blas INTERFACE REEF_HAS_DNNL)
    elseif(REEF_CBLAS_LIBRARY AND REEF_CBLAS_INCLUDE_DIR)
      add_library(reef::blas INTERFACE IMPORTED GLOBAL)
      target_link_libraries(reef::blas INTERFACE "${REEF_CBLAS_LIBRARY}")
      target_include_directories(reef::blas INTERFACE "${REEF_CBLAS_INCLUDE_DIR}")
      target_compile_definitions(reef::blas INTERFACE REEF_HAS_CBLAS)
    endif()
  endif()
endmacro()

macro(reef_find_cuda reef_wanted)
  if(NOT "${reef_wanted}" STREQUAL "OFF" AND NOT TARGET reef::cuda_toolkit)
    find_package(CUDAToolkit QUIET)
    if(TARGET CUDA::cudart_static AND TARGET CUDA::cublasLt)
      add_library(reef::cuda_toolkit INTERFACE IMPORTED GLOBAL)
      target_link_libraries(reef::cuda_toolkit INTERFACE CUDA::cudart_static CUDA::cublasLt)
      target_compile_definitions(reef::cuda_toolkit INTERFACE REEF_HAS_CUDA)
      # CUDA 13 keeps Thrust, CUB and libcu++ in a folder that CMake 3.25 does not know. Without
      # it a .cpp would take another Thrust from the system than the .cu that it links with.
      find_path(REEF_CCCL_INCLUDE_DIR cub/version.cuh NO_DEFAULT_PATH
        HINTS ${CUDAToolkit_INCLUDE_DIRS} PATH_SUFFIXES cccl)
      mark_as_advanced(REEF_CCCL_INCLUDE_DIR)
      if(REEF_CCCL_INCLUDE_DIR)
        target_include_directories(reef::cuda_toolkit SYSTEM INTERFACE "${REEF_CCCL_INCLUDE_DIR}")
      endif()
    elseif("${reef_wanted}" STREQUAL "ON")
      message(FATAL_ERROR
        "REEF_ENABLE_CUDA=ON, but no CUDA toolkit with cudart_static and cublasLt was found.\n"
        "Install one, point CUDAToolkit_ROOT at it, or configure with -DREEF_ENABLE_CUDA=AUTO.")
    endif()
  endif()
  # CMake before 3.25.2 has no C++20 flag for nvcc, so cxx_std_20 on a target with .cu files is
  # refused. nvcc itself has had the flag since CUDA 12.
  if(CMAKE_CUDA_COMPILER_ID STREQUAL "NVIDIA" AND NOT CMAKE_CUDA20_STANDARD_COMPILE_OPTION)
    set(CMAKE_CUDA20_STANDARD_COMPILE_OPTION "-std=c++20")
    set(CMAKE_CUDA20_EXTENSION_COMPILE_OPTION "-std=c++20")
  endif()
endmacro()

# By libraries and headers: TorchConfig.cmake would set flags for all that is built. Those of 1.13 are not taken by clang
# as C++20 (an incomplete type in a std::vector).
macro(reef_find_torch)
  if(NOT TARGET reef::libtorch)
    find_library(REEF_TORCH_LIBRARY torch)
    # The rest of it lies beside: parts of two would not go together.
    get_filename_component(reef_torch_folder "${REEF_TORCH_LIBRARY}" DIRECTORY)
    find_library(REEF_TORCH_CPU_LIBRARY torch_cpu PATHS "${reef_torch_folder}" NO_DEFAULT_PATH)
    find_library(REEF_C10_LIBRARY c10 PATHS "${reef_torch_folder}" NO_DEFAULT_PATH)
    find_library(REEF_TORCH_CUDA_LIBRARY torch_cuda PATHS "${reef_torch_folder}" NO_DEFAULT_PATH)
    find_library(REEF_C10_CUDA_LIBRARY c10_cuda PATHS "${reef_torch_folder}" NO_DEFAULT_PATH)
    find_path(REEF_TORCH_INCLUDE_DIR torch/csrc/api/include/torch/version.h HINTS "${reef_torch_folder}/../include")
    mark_as_advanced(REEF_TORCH_LIBRARY REEF_TORCH_CPU_LIBRARY REEF_C10_LIBRARY REEF_TORCH_INCLUDE_DIR
                     REEF_TORCH_CUDA_LIBRARY REEF_C10_CUDA_LIBRARY)
    if(REEF_TORCH_LIBRARY AND REEF_TORCH_CPU_LIBRARY AND REEF_C10_LIBRARY AND REEF_TORCH_INCLUDE_DIR)
      file(STRINGS "${REEF_TORCH_INCLUDE_DIR}/torch/csrc/api/include/torch/version.h" REEF_TORCH_VERSION
        REGEX "define TORCH_VERSION_MAJOR ")
      string(REGEX MATCH "[0-9]+" REEF_TORCH_VERSION "${REEF_TORCH_VERSION}")
      if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU" OR NOT REEF_TORCH_VERSION EQUAL 1)  # newer ones say it elsewhere
        add_library(reef::libtorch INTERFACE IMPORTED GLOBAL)
        target_link_libraries(reef::libtorch INTERFACE
          "${REEF_TORCH_LIBRARY}" "${REEF_TORCH_CPU_LIBRARY}" "${REEF_C10_LIBRARY}")
        target_include_directories(reef::libtorch SYSTEM INTERFACE
          "${REEF_TORCH_INCLUDE_DIR}" "${REEF_TORCH_INCLUDE_DIR}/torch/csrc/api/include")
        if(REEF_TORCH_CUDA_LIBRARY AND REEF_C10_CUDA_LIBRARY)
          # Programs that use no name of it need it too: it makes itself known when it is loaded.
          target_link_libraries(reef::libtorch INTERFACE "${REEF_C10_CUDA_LIBRARY}"
            "-Wl,--push-state,--no-as-needed,${REEF_TORCH_CUDA_LIBRARY},--pop-state")
        endif()
      endif()
    endif()
  endif()
endmacro()

macro(reef_find_swarm)
  if(NOT TARGET reef::openssl)
    find_package(OpenSSL 3 QUIET)
    if(TARGET OpenSSL::SSL AND OpenSSL_VERSION VERSION_GREATER_EQUAL 3 OR TARGET OpenSSL::SSL AND OPENSSL_VERSION VERSION_GREATER_EQUAL 3)
      add_library(reef::openssl INTERFACE IMPORTED GLOBAL)
      target_link_libraries(reef::openssl INTERFACE OpenSSL::SSL OpenSSL::Crypto)
    endif()
  endif()
endmacro()

function(reef_what_lacks output component)
  set(lacks "")
  if(NOT TARGET Threads::Threads)
    string(APPEND lacks " Threads were not found: is a language C or CXX enabled before?")
  endif()
  if(NOT TARGET Boost::headers)
    string(APPEND lacks " The headers of Boost, 1.74 or later, were not found "
      "(Debian and Ubuntu: apt-get install libboost-dev; elsewhere: set BOOST_ROOT).")
  endif()
  if(component STREQUAL "reef")
    if(NOT TARGET reef::mpi)
      string(APPEND lacks " No MPI with C bindings was found "
        "(Debian and Ubuntu: apt-get install libopenmpi-dev openmpi-bin; elsewhere: set MPI_HOME).")
    endif()
    if(NOT TARGET reef::blas)
      string(APPEND lacks " Neither oneDNN nor a CBLAS was found "
        "(Debian and Ubuntu: apt-get install libdnnl-dev, or libopenblas-dev; elsewhere: set CMAKE_PREFIX_PATH).")
    endif()
  elseif(component STREQUAL "cuda" AND NOT TARGET reef::cuda_toolkit)
    string(APPEND lacks " No CUDA toolkit with cudart_static and cublasLt was found (set CUDAToolkit_ROOT).")
  elseif(component STREQUAL "torch" AND NOT TARGET reef::libtorch)
    if(REEF_TORCH_VERSION)
      string(APPEND lacks " The headers of libtorch ${REEF_TORCH_VERSION} compile as C++20 with g++ alone (set CMAKE_CXX_COMPILER).")
    else()
      string(APPEND lacks " libtorch was not found (Debian: apt-get install libtorch-dev; elsewhere: set CMAKE_PREFIX_PATH).")
    endif()
  endif()
  if(component MATCHES "^swarm" AND NOT TARGET reef::openssl)
    string(APPEND lacks " OpenSSL 3 was not found (Debian and Ubuntu: apt-get install libssl-dev; elsewhere: set OPENSSL_ROOT_DIR).")
  endif()
  if(lacks)
    set(lacks "reef::${component} cannot be had.${lacks}")
  endif()
  set(${output} "${lacks}" PARENT_SCOPE)
endfunction()

# A build has one target reef::core. Copies of Reef that differ in their last number alone go together.
function(reef_check_copy output version directory)
  set(${output} "" PARENT_SCOPE)
  if(TARGET reef::core)
    get_target_property(present reef::core REEF_VERSION)
    get_target_property(where reef::core HEADER_DIRS)
    string(REGEX MATCH "^[0-9]+[.][0-9]+[.]" present_minor "${present}")
    string(REGEX MATCH "^[0-9]+[.][0-9]+[.]" minor "${version}")
    if(NOT present)
      set(present "of another version")
    endif()
    if(NOT where)
      set(where "another part of it")
    endif()
    if(NOT minor STREQUAL present_minor)
      set(${output} "Reef ${version} in ${directory} does not go into one build with Reef ${present}, which is \
there already, from ${where}. fix: let all parts of the build use one version, or build one part as a project \
of its own: in one program the two stand side by side." PARENT_SCOPE)
    endif()
  endif()
endfunction()

# Who links what cannot be had is told why, where CMake itself would say that a target was not found. At the end,
# as only then it is known who does, and each component once.
function(reef_explain_links component)
  get_property(asked GLOBAL PROPERTY REEF_EXPLAINS_LINKS)
  if(NOT asked)
    cmake_language(DEFER DIRECTORY "${CMAKE_SOURCE_DIR}" CALL reef_explain_links_now)
  endif()
  if(NOT component IN_LIST asked)
    set_property(GLOBAL APPEND PROPERTY REEF_EXPLAINS_LINKS ${component})
  endif()
endfunction()

function(reef_explain_links_now)
  get_property(components GLOBAL PROPERTY REEF_EXPLAINS_LINKS)
  foreach(component IN LISTS components)
    reef_what_lacks(problem ${component})  # another part of the build may have found it since
    reef_who_links(linking reef::${component})
    if(problem AND linking)
      message(SEND_ERROR "The target reef::${component} is linked by ${linking}. ${problem}")
    endif()
  endforeach()
endfunction()

function(reef_who_links output library)
  set(found "")
  set(folders "${CMAKE_SOURCE_DIR}")
  while(folders)
    list(POP_FRONT folders folder)
    get_property(below DIRECTORY "${folder}" PROPERTY SUBDIRECTORIES)
    list(APPEND folders ${below})
    get_property(targets DIRECTORY "${folder}" PROPERTY BUILDSYSTEM_TARGETS)
    foreach(target IN LISTS targets)
      get_property(links TARGET ${target} PROPERTY LINK_LIBRARIES)
      get_property(passed_on TARGET ${target} PROPERTY INTERFACE_LINK_LIBRARIES)
      if(library IN_LIST links OR library IN_LIST passed_on)
        list(APPEND found ${target})
      endif()
    endforeach()
  endwhile()
  list(JOIN found ", " found)
  set(${output} "${found}" PARENT_SCOPE)
endfunction()

# No build type is -O0 in most compilers. At the end, as a project may yet choose one, and once.
function(reef_warn_of_no_optimisation)
  get_property(asked GLOBAL PROPERTY REEF_WARNS_OF_NO_OPTIMISATION)
  if(NOT asked)
    set_property(GLOBAL PROPERTY REEF_WARNS_OF_NO_OPTIMISATION TRUE)
    cmake_language(DEFER DIRECTORY "${CMAKE_SOURCE_DIR}" CALL reef_warn_of_no_optimisation_now)
  endif()
endfunction()

function(reef_warn_of_no_optimisation_now)
  if(DEFINED REEF_WARN_OF_NO_OPTIMISATION AND NOT REEF_WARN_OF_NO_OPTIMISATION)
    return()
  endif()
  reef_is_optimised(optimised)
  if(NOT optimised)
    message(WARNING "Reef: without a build type its code is not optimised, and many times slower.\n"
      "  fix: cmake -DCMAKE_BUILD_TYPE=Release, or RelWithDebInfo. If it is to be so: "
      "-DREEF_WARN_OF_NO_OPTIMISATION=OFF.")
  endif()
endfunction()

# Whether somebody has chosen: a build type, or a flag of optimisation for all that is built.
function(reef_is_optimised output)
  get_property(multiple GLOBAL PROPERTY GENERATOR_IS_MULTI_CONFIG)
  get_property(options DIRECTORY "${CMAKE_SOURCE_DIR}" PROPERTY COMPILE_OPTIONS)
  if(multiple OR CMAKE_BUILD_TYPE OR "${CMAKE_CXX_FLAGS};${options}" MATCHES "(^|[ ;:>])[-/]O")
    set(${output} TRUE PARENT_SCOPE)
  else()
    set(${output} FALSE PARENT_SCOPE)
  endif()
endfunction()
