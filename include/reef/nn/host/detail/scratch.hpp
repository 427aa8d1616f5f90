#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>

#include <reef/core/units.hpp>

namespace reef {
inline namespace v0 {
namespace nn::host::detail {

/// A thread's own part of a workspace, taken piece by piece; each begins at a multiple of 64 bytes. A copy
/// takes the same memory again.
class Scratch {
public:
  /// `begin`: aligned to 64 bytes, or null where nothing will be taken.
  explicit Scratch(void* begin) : next_(static_cast<std::byte*>(begin)) {}

  template <class T>
  [[nodiscard]] T* take(std::int64_t elements) {
    return reinterpret_cast<T*>(std::exchange(next_, next_ + bytes<T>(elements)));
  }

  /// What take<T>(elements) takes.
  template <class T>
  [[nodiscard]] static Bytes bytes(std::int64_t elements) {
    return round_up(static_cast<Bytes>(elements) * sizeof(T), 64);
  }

  /// The part of thread `slot`, where each has so many bytes, a multiple of 64.
  [[nodiscard]] static Scratch of(void* workspace, std::int64_t slot, Bytes each) {
    return Scratch(static_cast<std::byte*>(workspace) + static_cast<Bytes>(slot) * each);
  }

private:
  std::byte* next_;
};

}  // namespace nn::host::detail
}  // namespace v0
}  // namespace reef
