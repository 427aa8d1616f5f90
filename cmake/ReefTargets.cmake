# The functions by which Reef's own tests, benchmarks and examples are declared. Not installed.
#
#   reef_test(NAME folder.name SOURCES x.cpp... [RANKS 1 2 3 4] [LIBRARIES t...] [LABELS l...]
#             [TIMEOUT seconds] [PROCESSORS n] [ENVIRONMENT "A=1"...] [ARGUMENTS a...] [DEFINITIONS D=1...]
#             [MPI mpich] [CORE] [HEADER_ONLY] [CUDA] [UNITY | TOGETHER])
#   reef_test_under_instruction_sets(NAME folder.name [RANKS 2] [ARGUMENTS a...])   of a test that is there
#   reef_cuda_test(NAME folder.name SOURCES x.cu... [ALSO 80] [the same options])
#   reef_compile_fail(NAME rule SOURCE rule.cpp [HEADER a.hpp] [LIBRARIES t...])
#   reef_bench(NAME folder.name SOURCES x.cpp... [LIBRARIES t...] [RANKS 4] [CUDA])
#   reef_program(NAME reef-train SOURCES x.cpp... [LIBRARIES t...] [INSTALL])
#   reef_add_folders([folder...])   add_subdirectory() for each subfolder that has a CMakeLists.txt, for
#                                   those named here last
#
# What they leave behind: the variable REEF_MPIEXEC (a list: the launcher with what it needs here), and
# the global property REEF_HEADERS_OF_TESTS (the headers that a test includes before all else).

include_guard(GLOBAL)

# -- settings of our own code ------------------------------------------------------------------

set(REEF_SANITIZE "" CACHE STRING "Sanitizers of our own programs, e.g. address,undefined or thread")
option(REEF_SANITIZE_ALL_RANKS "Under a sanitizer, run tests on 4 ranks too that run on 2 or 3" OFF)
option(REEF_WERROR "Treat warnings in our own code as errors" OFF)

option(REEF_CCACHE "Compile our own programs through ccache where it is installed" OFF)
if(REEF_CCACHE)
  find_program(REEF_CCACHE_PROGRAM ccache)
  mark_as_advanced(REEF_CCACHE_PROGRAM)
  if(REEF_CCACHE_PROGRAM)
    # What one clone or worktree has compiled serves the others: paths within it are hashed from the build folder on.
    foreach(language IN ITEMS CXX CUDA)
      if(NOT CMAKE_${language}_COMPILER_LAUNCHER)
        set(CMAKE_${language}_COMPILER_LAUNCHER "${CMAKE_COMMAND}" -E env "CCACHE_BASEDIR=${PROJECT_SOURCE_DIR}"
          CCACHE_NOHASHDIR=1 "${REEF_CCACHE_PROGRAM}")
      endif()
    endforeach()
  endif()
endif()

# ISO C++: what compiles here compiles for a user who has turned the extensions off.
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_CUDA_EXTENSIONS OFF)

# Linked privately by our programs only, so a user of reef::reef never sees these.
add_library(reef_own INTERFACE)
target_compile_options(reef_own INTERFACE
  "$<$<COMPILE_LANGUAGE:CXX>:-Wall;-Wextra;-Wshadow;-Wconversion;-Wpedantic;-Wold-style-cast>"
  "$<$<COMPILE_LANGUAGE:CUDA>:SHELL:-Xcompiler -Wall,-Wextra,-Wshadow,-Wconversion>")
if(REEF_WERROR)
  target_compile_options(reef_own INTERFACE
    $<$<COMPILE_LANGUAGE:CXX>:-Werror> "$<$<COMPILE_LANGUAGE:CUDA>:SHELL:-Werror all-warnings>")
endif()
if(REEF_SANITIZE)
  target_compile_options(reef_own INTERFACE
    "$<$<COMPILE_LANGUAGE:CXX>:-fsanitize=${REEF_SANITIZE};-fno-omit-frame-pointer>")
  if(REEF_SANITIZE MATCHES "undefined")
    # Without recovery an error ends the program, and its checks are cheaper to compile. A null
    # reference is left to AddressSanitizer, which sees it when it is used.
    target_compile_options(reef_own INTERFACE
      "$<$<COMPILE_LANGUAGE:CXX>:-fno-sanitize-recover=undefined;-fno-sanitize=null>")
  endif()
  target_link_options(reef_own INTERFACE -fsanitize=${REEF_SANITIZE})
  if(REEF_SANITIZE MATCHES "thread")
    # ThreadSanitizer does not know fences, and g++ says so of Asio's.
    target_compile_definitions(reef_own INTERFACE $<$<COMPILE_LANGUAGE:CXX>:BOOST_ASIO_DISABLE_FENCED_BLOCK>)
  endif()
  # libstdc++ looks at indices and iterators too, within what has been allocated.
  target_compile_definitions(reef_own INTERFACE $<$<COMPILE_LANGUAGE:CXX>:_GLIBCXX_ASSERTIONS>)
