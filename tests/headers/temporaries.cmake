# cmake -DINCLUDE=include/reef -P temporaries.cmake
#
# No accessor refers into a temporary: what is returned by reference, by pointer, or as a view (std::span,
# std::string_view) of the object itself is `const&`, and has beside it a `const&&` that gives a copy, or is deleted
# where a copy costs what the object holds. So `const Shape& s = call.input(0).shape();` cannot dangle.
#
# A line `HEADER: NAME: reason` in temporaries_exceptions.txt says where the answer lies elsewhere (of a view), or
# the object is of a type that nothing gives by value.

cmake_minimum_required(VERSION 3.25)

file(STRINGS "${CMAKE_CURRENT_LIST_DIR}/temporaries_exceptions.txt" exceptions REGEX "^[^#]")
set(excepted "")
set(wrong "")
foreach(exception IN LISTS exceptions)
  if(NOT exception MATCHES "^([^:]+: [a-z_]+): [^ ]")
    string(APPEND wrong "temporaries_exceptions.txt: ${exception}\n  fix: `HEADER: NAME: reason`.\n")
  endif()
  list(APPEND excepted "${CMAKE_MATCH_1}")
endforeach()

set(view "(std::)?span<[^()@]*>|std::string_view|[^()@{}=]*[&*]")
set(used "")
set(qualified 0)
file(GLOB_RECURSE headers RELATIVE "${INCLUDE}" "${INCLUDE}/*.hpp" "${INCLUDE}/*.cuh")
list(FILTER headers EXCLUDE REGEX "/detail/")
foreach(header IN LISTS headers)
  file(READ "${INCLUDE}/${header}" text)
  string(REGEX REPLACE "//[^\n]*" "" text "${text}")
  string(REPLACE "[[nodiscard]]" "@" text "${text}")
  string(REGEX REPLACE "[][\n ]+" " " text "${text}")
  string(REPLACE ";" "@;" text "${text}")
  string(REPLACE ";" "" text "${text}")  # a list has one element a declaration
  string(REGEX MATCHALL "@ (virtual )?(const )?(${view}) [a-z_]+\\([^@{}]*\\) const&? ?(noexcept )?[@{=]" found "${text}")
  foreach(declaration IN LISTS found)
    string(REGEX MATCH " ([a-z_]+)\\(" match "${declaration}")
    set(name "${CMAKE_MATCH_1}")
    if(declaration MATCHES "\\) const& ?(noexcept )?[@{=]$")
      math(EXPR qualified "${qualified} + 1")
      if(NOT text MATCHES " ${name}\\([^@{}]*\\) const&&")
        string(APPEND wrong "${header}: ${name}() is const&, and has no const&& beside it: a temporary calls the first.\n"
          "  fix: a const&& that gives a copy, or `= delete`.\n")
      endif()
      continue()
    endif()
    set(name "${header}: ${name}")
    list(APPEND used "${name}")
    if(NOT name IN_LIST excepted)
      string(APPEND wrong "${name}() refers into an object that may be a temporary:${declaration}\n"
        "  fix: return it by value where that is cheap; else const&, and beside it a const&& that gives a copy, or `= delete`; "
        "or a line with the reason in tests/headers/temporaries_exceptions.txt.\n")
    endif()
  endforeach()
endforeach()

foreach(name IN LISTS excepted)
  if(NOT name IN_LIST used)
    string(APPEND wrong "temporaries_exceptions.txt: ${name}: there is no such accessor.\n  fix: take the line out.\n")
  endif()
endforeach()
if(qualified EQUAL 0)
  message(FATAL_ERROR "no accessor was found under ${INCLUDE}")
endif()
if(wrong)
  message(FATAL_ERROR "${wrong}")
endif()
