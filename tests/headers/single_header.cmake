# cmake -DPYTHON=python3 -DPART=part|all -DREEF=... -DOUTPUT=folder -DCOMPILER=c++ -P single_header.cmake
#
# What cmake/single_header.py writes is compiled, in a program of two units, with no other header of Reef in sight.

cmake_minimum_required(VERSION 3.25)

set(headers "")
set(call "schedule::World::uniform(2, {}, {}).links.size() == 4")
if(PART STREQUAL "part")
  set(headers reef/core/shape.hpp reef/schedule/simulate.hpp)
endif()
set(folder "${OUTPUT}/single_header_of_${PART}")
file(REMOVE_RECURSE "${folder}")
file(MAKE_DIRECTORY "${folder}")

function(reef_step what)
  execute_process(COMMAND ${ARGN} WORKING_DIRECTORY "${folder}" RESULT_VARIABLE status OUTPUT_VARIABLE output ERROR_VARIABLE output)
  if(NOT status EQUAL 0)
    message(FATAL_ERROR "${what} failed (${status}):\n${output}")
  endif()
endfunction()

reef_step("writing the header" "${PYTHON}" "${REEF}/cmake/single_header.py" ${headers} --output reef_core.hpp)
file(READ "${folder}/reef_core.hpp" text)
if(text MATCHES "\n#include <(reef/[^>]*|mpi[.]h)>")
  message(FATAL_ERROR "the single header includes <${CMAKE_MATCH_1}>")
endif()
file(WRITE "${folder}/first.cpp" "#include \"reef_core.hpp\"\nreef::Bytes size_of(const reef::Shape& shape) { return shape.size(); }\n")
file(WRITE "${folder}/second.cpp" "#include \"reef_core.hpp\"
using namespace reef;
Bytes size_of(const Shape& shape);
int main() { return size_of({2, 3, 4}) == 24 && ${call} ? 0 : 1; }
")
reef_step("compiling" "${COMPILER}" -std=c++20 -O0 -Wall -Wextra first.cpp second.cpp -o two_units)
reef_step("running" "${folder}/two_units")