endif()

# g++ that collects its garbage from 1 GiB on, not 128 MiB, takes a sixth less time for a Trainer and a
# quarter more memory.
set(reef_own_collection "")
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  set(reef_own_collection --param=ggc-min-heapsize=1048576)
  target_compile_options(reef_own INTERFACE
    $<$<COMPILE_LANGUAGE:CXX>:${reef_own_collection}>
    $<$<COMPILE_LANGUAGE:CUDA>:-Xcompiler=${reef_own_collection}>)
endif()

# -- CUDA language -----------------------------------------------------------------------------

# reef::cuda needs no CUDA language; our own .cu files do. Where nobody chooses architectures, programs are
# built for the GPUs that are here, else for all, and always with PTX, which newer ones compile.
#
#   REEF_HAS_GPU             a GPU is here, or REEF_FOR_GPU says that one will be, and tests are built for it: with
#                            its tensor cores
#   REEF_CUDA_TESTS_FOR_ANY  neither that nor chosen: tests are built as PTX, which any GPU compiles
set(REEF_HAS_CUDA_LANGUAGE FALSE)
option(REEF_FOR_GPU "Build CUDA tests for a GPU of CMAKE_CUDA_ARCHITECTURES that is on another machine" OFF)
set(REEF_HAS_GPU ${REEF_FOR_GPU})
set(REEF_CUDA_TESTS_FOR_ANY FALSE)
if(TARGET reef::cuda)
  execute_process(COMMAND nvidia-smi --query-gpu=compute_cap --format=csv,noheader
    RESULT_VARIABLE reef_no_gpu OUTPUT_VARIABLE reef_gpus ERROR_QUIET OUTPUT_STRIP_TRAILING_WHITESPACE)
  string(REGEX MATCHALL "[0-9]+[.][0-9]" reef_gpus "${reef_gpus}")
  if(reef_no_gpu EQUAL 0 AND reef_gpus)
    set(REEF_HAS_GPU TRUE)
  endif()
  if(NOT DEFINED CMAKE_CUDA_ARCHITECTURES AND NOT DEFINED ENV{CUDAARCHS})
    set(CMAKE_CUDA_ARCHITECTURES 75-real 80-real 90)
    if(REEF_HAS_GPU)
      list(REMOVE_DUPLICATES reef_gpus)
      list(TRANSFORM reef_gpus REPLACE "[.]" "")
      # One that this nvcc does not know compiles PTX, as the oldest does.
      execute_process(COMMAND "${CUDAToolkit_NVCC_EXECUTABLE}" --list-gpu-arch
        OUTPUT_VARIABLE reef_known ERROR_QUIET)
      set(reef_all_known TRUE)
      foreach(gpu IN LISTS reef_gpus)
        if(NOT reef_known MATCHES "compute_${gpu}[^0-9]")
          set(reef_all_known FALSE)
        endif()
      endforeach()
      if(reef_all_known)
        set(CMAKE_CUDA_ARCHITECTURES "${reef_gpus}")
      endif()
    else()
      set(REEF_CUDA_TESTS_FOR_ANY TRUE)
    endif()
  endif()
  if(NOT DEFINED CMAKE_CUDA_COMPILER AND NOT DEFINED ENV{CUDACXX} AND CUDAToolkit_NVCC_EXECUTABLE)
    set(CMAKE_CUDA_COMPILER "${CUDAToolkit_NVCC_EXECUTABLE}")
  endif()
  include(CheckLanguage)
  check_language(CUDA)
  if(CMAKE_CUDA_COMPILER)
    enable_language(CUDA)
    reef_find_cuda(AUTO)  # its C++20 flag for nvcc
    set(REEF_HAS_CUDA_LANGUAGE TRUE)
    message(STATUS "Reef: CUDA ${CUDAToolkit_VERSION}, sm ${CMAKE_CUDA_ARCHITECTURES}")
  elseif(REEF_ENABLE_CUDA STREQUAL "ON")
    message(FATAL_ERROR "REEF_ENABLE_CUDA=ON, but nvcc does not compile here. See CMakeFiles/CMakeError.log.")
  endif()
