#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>

#include <reef/core/units.hpp>
#include <reef/device/host.hpp>

namespace reef {
inline namespace v0 {
namespace device {

/// Calls function(begin, end) for the blocks [0, block), [block, 2 block), ... of [0, n), on the host's thread pool.
/// Call it on the thread of `lane` (a host queue); it blocks. The division into blocks does not depend on the number of
/// threads.
template <class F>
void for_each_block(Host::Lane& lane, std::int64_t n, std::int64_t block, const F& function) {
  if (n <= 0) return;
  lane.parallel((n + block - 1) / block, [&](std::int64_t part) {
    const std::int64_t begin = part * block;
    function(begin, (std::min)(n, begin + block));
  });
}

/// Calls task(slot, i) for every i in [0, n), on the thread pool, each as soon as a thread is free. Call it on the
/// thread of `lane` (a host queue); it blocks. At most min(n, lane.threads()) tasks run at once, each with a slot
/// number of its own below that bound, by which it can find scratch memory. If a task throws, the other slots complete
/// the rest first.
template <class Task>
void for_each_in_slots(Host::Lane& lane, std::int64_t n, const Task& task) {
  std::atomic<std::int64_t> next{0};
  lane.parallel(std::min<std::int64_t>(lane.threads(), n), [&](std::int64_t slot) {
    while (true) {
      const std::int64_t i = next.fetch_add(1, std::memory_order_relaxed);
      if (i >= n) return;
      task(slot, i);
    }
  });
}

/// The number of elements of a block for elementwise functions of unknown cost: 64 KiB of floats.
inline constexpr std::int64_t elementwise_block = 16384;

/// Calls functor(i) for every i in [0, n), in any order. Call it on the thread of `lane` (a device queue); with
/// device::Host it blocks.
///
/// \code
/// // given: device::Host::Lane& lane, std::vector<float>& x
/// lane.submit([&](device::Host::Lane& own) {
///   device::for_each_index(own, std::ssize(x), [to = x.data()](std::int64_t i) { to[i] *= 2; });
/// });
/// lane.synchronize();
/// \endcode
template <class F>
void for_each_index(Host::Lane& lane, std::int64_t n, const F& functor) {
  for_each_block(lane, n, elementwise_block, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) functor(i);
  });
}

}  // namespace device
}  // namespace v0
}  // namespace reef
