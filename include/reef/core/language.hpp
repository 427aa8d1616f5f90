#pragma once

/// \file
/// Checks that the compiler has what Reef needs. Every header includes this one first, so that a missing flag is one
/// error, of one sentence, instead of a hundred that follow from it.

#if defined(_MSVC_LANG)
#define REEF_CPLUSPLUS _MSVC_LANG
#else
#define REEF_CPLUSPLUS __cplusplus
#endif

#if REEF_CPLUSPLUS < 202002L
#error \
"Reef needs C++20. fix: compile with -std=c++20 (CMake: link reef::core, or set CMAKE_CXX_STANDARD to 20; MSVC: \
/std:c++20)."
#include <compile-with-C++20>  // ends the compilation, as no other line does in all compilers
#elif !defined(__cpp_exceptions) && !defined(__EXCEPTIONS) && !defined(_CPPUNWIND)
#error "Reef needs exceptions, since its errors are thrown. fix: compile without -fno-exceptions (MSVC: with /EHsc)."
#include <compile-with-exceptions>
#endif

#undef REEF_CPLUSPLUS

#ifdef REEF_COMPILED
#include <reef/core/inline.hpp>  // asks the linker for the library
#endif
