#pragma once

#include <bit>

#include <reef/codec/detail/selected.hpp>
#include <reef/codec/random_k.hpp>
#include <reef/core/hash.hpp>
#include <reef/core/random.hpp>

namespace reef {
inline namespace v0 {
namespace codec {

REEF_INLINE std::int64_t RandomK::kept(std::int64_t n) const { return detail::one_in(ratio, n, name); }

REEF_INLINE float RandomK::scale(std::int64_t n) const {
  return unbiased && n > 0 ? static_cast<float>(static_cast<double>(n) / static_cast<double>(kept(n))) : 1;
}

REEF_INLINE std::uint64_t RandomK::parameter(std::int64_t n) const {
  return Hash().add(kept(n)).add(seed).add(draw).add(unbiased).value();
}

/// Floyd: of 0 to j each, for j of n - k to n - 1; if that is there already, j, which is not.
REEF_INLINE void RandomK::drawn(std::int64_t n, std::span<std::uint32_t> indices) const {
  const RandomStream words({.seed = seed, .draw = draw});
  std::vector<std::uint64_t> taken(static_cast<std::size_t>((n + 63) / 64));
  const auto take = [&](std::uint64_t index) {  // false if it is there
    std::uint64_t& word = taken[index / 64];
    const std::uint64_t bit = std::uint64_t{1} << (index % 64);
    const bool is_new = (word & bit) == 0;
    word |= bit;
    return is_new;
  };
  const auto k = static_cast<std::uint64_t>(indices.size());
  for (std::uint64_t i = 0; i < k; i += 2) {
    const Philox block = words.block(i / 2);
    for (std::uint64_t one = 0; one < 2 && i + one < k; ++one) {
      const std::uint64_t last = static_cast<std::uint64_t>(n) - k + i + one;
      const std::uint64_t range = last + 1;  // at most 2^31: the upper half of 64 bits times it
      const std::uint64_t low = block.word[2 * one + 1] * range >> 32;
      const std::uint64_t index = (block.word[2 * one] * range + low) >> 32;
      if (!take(index)) take(last);
    }
  }
  std::size_t found = 0;
  for (std::size_t word = 0; word < taken.size(); ++word) {
    for (std::uint64_t bits = taken[word]; bits != 0; bits &= bits - 1) {
      indices[found++] = static_cast<std::uint32_t>(64 * word + static_cast<std::size_t>(std::countr_zero(bits)));
    }
  }
}

REEF_INLINE std::vector<std::uint32_t> RandomK::select(std::span<const float> values) const {
  const auto n = static_cast<std::int64_t>(values.size());
  std::vector<std::uint32_t> indices(static_cast<std::size_t>(kept(n)));
  drawn(n, indices);
  return indices;
}

REEF_INLINE bool RandomK::read_selection(std::span<const std::byte> from, std::int64_t n,
                                         std::span<std::uint32_t> indices) const {
  if (!from.empty()) return false;
  drawn(n, indices);
  return true;
}

REEF_INLINE Bytes RandomK::encoded_bytes(std::int64_t n) const { return detail::selected_bytes(*this, n); }
REEF_INLINE Bytes RandomK::encode(std::span<const float> values, std::span<std::byte> message) const {
  return detail::encode_selected(*this, values, message);
}
REEF_INLINE Bytes RandomK::encode_residual(std::span<float> values, std::span<std::byte> message) const {
  return detail::encode_selected_residual(*this, values, message);
}
REEF_INLINE void RandomK::decode(std::span<const std::byte> message, std::span<float> values) const {
  detail::decode_selected(*this, message, values);
}
REEF_INLINE void RandomK::accumulate(std::span<const std::byte> message, std::span<float> values) const {
  detail::accumulate_selected(*this, message, values);
}

}  // namespace codec
}  // namespace v0
}  // namespace reef