endif()
if(NOT REEF_HAS_CUDA_LANGUAGE)
  message(STATUS "Reef: no CUDA, .cu programs are left out")
endif()

option(REEF_ALL_CUDA_TESTS "Build also the CUDA tests that take long to compile, which no GPU here would run"
  ${REEF_HAS_GPU})

# -- MPI launcher ------------------------------------------------------------------------------

# As root, with more ranks than cores, several jobs side by side: no binding, or all would share
# core 0. One thread a rank unless a test says otherwise. A launcher that ends a job over a rank that
# failed kills the others at once: Open MPI's would first give them two seconds.
set(reef_rank_environment
  OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
  OMPI_MCA_rmaps_base_oversubscribe=1 OMPI_MCA_hwloc_base_binding_policy=none
  OMPI_MCA_btl_vader_single_copy_mechanism=none OMPI_MCA_btl_base_warn_component_unused=0
  OMPI_MCA_odls_base_sigkill_timeout=0
  OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1)

set(REEF_MPIEXEC "${MPIEXEC_EXECUTABLE}")
if(TARGET reef::mpi AND NOT REEF_MPIEXEC)
  message(WARNING "Reef: an MPI library was found, but no mpiexec: tests with ranks are left out.")
endif()

# MPICH beside Open MPI, for the tests that run under both. pkg-config names it in Debian.
set(REEF_MPIEXEC_MPICH "")
find_package(PkgConfig QUIET)
if(PkgConfig_FOUND)
  pkg_check_modules(reef_mpich_pc QUIET mpich)
  find_program(REEF_MPIEXEC_MPICH_PROGRAM mpiexec.mpich)
  find_library(REEF_MPICH_LIBRARY mpich HINTS ${reef_mpich_pc_LIBRARY_DIRS})
  mark_as_advanced(REEF_MPIEXEC_MPICH_PROGRAM REEF_MPICH_LIBRARY)
  if(reef_mpich_pc_FOUND AND REEF_MPIEXEC_MPICH_PROGRAM AND REEF_MPICH_LIBRARY)
    set(REEF_MPIEXEC_MPICH "${REEF_MPIEXEC_MPICH_PROGRAM}")
    add_library(reef_mpich INTERFACE)
    target_include_directories(reef_mpich SYSTEM INTERFACE ${reef_mpich_pc_INCLUDE_DIRS})
    target_link_libraries(reef_mpich INTERFACE "${REEF_MPICH_LIBRARY}")
    target_compile_definitions(reef_mpich INTERFACE MPICH_SKIP_MPICXX REEF_HAS_MPI)
  endif()
endif()

# -- helpers -----------------------------------------------------------------------------------

# The environment of one ctest entry: ranks or not, sanitizer, then the test's own. REEF_CASES, where case
# files are, is the caller's.
function(reef_test_environment output ranks)
  set(environment "")
  if(ranks)
    list(APPEND environment ${reef_rank_environment})
  else()
    list(APPEND environment OMP_NUM_THREADS=2 OPENBLAS_NUM_THREADS=2
      OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1)
  endif()
  if(REEF_SANITIZE MATCHES "address")
    # MPI libraries and OpenMP leak by design, from modules that are gone when the leak is printed.
    if(ranks)
      list(APPEND environment ASAN_OPTIONS=detect_leaks=0)
    else()
      list(APPEND environment
        "LSAN_OPTIONS=suppressions=${PROJECT_SOURCE_DIR}/tests/support/lsan.supp:print_suppressions=0")
    endif()
    list(APPEND environment UBSAN_OPTIONS=print_stacktrace=1)
  elseif(REEF_SANITIZE MATCHES "thread")
    list(APPEND environment UCX_MEM_EVENTS=no
      "TSAN_OPTIONS=report_mutex_bugs=0 ignore_noninstrumented_modules=1 report_thread_leaks=0")
  endif()
  set(${output} ${environment} ${ARGN} PARENT_SCOPE)
endfunction()

# "comm.lane" -> the executable comm_lane_test, the folder comm.
macro(reef_split_name suffix)
  string(REGEX MATCH "^[^.]+" folder "${arg_NAME}")
  string(MAKE_C_IDENTIFIER "${arg_NAME}_${suffix}" target)
