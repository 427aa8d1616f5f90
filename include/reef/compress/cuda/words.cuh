#pragma once

#include <cstddef>
#include <cstdint>

#include <reef/core/config.hpp>
#include <reef/device/launch.cuh>

/// \file
/// Access to messages in words of 4 bytes at any address: an unaligned word is read and written byte by byte.

namespace reef {
inline namespace v0 {
namespace compress::cuda {

inline constexpr int word_bytes = 4;

__device__ inline bool is_word(const std::byte* at) { return reinterpret_cast<std::uintptr_t>(at) % word_bytes == 0; }

/// Stores the `bytes` low bytes of a word, lowest first.
__device__ inline void store_word(std::byte* to, std::uint32_t word, int bytes = word_bytes) {
  if (bytes == word_bytes && is_word(to)) {
    *reinterpret_cast<std::uint32_t*>(to) = word;
    return;
  }
  for (int i = 0; i < bytes; ++i) to[i] = static_cast<std::byte>(word >> (8 * i));
}

__device__ inline std::uint32_t load_word(const std::byte* from, int bytes = word_bytes) {
  if (bytes == word_bytes && is_word(from)) return *reinterpret_cast<const std::uint32_t*>(from);
  std::uint32_t word = 0;
  for (int i = 0; i < bytes; ++i) word |= static_cast<std::uint32_t>(from[i]) << (8 * i);
  return word;
}

__device__ inline std::uint32_t bits_of(float value) {
  std::uint32_t bits = 0;
  memcpy(&bits, &value, sizeof bits);
  return bits;
}

__device__ inline float float_of(std::uint32_t bits) {
  float value = 0;
  memcpy(&value, &bits, sizeof value);
  return value;
}

/// Sets value = decoded, or, if `adds`, value += decoded.
template <class T>
__device__ void put(T& value, float decoded, bool adds) {
  value = T(adds ? static_cast<float>(value) + decoded : decoded);
}

}  // namespace compress::cuda
}  // namespace v0
}  // namespace reef
