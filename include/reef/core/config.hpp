#pragma once

/// \file
/// The few macros of Reef: what the language has no words for.

#include <reef/core/language.hpp>

/// Marks a function that runs on the host and in CUDA kernels. Nothing outside nvcc.
#if defined(__CUDACC__)
#define REEF_HOST_DEVICE __host__ __device__
#else
#define REEF_HOST_DEVICE
#endif

/// Marks a function that must be inlined, so that it takes the instruction set of its caller.
#if defined(__GNUC__)
#define REEF_ALWAYS_INLINE [[gnu::always_inline]] inline
#else
#define REEF_ALWAYS_INLINE inline
#endif

/// Marks a variable, or the class of some, of which a process has one, also where several libraries in it have Reef
/// inside and hide what they have (-fvisibility=hidden).
#if defined(__GNUC__)
#define REEF_OF_THE_PROCESS __attribute__((visibility("default")))
#else
#define REEF_OF_THE_PROCESS
#endif

/// Kernels, and functions that return pointers to kernels, stay inside the shared object that
/// compiled them: two libraries that embed these headers must not share one.
#if defined(__GNUC__)
#define REEF_HIDDEN __attribute__((visibility("hidden")))
#else
#define REEF_HIDDEN
#endif