endmacro()

# One target that builds all of a folder: `cmake --build . --target tests-comm`.
function(reef_group group target)
  if(NOT TARGET ${group})
    add_custom_target(${group})
  endif()
  add_dependencies(${group} ${target})
endfunction()

macro(reef_add_folders)
  file(GLOB reef_folders CONFIGURE_DEPENDS RELATIVE "${CMAKE_CURRENT_SOURCE_DIR}" "*/CMakeLists.txt")
  foreach(reef_folder IN ITEMS ${ARGN})
    list(REMOVE_ITEM reef_folders "${reef_folder}/CMakeLists.txt")
    list(APPEND reef_folders "${reef_folder}/CMakeLists.txt")
  endforeach()
  foreach(reef_folder IN LISTS reef_folders)
    get_filename_component(reef_folder "${reef_folder}" DIRECTORY)
    add_subdirectory("${reef_folder}")
  endforeach()
endmacro()

# Compiles a target's sources, or those given, a few at once: what a Trainer is made of beside its
# policies, which takes nine tenths of the time, is then compiled once for several of them.
function(reef_unite target)
  set_target_properties(${target} PROPERTIES UNITY_BUILD ON UNITY_BUILD_BATCH_SIZE 4)
  if(ARGN)
    set_source_files_properties(${ARGN} PROPERTIES UNITY_GROUP ${target})
    set_target_properties(${target} PROPERTIES UNITY_BUILD_MODE GROUP)
  endif()
endfunction()

# If a test's source begins with `#include <reef/x.hpp>`, it compiles x.hpp alone, with the warnings of
# our own code: tests/headers leaves it to that test.
function(reef_note_first_include source)
  file(STRINGS "${source}" line REGEX "^[^/]" LIMIT_COUNT 1)  # the first that is not blank or a comment
  if(line MATCHES "^#include <(reef/.+[.]hpp)>$")
    set_property(GLOBAL APPEND PROPERTY REEF_HEADERS_OF_TESTS "${CMAKE_MATCH_1}")
    set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS "${source}")
  endif()
endfunction()

# Of reef_test(... TOGETHER): adds the source to the program of its kind.
macro(reef_test_together)
  if(NOT arg_SOURCES MATCHES "^[^;]+[.]cpp$")
    message(FATAL_ERROR "reef_test(${arg_NAME}): TOGETHER is for one source, a .cpp")
  endif()
  set(target ${folder} ${arg_MPI})
  if(arg_CORE)
    list(APPEND target core)
  endif()
  if(arg_HEADER_ONLY)
    list(APPEND target header_only)
  endif()
  if(arg_RANKS)
    list(APPEND target ranks)
  endif()
  string(MAKE_C_IDENTIFIER "${target}_tests${reef_test_optimisation}" target)
  if(NOT TARGET ${target})
    add_executable(${target})
  endif()
  target_sources(${target} PRIVATE ${arg_SOURCES})
  set_target_properties(${target} PROPERTIES UNITY_BUILD ON UNITY_BUILD_BATCH_SIZE 0)
endmacro()

# -- tests -------------------------------------------------------------------------------------

