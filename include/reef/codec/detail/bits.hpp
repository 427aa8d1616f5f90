#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <span>

namespace reef::inline v0::codec::detail {

/// The bits of |value|, which are ordered as magnitudes are, NaN above infinity.
inline std::uint32_t magnitude_bits(float value) { return std::bit_cast<std::uint32_t>(value) & 0x7fffffffU; }

/// Bits, the first the lowest of the first byte.
class BitWriter {
public:
  explicit BitWriter(std::byte* to) : to_(to) {}

  void write(std::uint64_t bits, unsigned count) {  // up to 32
    pending_ |= bits << filled_;
    filled_ += count;
    while (filled_ >= 8) {
      *to_++ = static_cast<std::byte>(pending_);
      pending_ >>= 8;
      filled_ -= 8;
    }
  }
  void finish() {
    if (filled_ > 0) *to_ = static_cast<std::byte>(pending_);
  }

private:
  std::byte* to_;
  std::uint64_t pending_ = 0;
  unsigned filled_ = 0;
};

class BitReader {
public:
  explicit BitReader(std::span<const std::byte> from) : from_(from) {}

  [[nodiscard]] bool has(std::uint64_t bits) const { return at_ + bits <= 8 * std::uint64_t{from_.size()}; }
  std::uint32_t read(unsigned count) {
    std::uint32_t result = 0;
    for (unsigned bit = 0; bit < count; ++bit, ++at_) result |= (current() ? 1U : 0U) << bit;
    return result;
  }
  /// Ones up to a zero, which is read too; more than `most` if there are more, or no zero.
  std::uint64_t ones(std::uint64_t most) {
    std::uint64_t count = 0;
    while (count <= most && has(1)) {
      const bool one = current();
      ++at_;
      if (!one) return count;
      ++count;
    }
    return most + 1;
  }
  /// Less than a byte is left, and it is 0.
  [[nodiscard]] bool ended() {
    while (at_ % 8 != 0) {
      if (current()) return false;
      ++at_;
    }
    return at_ == 8 * std::uint64_t{from_.size()};
  }

private:
  [[nodiscard]] bool current() const {
    return (std::to_integer<unsigned>(from_[static_cast<std::size_t>(at_ / 8)]) >> (at_ % 8) & 1U) != 0;
  }

  std::span<const std::byte> from_;
  std::uint64_t at_ = 0;
};

}  // namespace reef::inline v0::codec::detail
