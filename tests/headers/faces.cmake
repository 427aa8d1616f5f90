# cmake -DINCLUDE=include "-DCOMPILE=g++;-std=c++20;..." [-DONLY=trainer/] [-DWRITE=ON] -P faces.cmake
#
# What each public header brings with it where bodies are elsewhere (REEF_COMPILED), of what is slow to read: faces.txt beside this
# file says which of nlohmann (JSON), dnnl (oneDNN), mpi, intrinsics, hana (Boost.Hana) and kernels (nn/host/). A header that is not
# listed brings none. WRITE writes the list anew.
cmake_minimum_required(VERSION 3.25)

set(slow "nlohmann|/nlohmann/json.hpp" "dnnl|/dnnl[.]h" "mpi|/mpi[.]h" "intrinsics|/immintrin[.]h" "hana|/boost/hana/"
  "kernels|/reef/nn/host/(attention|gemm|linear)[.]hpp")
set(list "${CMAKE_CURRENT_LIST_DIR}/faces.txt")
file(STRINGS "${list}" lines REGEX "^reef/")
foreach(line IN LISTS lines)
  string(REGEX MATCH "^[^ ]+" header "${line}")
  string(REPLACE "${header}" "" brings "${line}")
  string(STRIP "${brings}" "expected_${header}")
endforeach()

file(GLOB headers RELATIVE "${INCLUDE}" "${INCLUDE}/reef/*/*.hpp")
list(FILTER headers EXCLUDE REGEX "reef/(torch|.*/cuda)|/nvtx[.]hpp$")
list(FILTER headers INCLUDE REGEX "reef/${ONLY}")
set(found "")
foreach(header IN LISTS headers)
  execute_process(COMMAND ${COMPILE} -DREEF_COMPILED -M -x c++ "${INCLUDE}/${header}"
    OUTPUT_VARIABLE needs ERROR_VARIABLE errors RESULT_VARIABLE status)
  if(NOT status EQUAL 0)
    message(FATAL_ERROR "${header} cannot be read: ${errors}")
  endif()
  set(brings "")
  foreach(one IN LISTS slow)
    string(REGEX MATCH "^([^|]+)[|](.*)$" one "${one}")
    set(name "${CMAKE_MATCH_1}")
    if(needs MATCHES "${CMAKE_MATCH_2}")
      list(APPEND brings "${name}")
    endif()
  endforeach()
  list(JOIN brings " " brings)
  if(brings)
    string(APPEND found "${header} ${brings}\n")
  endif()
  if(NOT WRITE AND NOT brings STREQUAL "${expected_${header}}")
    message(SEND_ERROR "${header} brings [${brings}], and faces.txt says [${expected_${header}}].\n"
      "  fix: include less, or, if that is how it is to be, -DWRITE=ON.")
  endif()
endforeach()
if(WRITE)
  file(WRITE "${list}" "# What headers bring where bodies are elsewhere: written by faces.cmake, which checks it.\n${found}")
endif()
list(LENGTH headers count)
message(STATUS "${count} headers.")