# Without RANKS: a GoogleTest program (with tests/support/main.cpp), and one ctest entry `folder.name`.
# With RANKS: one program with an MPI-aware main (tests/support/mpi_main.cpp), and one ctest entry
# `folder.name.p3` per rank count. Only these link MPI, unless LIBRARIES names reef::reef.
#
#   LIBRARIES    further libraries. The base is reef::compiled; with CORE it is reef::compiled_core alone.
#   HEADER_ONLY  the base is reef::reef or reef::core. So it is of CUDA and of MPI mpich
#   LABELS       added to the folder's name and, with RANKS, to `mpi`
#   TIMEOUT      seconds after which it counts as one that hangs, on an idle machine; default 60. A busy machine gets five
#                times as many, and a sanitizer three times those
#   PROCESSORS   that ctest is to keep for it, default its ranks; fewer where they mostly wait for the clock
#   ENVIRONMENT  added to, and winning over, what reef_test_environment sets
#   ARGUMENTS    of the program
#   MPI mpich    builds against MPICH and runs under its launcher; left out where there is none, and
#                under a sanitizer, which sees the same code of ours with either MPI
#   CUDA         links reef::cuda; left out where there is no toolkit
#   UNITY        its sources are compiled as few (reef_unite)
#   TOGETHER     its one source shares a program with the folder's others that say so and agree in CORE,
#                HEADER_ONLY, RANKS or not, MPI and optimisation: compiled as one unit, which parses headers, and makes
#                code for what is inline, once for all. An entry runs the tests of its own source
#                (tests/support/only.hpp). Not for laws, whose tests are in a header, nor for a source
#                that puts functions in others' place. A name is used by one source only.
#   ONE_THREAD   it starts none, so ThreadSanitizer has nothing to see, and is spared it
#
# A sanitizer looks into processes, and sees of 4 of them what it sees of 2 or 3: with REEF_SANITIZE_ALL_RANKS alone it gets 4.
function(reef_test)
  cmake_parse_arguments(PARSE_ARGV 0 arg "CORE;HEADER_ONLY;CUDA;UNITY;TOGETHER;ONE_THREAD" "NAME;TIMEOUT;PROCESSORS;MPI"
    "SOURCES;RANKS;LIBRARIES;LABELS;ENVIRONMENT;ARGUMENTS;DEFINITIONS")
  reef_check_arguments(reef_test)
  if(arg_CUDA AND NOT REEF_HAS_CUDA_LANGUAGE)
    return()
  endif()
  if(REEF_SANITIZE STREQUAL "thread" AND arg_ONE_THREAD)
    return()
  endif()
  if(REEF_SANITIZE AND NOT REEF_SANITIZE_ALL_RANKS AND arg_RANKS MATCHES "[23]")
    list(REMOVE_ITEM arg_RANKS 4)
  endif()
  if(arg_MPI STREQUAL "mpich")
    if(REEF_SANITIZE)
      return()
    endif()
    if(NOT REEF_MPIEXEC_MPICH OR NOT TARGET reef::blas)
      message(STATUS "Reef: no MPICH, ${arg_NAME} is left out")
      return()
    endif()
    set(launcher "${REEF_MPIEXEC_MPICH}")
    set(base reef::core reef::blas reef_mpich)
  elseif(arg_CORE)
    set(base reef::core)
  else()
    set(launcher "${REEF_MPIEXEC}")
    set(base reef::reef)
  endif()
  if("reef::reef" IN_LIST base AND NOT TARGET reef::reef)
    return()
  endif()
  if(NOT arg_HEADER_ONLY AND NOT arg_CUDA AND NOT arg_MPI)
    list(TRANSFORM base REPLACE "^reef::core$" reef::compiled_core)
    list(TRANSFORM base REPLACE "^reef::reef$" reef::compiled)
  endif()
  if(arg_RANKS AND NOT launcher)
    message(STATUS "Reef: no mpiexec, ${arg_NAME} is left out")
    return()
  endif()

  reef_split_name(test)
  if(arg_TOGETHER)
    reef_test_together()
    list(PREPEND arg_ARGUMENTS --only=${arg_SOURCES})
  else()
    add_executable(${target} ${arg_SOURCES})
  endif()
  target_link_libraries(${target} PRIVATE ${base} ${arg_LIBRARIES} reef_own GTest::gmock GTest::gtest)
  target_include_directories(${target} PRIVATE "${PROJECT_SOURCE_DIR}/tests")
  target_compile_definitions(${target} PRIVATE ${arg_DEFINITIONS})
  # -O1 compiles a third faster than the -O2 of reef-train, which is what users run; the last -O wins.
  # Trainers call what is compiled: -Og makes their tests in a third less time, and no slower. A folder that tests kernels
  # asks for -O2 in reef_test_optimisation, one that computes little for -O0.
  if("reef_test_trainers" IN_LIST arg_LIBRARIES)
    set(reef_test_optimisation -Og)  # as what they precompile
  elseif(NOT reef_test_optimisation)
    set(reef_test_optimisation -O1)
  endif()
  target_compile_options(${target} PRIVATE $<$<CONFIG:Release>:$<IF:$<COMPILE_LANGUAGE:CUDA>,-Xcompiler=-O1,${reef_test_optimisation}>>)
  # What no GPU will run is compiled all the same, but not made fast. An -O3 of nvcc's own would come
  # last and win over -Xcompiler: the presets give none.
  if(NOT REEF_HAS_GPU)
    target_compile_options(${target} PRIVATE
      "$<$<COMPILE_LANGUAGE:CUDA>:-Xcicc=-O0;-Xptxas=-O0;-Xcompiler=-O0>")
  endif()
  if(arg_UNITY)
    reef_unite(${target})
  endif()
  if("reef_test_trainers" IN_LIST arg_LIBRARIES AND NOT arg_CUDA)
    target_precompile_headers(${target} REUSE_FROM reef_test_trainers)
  elseif(NOT arg_UNITY AND NOT arg_TOGETHER AND NOT arg_CUDA)
    reef_note_first_include(${arg_SOURCES})
  endif()
  if(arg_CUDA)
    target_link_libraries(${target} PRIVATE reef::cuda)
    list(APPEND arg_LABELS cuda)
  endif()
  if(arg_RANKS)
    if(arg_MPI STREQUAL "mpich")
      target_link_libraries(${target} PRIVATE reef_mpi_main_mpich)
    else()
      target_link_libraries(${target} PRIVATE reef_mpi_main)
    endif()
    list(APPEND arg_LABELS mpi)
  else()
    target_link_libraries(${target} PRIVATE reef_test_main)
  endif()
  reef_group(tests-${folder} ${target})

  if(NOT arg_TIMEOUT)
    set(arg_TIMEOUT 60)
  endif()
  math(EXPR arg_TIMEOUT "5 * ${arg_TIMEOUT}")
  if(REEF_SANITIZE)
    math(EXPR arg_TIMEOUT "3 * ${arg_TIMEOUT}")
  endif()
  set(entries "")
  if(arg_RANKS)
    foreach(ranks IN LISTS arg_RANKS)
      add_test(NAME ${arg_NAME}.p${ranks}
        COMMAND ${launcher} -n ${ranks} $<TARGET_FILE:${target}> ${arg_ARGUMENTS})
      set(processors ${ranks})
      if(arg_PROCESSORS)
        set(processors ${arg_PROCESSORS})
      endif()
      set_tests_properties(${arg_NAME}.p${ranks} PROPERTIES PROCESSORS ${processors})
      list(APPEND entries ${arg_NAME}.p${ranks})
    endforeach()
    reef_test_environment(environment TRUE ${arg_ENVIRONMENT})
  else()
    add_test(NAME ${arg_NAME} COMMAND ${target} ${arg_ARGUMENTS})
    list(APPEND entries ${arg_NAME})
    reef_test_environment(environment FALSE ${arg_ENVIRONMENT})
  endif()
  set_tests_properties(${entries} PROPERTIES
    TIMEOUT ${arg_TIMEOUT} LABELS "${folder};${arg_LABELS}" ENVIRONMENT "${environment}")
  if(arg_CUDA)
    # One at a time: they look at what the device has free.
    set_tests_properties(${entries} PROPERTIES RESOURCE_LOCK cuda)
  endif()
