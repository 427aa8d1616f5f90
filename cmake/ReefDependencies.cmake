# Finds what Reef stands on. The build and the installed package config both use this file, so that
# a consumer finds the same things by the same rules, at its own configure time.
#
#   reef_find_core([REQUIRED])   Threads::Threads, Boost::headers, nlohmann_json (for io/ only)
#   reef_find_mpi()              reef::mpi           if an MPI with C bindings is there
#   reef_find_blas()             reef::blas          oneDNN (REEF_HAS_DNNL), else CBLAS (REEF_HAS_CBLAS)
#   reef_find_cuda(AUTO|ON|OFF)  reef::cuda_toolkit  if a CUDA toolkit is there (REEF_HAS_CUDA)
#
# Each is a macro: what find_package() sets must reach the caller's scope.

include_guard(DIRECTORY)

macro(reef_find_core)
  find_package(Threads QUIET ${ARGN})
  find_package(Boost 1.74 QUIET ${ARGN})
  find_package(nlohmann_json QUIET)
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
