#pragma once

/// \file
/// The macros of Reef, for what the language itself cannot express.

#include <reef/core/language.hpp>

/// Marks a function that runs on the host and in CUDA kernels. Expands to nothing outside nvcc.
#if defined(__CUDACC__)
#define REEF_HOST_DEVICE __host__ __device__
#else
#define REEF_HOST_DEVICE
#endif

/// Marks a function that must be inlined, so that it is compiled for the instruction set of its caller.
#if defined(__GNUC__)
#define REEF_ALWAYS_INLINE [[gnu::always_inline]] inline
#else
#define REEF_ALWAYS_INLINE inline
#endif

/// Marks a variable, or the class of a variable, that exists once in a process, even where
/// several of its libraries contain Reef and hide their symbols (-fvisibility=hidden).
#if defined(__GNUC__)
#define REEF_OF_THE_PROCESS __attribute__((visibility("default")))
#else
#define REEF_OF_THE_PROCESS
#endif

/// Marks kernels, and functions that return pointers to kernels: they stay inside the shared object
/// that compiled them, since two libraries that include these headers must not share a kernel.
#if defined(__GNUC__)
#define REEF_HIDDEN __attribute__((visibility("hidden")))
#else
#define REEF_HIDDEN
#endif
