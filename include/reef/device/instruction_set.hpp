#pragma once

#include <atomic>
#include <cstdlib>
#include <string>
#include <string_view>

#include <reef/core/error.hpp>

namespace reef {
inline namespace v0 {
namespace device {

/// The sets of vector instructions that the host's kernels can use, each a superset of the previous
/// one. Results have the same bits for any number of threads, but not for different instruction sets.
enum class InstructionSet : int {
  baseline,  ///< the instruction set that every processor of the target has: SSE2 on x86-64; no FMA
  avx2,      ///< the instruction set AVX2 and FMA: vectors of 8 floats
  avx512     ///< the instruction set AVX-512 F, BW, DQ, VL: vectors of 16 floats
};

constexpr std::string_view name_of(InstructionSet set) {
  switch (set) {
    case InstructionSet::baseline: return "sse2";
    case InstructionSet::avx2: return "avx2";
    case InstructionSet::avx512: return "avx512";
  }
  return "?";
}

/// Returns the best vector instruction set of this machine.
inline InstructionSet best_instruction_set() {
#if defined(__x86_64__) && defined(__GNUC__)
  __builtin_cpu_init();
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) {
    if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
        __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl")) {
      return InstructionSet::avx512;
    }
    return InstructionSet::avx2;
  }
#endif
  return InstructionSet::baseline;
}

namespace detail {

// Returns the best instruction set, or a lower one that the environment variable REEF_INSTRUCTION_SET names.
inline InstructionSet initial_instruction_set() {
  const InstructionSet best = best_instruction_set();
  const char* const wanted = std::getenv("REEF_INSTRUCTION_SET");
  if (wanted == nullptr || *wanted == '\0') return best;
  for (const InstructionSet set :
       {InstructionSet::baseline, InstructionSet::avx2, InstructionSet::avx512}) {
    if (name_of(set) != wanted) continue;
    return set < best ? set : best;
  }
  throw OptionError("reef::device: REEF_INSTRUCTION_SET is ", wanted,
                    ".\n  fix: sse2, avx2 or avx512, or leave it unset.");
}

inline std::atomic<InstructionSet>& current_instruction_set() {
  static std::atomic<InstructionSet> current{initial_instruction_set()};
  return current;
}

}  // namespace detail

/// Returns the vector instruction set in use: the machine's best, unless REEF_INSTRUCTION_SET=avx2|sse2 lowers it.
/// Throws OptionError, at the first call, where the variable names no instruction set.
inline InstructionSet instruction_set() {
  return detail::current_instruction_set().load(std::memory_order_relaxed);
}

/// Sets the vector instruction set of kernels that start from now on. Throws OptionError if the machine does not have
/// it.
///
/// \code
/// device::use_instruction_set(device::InstructionSet::baseline);
/// const std::string_view name = device::name_of(device::instruction_set());  // "sse2"
/// \endcode
inline void use_instruction_set(InstructionSet set) {
  if (set > best_instruction_set()) {
    throw OptionError("reef::device::use_instruction_set: this machine has no ", name_of(set), ".");
  }
  detail::current_instruction_set().store(set);
}

}  // namespace device
}  // namespace v0
}  // namespace reef