endfunction()

# Runs a test that is there once more for each set of vector instructions: NAME.sse2, .avx2, .avx512;
# one of RANKS under mpiexec. Its laws skip where the processor lacks the set. Not of one that is TOGETHER. The largest
# set, which the test itself takes where the processor has it, is under the label `long`.
function(reef_test_under_instruction_sets)
  cmake_parse_arguments(PARSE_ARGV 0 arg "" "NAME;RANKS" "ARGUMENTS")
  reef_check_arguments(reef_test_under_instruction_sets)
  reef_split_name(test)
  if(NOT TARGET ${target} OR REEF_SANITIZE)
    return()
  endif()
  set(command ${target} ${arg_ARGUMENTS})
  if(arg_RANKS)
    set(command ${REEF_MPIEXEC} -n ${arg_RANKS} $<TARGET_FILE:${target}> ${arg_ARGUMENTS})
  endif()
  foreach(set sse2 avx2 avx512)
    add_test(NAME ${arg_NAME}.${set} COMMAND ${command})
    reef_test_environment(environment "${arg_RANKS}" REEF_INSTRUCTION_SET=${set})
    set_tests_properties(${arg_NAME}.${set} PROPERTIES
      TIMEOUT 1200 LABELS "${folder}" ENVIRONMENT "${environment}"
      SKIP_REGULAR_EXPRESSION "this processor has no ")
    if(arg_RANKS)
      set_tests_properties(${arg_NAME}.${set} PROPERTIES PROCESSORS ${arg_RANKS})
    endif()
    if(set STREQUAL "avx512")
      set_tests_properties(${arg_NAME}.${set} PROPERTIES LABELS "${folder};long")
    endif()
  endforeach()
