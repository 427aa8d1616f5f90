#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>

#include <reef/core/language.hpp>

namespace reef {
inline namespace v0 {
namespace codec::detail {

/// The bits of |value|, which are ordered as magnitudes are, NaN above infinity.
inline std::uint32_t magnitude_bits(float value) { return std::bit_cast<std::uint32_t>(value) & 0x7fffffffU; }

/// Bits, the first the lowest of the first byte.
class BitWriter {
public:
  explicit BitWriter(std::byte* to) : to_(to) {}

  void write(std::uint64_t bits, unsigned count) {  // up to 32
    pending_ |= bits << filled_;
    filled_ += count;
    if (filled_ < 32) return;
    const auto low = static_cast<std::uint32_t>(pending_);
    std::memcpy(to_, &low, sizeof low);
    to_ += sizeof low;
    pending_ >>= 32;
    filled_ -= 32;
  }
  void finish() {
    for (; filled_ > 0; filled_ -= (std::min)(filled_, 8U), pending_ >>= 8)
      *to_++ = static_cast<std::byte>(pending_);
  }

private:
  std::byte* to_;
  std::uint64_t pending_ = 0;
  unsigned filled_ = 0;  // below 32
};

class BitReader {
public:
  explicit BitReader(std::span<const std::byte> from) : from_(from) {}

  [[nodiscard]] bool has(std::uint64_t bits) const { return bits <= left(); }
  std::uint32_t read(unsigned count) {  // up to 31
    const auto result = static_cast<std::uint32_t>(ahead() & ((std::uint64_t{1} << count) - 1));
    at_ += count;
    return result;
  }
  /// Ones up to a zero, which is read too; more than `most` if there are more, or no zero.
  std::uint64_t ones(std::uint64_t most) {
    std::uint64_t count = 0;
    while (count <= most && has(1)) {
      const std::uint64_t known = std::min<std::uint64_t>(ahead_bits, left());
      const auto run = (std::min)(static_cast<std::uint64_t>(std::countr_one(ahead())), known);
      at_ += run;
      count += run;
      if (run == known) continue;
      ++at_;
      return count;
    }
    return most + 1;
  }
  /// Less than a byte is left, and it is 0.
  [[nodiscard]] bool ended() const { return left() < 8 && ahead() == 0; }

private:
  static constexpr unsigned ahead_bits = 57;

  [[nodiscard]] std::uint64_t left() const { return 8 * std::uint64_t{from_.size()} - at_; }
  /// The next bits, of which at least ahead_bits are there; zeros behind the last.
  [[nodiscard]] std::uint64_t ahead() const {
    std::uint64_t bits = 0;
    const auto byte = static_cast<std::size_t>(at_ / 8);
    const std::size_t bytes = (std::min)(sizeof bits, from_.size() - byte);
    if (bytes == sizeof bits) {
      std::memcpy(&bits, from_.data() + byte, sizeof bits);
    } else if (bytes > 0) {
      std::memcpy(&bits, from_.data() + byte, bytes);
    }
    return bits >> (at_ % 8);
  }

  std::span<const std::byte> from_;
  std::uint64_t at_ = 0;
};

}  // namespace codec::detail
}  // namespace v0
}  // namespace reef
