#pragma once

/// \file
/// The three ways to use Reef: from its headers alone; with the compiled library, reef::compiled; or with
/// reef/implementation.hpp in one file of the program, and REEF_COMPILED defined for all files.
///
/// A header X.hpp declares the functions that do not depend on template arguments; their bodies are in X.ipp beside
/// it. Without REEF_COMPILED, the default, X.hpp includes X.ipp at its end. With REEF_COMPILED (the CMake targets
/// reef::compiled_core and reef::compiled define it) the bodies come from the library, and are not compiled again.

#include <reef/core/language.hpp>

/// Marks each function of a .ipp file, and each declaration of a virtual function: if that were not inline, compilers
/// would expect the class's virtual functions in another file, and every program would contain all of them.
#ifdef REEF_COMPILED
#define REEF_INLINE
#else
#define REEF_INLINE inline
#endif

// The compiled library contains those templates that no policy changes, for the host: reef::compiled_core has the graph
// of a model in fp32, and reef::compiled, which has a BLAS, the code that runs a step in fp32, and GPT-2's graphs with
// their kernels. trainer/detail/in_library.hpp and nn/gpt.hpp declare them; src/compiled_graph.cpp,
// compiled_trainer.cpp and compiled_gpt.cpp instantiate them. A template that is declared but not instantiated is an
// error of the linker.

#ifdef REEF_COMPILED
#include <cstddef>  // the macros of the standard library

#include <reef/core/version.hpp>

// A suffix for the symbol's name in debug mode of the standard library, in which containers have another layout.
#ifdef _GLIBCXX_DEBUG
#define REEF_CONTAINERS _with_GLIBCXX_DEBUG
#else
#define REEF_CONTAINERS
#endif
#define REEF_PASTE(major, minor, patch, containers) \
the_compiled_library_of_reef_##major##_##minor##_##patch##containers##_or_one_file_that_includes_reef_implementation_hpp
#define REEF_NAME_OF(major, minor, patch, containers) REEF_PASTE(major, minor, patch, containers)
#define REEF_COMPILED_CORE \
  REEF_NAME_OF(REEF_VERSION_MAJOR, REEF_VERSION_MINOR, REEF_VERSION_PATCH, REEF_CONTAINERS)

namespace reef {
inline namespace v0 {
namespace detail {

extern const char REEF_COMPILED_CORE;

/// Refers to a symbol of the library, so that a program that was compiled for another version of it does not link.
[[gnu::used]] inline const char* const compiled_core = &REEF_COMPILED_CORE;

}  // namespace detail
}  // namespace v0
}  // namespace reef
#endif