endfunction()

# Runs a test of RANKS once more, NAME.long.pR, with more to do, as ENVIRONMENT says: under the label `long`,
# which tests/run.sh leaves out without --all.
function(reef_test_at_length)
  cmake_parse_arguments(PARSE_ARGV 0 arg "" "NAME;TIMEOUT" "RANKS;ENVIRONMENT;ARGUMENTS")
  reef_check_arguments(reef_test_at_length)
  reef_split_name(test)
  if(NOT TARGET ${target} OR REEF_SANITIZE)
    return()
  endif()
  math(EXPR arg_TIMEOUT "5 * ${arg_TIMEOUT}")
  reef_test_environment(environment TRUE ${arg_ENVIRONMENT})
  foreach(ranks IN LISTS arg_RANKS)
    add_test(NAME ${arg_NAME}.long.p${ranks}
      COMMAND ${REEF_MPIEXEC} -n ${ranks} $<TARGET_FILE:${target}> ${arg_ARGUMENTS})
    set_tests_properties(${arg_NAME}.long.p${ranks} PROPERTIES
      TIMEOUT ${arg_TIMEOUT} LABELS "${folder};mpi;long" PROCESSORS ${ranks} ENVIRONMENT "${environment}")
  endforeach()
endfunction()

# A .cu test: skips itself with a reason where no GPU answers, is left out where there is no nvcc. It has
# code for any GPU; where none is here, that is PTX of the oldest, which costs the least to compile, and of
# ALSO, for what is compiled in another way there.
function(reef_cuda_test)
  cmake_parse_arguments(PARSE_ARGV 0 arg "" "NAME;ALSO" "")
  if(NOT REEF_HAS_CUDA_LANGUAGE)
    return()
  endif()
  reef_test(NAME ${arg_NAME} ${arg_UNPARSED_ARGUMENTS} CUDA)
  reef_split_name(test)
  if(NOT TARGET ${target})
    return()
  endif()
  if(REEF_CUDA_TESTS_FOR_ANY)
    set_target_properties(${target} PROPERTIES CUDA_ARCHITECTURES "75-virtual;${arg_ALSO}")
  endif()
  get_target_property(architectures ${target} CUDA_ARCHITECTURES)
  if(architectures MATCHES "virtual|(^|;)[0-9]+(;|$)")  # else somebody chose to have none
    set_property(GLOBAL APPEND PROPERTY REEF_TESTS_WITH_PTX $<TARGET_FILE:${target}>)
  endif()
endfunction()

# One ctest entry `compile_fail.NAME`. Line 1 of SOURCE is `// expect: TEXT`. The file is compiled
# twice: as it is it must fail, with TEXT among the messages; with -DFIXED it must compile. HEADER, one for
# a folder, is parsed once, by the entry `compile_fail.header`. The base is reef::compiled: what is wrong with
# template arguments does not depend on bodies that a library has, which take twice the time to parse again.
function(reef_compile_fail)
  cmake_parse_arguments(PARSE_ARGV 0 arg "" "NAME;SOURCE;HEADER" "LIBRARIES")
  reef_check_arguments(reef_compile_fail)
  if(NOT arg_LIBRARIES)
    set(arg_LIBRARIES reef::compiled)
  endif()
  foreach(library IN LISTS arg_LIBRARIES)
    if(NOT TARGET ${library})
      return()
    endif()
  endforeach()
  set(includes "")
  set(definitions "")
  foreach(library IN LISTS arg_LIBRARIES)
    list(APPEND includes "$<TARGET_PROPERTY:${library},INTERFACE_INCLUDE_DIRECTORIES>")
    list(APPEND definitions "$<TARGET_PROPERTY:${library},INTERFACE_COMPILE_DEFINITIONS>")
  endforeach()
  set(command ${CMAKE_COMMAND} "-DCOMPILER=${CMAKE_CXX_COMPILER}" "-DINCLUDES=${includes}"
    "-DDEFINITIONS=${definitions}" "-DOPTIONS=${reef_own_collection}")
  if(arg_HEADER)
    list(APPEND command "-DHEADER=${arg_HEADER}" "-DFOLDER=${CMAKE_CURRENT_BINARY_DIR}")
    if(NOT TEST compile_fail.header)
      add_test(NAME compile_fail.header
        COMMAND ${command} -P "${PROJECT_SOURCE_DIR}/cmake/compile_fail.cmake")
      set_tests_properties(compile_fail.header PROPERTIES
        TIMEOUT 600 LABELS compile_fail FIXTURES_SETUP compile_fail.header)
    endif()
  endif()
  get_filename_component(source "${arg_SOURCE}" ABSOLUTE)
  add_test(NAME compile_fail.${arg_NAME}
    COMMAND ${command} "-DSOURCE=${source}" -P "${PROJECT_SOURCE_DIR}/cmake/compile_fail.cmake")
  set_tests_properties(compile_fail.${arg_NAME} PROPERTIES
    TIMEOUT 600 LABELS compile_fail FIXTURES_REQUIRED "$<$<BOOL:${arg_HEADER}>:compile_fail.header>")
