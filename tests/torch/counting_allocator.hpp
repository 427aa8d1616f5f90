#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <new>

#include <c10/core/CPUAllocator.h>
#include <torch/version.h>

#include <reef/core/units.hpp>

// What libtorch takes of the host's memory.

namespace reef::test {

/// Counts what libtorch holds in all threads.
class CountingAllocator final : public c10::Allocator {
public:
  static CountingAllocator& only() {
    static CountingAllocator one;  // blocks may outlive a test
    return one;
  }

#if TORCH_VERSION_MAJOR >= 2
  c10::DataPtr allocate(std::size_t bytes) override { return counted(bytes); }
  void copy_data(void* to, const void* from, std::size_t bytes) const override { std::memcpy(to, from, bytes); }
#else
  c10::DataPtr allocate(std::size_t bytes) const override { return counted(bytes); }
#endif
  [[nodiscard]] c10::DeleterFnPtr raw_deleter() const override { return &release; }

  void begin() { peak_ = before_ = now_.load(); }
  /// Since then.
  [[nodiscard]] Bytes peak() const { return static_cast<Bytes>(peak_ - before_); }

private:
  static constexpr std::size_t room = 64;  // before each block, for its size

  c10::DataPtr counted(std::size_t bytes) const {
    auto* const block = static_cast<std::size_t*>(std::aligned_alloc(room, (bytes + 2 * room - 1) / room * room));
    if (block == nullptr) throw std::bad_alloc();
    *block = bytes;
    const std::int64_t now = now_ += static_cast<std::int64_t>(bytes);
    for (std::int64_t peak = peak_; now > peak && !peak_.compare_exchange_weak(peak, now);) {}
    void* const data = reinterpret_cast<std::byte*>(block) + room;
    return {data, data, &release, c10::Device(c10::DeviceType::CPU)};
  }

  static void release(void* data) {
    if (data == nullptr) return;
    auto* const block = reinterpret_cast<std::size_t*>(static_cast<std::byte*>(data) - room);
    only().now_ -= static_cast<std::int64_t>(*block);
    std::free(block);
  }

  mutable std::atomic<std::int64_t> now_ = 0;
  mutable std::atomic<std::int64_t> peak_ = 0;
  std::int64_t before_ = 0;
};

/// What libtorch holds at most while the function runs, of what it has allocated in it.
template <class F>
Bytes torch_memory_of(const F& function) {
  c10::Allocator* const before = c10::GetCPUAllocator();
  CountingAllocator& counting = CountingAllocator::only();
  counting.begin();
  c10::SetCPUAllocator(&counting, 255);
  function();
  c10::SetCPUAllocator(before, 255);
  return counting.peak();
}

}  // namespace reef::test
