#pragma once

#include <cstdint>
#include <utility>

#include <reef/core/random.hpp>

namespace reef {
inline namespace v0 {
namespace plan::detail {

/// Random numbers in sequence, of one key.
class Draws {
public:
  Draws(std::uint64_t seed, std::uint32_t which) : stream_(DrawKey{seed, 0, 0, which}) {}

  std::uint32_t word() {
    if (at_ % 4 == 0) block_ = stream_.block(at_ / 4);
    return block_.word[at_++ % 4];
  }
  /// From 0 to count - 1.
  int below(int count) {
    return static_cast<int>(
        static_cast<std::uint64_t>(word()) * static_cast<std::uint64_t>(count) >> 32);
  }
  /// In (0, 1).
  double unit() { return (static_cast<double>(word()) + 0.5) * 0x1p-32; }

  template <class Values>
  void shuffle(Values& values) {
    for (int i = static_cast<int>(values.size()) - 1; i > 0; --i) {
      std::swap(values.data()[i], values.data()[below(i + 1)]);
    }
  }

private:
  RandomStream stream_;
  Philox block_{0, 0, 0, 0, 0, 0};
  std::uint64_t at_ = 0;
};

}  // namespace plan::detail
}  // namespace v0
}  // namespace reef