endfunction()

# The tests of this folder so far run compilers: each keeps a core, for which tests/run.sh otherwise starts five.
macro(reef_tests_compile)
  get_property(reef_tests DIRECTORY PROPERTY TESTS)
  if(reef_tests)
    set_tests_properties(${reef_tests} PROPERTIES PROCESSORS 5)
  endif()
endmacro()

# -- benchmarks and programs -------------------------------------------------------------------

# The executable folder_name_bench. It is built by `--target bench` and by no default build, and
# run by hand; with RANKS a target `run-folder_name_bench` starts it under mpiexec.
function(reef_bench)
  cmake_parse_arguments(PARSE_ARGV 0 arg "CUDA" "NAME;RANKS" "SOURCES;LIBRARIES")
  reef_check_arguments(reef_bench)
  if(NOT benchmark_FOUND OR NOT TARGET reef::reef OR (arg_CUDA AND NOT REEF_HAS_CUDA_LANGUAGE))
    return()
  endif()
  reef_split_name(bench)
  add_executable(${target} EXCLUDE_FROM_ALL ${arg_SOURCES})
  target_link_libraries(${target} PRIVATE reef::compiled ${arg_LIBRARIES} reef_own benchmark::benchmark)
  target_include_directories(${target} PRIVATE "${PROJECT_SOURCE_DIR}/bench")
  if(arg_CUDA)
    target_link_libraries(${target} PRIVATE reef::cuda)
  endif()
  set_target_properties(${target} PROPERTIES RUNTIME_OUTPUT_DIRECTORY "${PROJECT_BINARY_DIR}/bench")
  reef_group(bench ${target})
  if(arg_RANKS AND REEF_MPIEXEC)
    add_custom_target(run-${target} USES_TERMINAL
      COMMAND ${CMAKE_COMMAND} -E env ${reef_rank_environment}
        ${REEF_MPIEXEC} -n ${arg_RANKS} $<TARGET_FILE:${target}>)
  endif()
endfunction()

# An example program, in build/<preset>/examples. With INSTALL `cmake --install` puts it into bin/, if it was
# built by then; the MPI and the BLAS that it was linked with are found there too.
function(reef_program)
  cmake_parse_arguments(PARSE_ARGV 0 arg "INSTALL" "NAME" "SOURCES;LIBRARIES")
  reef_check_arguments(reef_program)
  if(NOT arg_LIBRARIES)
    set(arg_LIBRARIES reef::reef)
  endif()
  add_executable(${arg_NAME} ${arg_SOURCES})
  target_link_libraries(${arg_NAME} PRIVATE ${arg_LIBRARIES} reef_own)
  set_target_properties(${arg_NAME} PROPERTIES
    RUNTIME_OUTPUT_DIRECTORY "${PROJECT_BINARY_DIR}/examples" INSTALL_RPATH_USE_LINK_PATH ON)
  if(arg_INSTALL AND REEF_INSTALL)
    install(TARGETS ${arg_NAME} OPTIONAL RUNTIME DESTINATION "${CMAKE_INSTALL_BINDIR}")
  endif()
endfunction()

# A misspelt option would otherwise be dropped in silence, and with it what it asked for.
macro(reef_check_arguments caller)
  if(arg_UNPARSED_ARGUMENTS)
    message(FATAL_ERROR "${caller}(${arg_NAME}): unknown arguments: ${arg_UNPARSED_ARGUMENTS}")
  endif()
  if(arg_KEYWORDS_MISSING_VALUES)
    message(FATAL_ERROR "${caller}(${arg_NAME}): no value for ${arg_KEYWORDS_MISSING_VALUES}")
  endif()
endmacro()
