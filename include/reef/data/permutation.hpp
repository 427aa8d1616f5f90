#pragma once

#include <bit>
#include <cstdint>

#include <reef/core/random.hpp>

namespace reef {
inline namespace v0 {
namespace data {

/// A permutation of 0 .. size - 1 that is computed, not stored: a Feistel network over the next
/// power of four, applied again until the result is below size.
///
/// | cost   | rounds * Philox * fewer than 4 uses on average; no memory  |
/// | order  | a function of (size, key): the same on every machine       |
/// | size   | 1 to 2^62                                                  |
///
/// Source: Black, Rogaway, Ciphers with arbitrary finite domains, CT-RSA 2002, section 4 (cycle
/// walking) and 5 (Feistel).
///
/// \code
/// const data::Permutation windows(1000, DrawKey{.seed = 7});
/// const std::uint64_t first = windows(0);  // below 1000, and no other index has it
/// \endcode
class Permutation {
public:
  /// Constructs the permutation of a key. `key.draw` is ignored, since it counts the rounds of the network.
  constexpr Permutation(std::uint64_t size, DrawKey key) : size_(size), key_(key) {
    const int bits = size <= 1 ? 0 : static_cast<int>(std::bit_width(size - 1));
    half_ = (bits + 1) / 2;
    mask_ = (std::uint64_t{1} << half_) - 1;
  }

  [[nodiscard]] constexpr std::uint64_t size() const { return size_; }

  /// Returns the image of `index` under the permutation; it is below size.
  [[nodiscard]] constexpr std::uint64_t operator()(std::uint64_t index) const {
    if (size_ <= 1) return index;
    do {
      index = encipher(index);
    } while (index >= size_);
    return index;
  }

private:
  static constexpr std::uint32_t rounds = 8;

  [[nodiscard]] constexpr std::uint64_t encipher(std::uint64_t index) const {
    std::uint64_t left = index >> half_;
    std::uint64_t right = index & mask_;
    DrawKey key = key_;
    for (key.draw = 0; key.draw < rounds; ++key.draw) {
      const std::uint64_t next = left ^ (random_bits(key, right) & mask_);
      left = right;
      right = next;
    }
    return left << half_ | right;
  }

  std::uint64_t size_;
  DrawKey key_;
  int half_ = 0;
  std::uint64_t mask_ = 0;
};

}  // namespace data
}  // namespace v0
}  // namespace reef
