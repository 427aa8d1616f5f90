#pragma once

#include <concepts>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <reef/core/config.hpp>
#include <reef/core/error.hpp>
#include <reef/core/units.hpp>

namespace reef {
inline namespace v0 {
namespace device {

/// The use of a device's memory in bytes, now and at its peak.
struct MemoryReport {
  Bytes used = 0;
  Bytes peak = 0;
  Bytes budget = 0;                                    ///< most bytes that may be used; 0: no limit
  std::vector<std::pair<std::string, Bytes>> holders;  ///< bytes by the name of who allocated them, the largest first
};

/// The direction of a copy between host and device. Both ends of `on_device` are device memory, both ends of `on_host`
/// memory of the host.
enum class Copy { to_device, to_host, on_device, on_host };

/// Returns the direction of a copy between host and device, by the memory of each end.
constexpr Copy copy_between(bool from_device, bool to_device) {
  if (from_device) return to_device ? Copy::on_device : Copy::to_host;
  return to_device ? Copy::to_device : Copy::on_host;
}

/// The priority of a queue among queues of the device that need the same cores or engines: high for short work that
/// others wait for.
enum class Priority { normal, high };

/// A processor with memory: the memory has a budget, and lanes (queues, as CUDA streams) run the functions submitted to
/// them in order.
///
///     memory().used = sum of the living buffers        memory().peak >= memory().used at any time
///     f, g submitted to one lane: g starts after f     wait(e, n) starts after completion n of e
///     copy: when the lane reaches the copy, it copies the bytes at `from` to `to`, before it continues
///     threads: the most host threads that a kernel of any lane uses
///     on_host: lanes are threads of the host, and an event that one records is complete when record returns
///
/// | Buffer       | device memory, aligned to 64 bytes, freed by its destructor; MemoryError          |
/// | PinnedBuffer | host memory from which copies are fast                                            |
/// | Lane         | constructed from (device, name) and a priority, by default normal; any thread may |
/// |              | call submit. The priority changes when functions run, never their results         |
/// | Event        | counts completions: record on one lane, wait on others, synchronize on a host     |
/// |              | thread; constructed from (device), reusable without limit                         |
/// | lifetime     | the device outlives its buffers, lanes and events; an event outlives its users    |
///
/// Models: Host, Cuda.
///
/// \code
/// template <device::device Device>
/// void clear(Device& device, typename Device::Buffer& buffer) {
///   typename Device::Lane lane(device, "clear");
///   lane.submit([&](auto& own) { own.fill_zero(buffer.data(), buffer.bytes()); });
///   lane.synchronize();
/// }
/// \endcode
template <class D>
concept device =
    requires(D& device, const D& constant, Bytes bytes, std::string_view what) {
      { D::name } -> std::convertible_to<std::string_view>;
      { D::on_host } -> std::convertible_to<bool>;
      typename D::Options;
      { device.allocate(bytes, what) } -> std::same_as<typename D::Buffer>;
      { device.allocate_pinned(bytes, what) } -> std::same_as<typename D::PinnedBuffer>;
      { constant.memory() } -> std::same_as<MemoryReport>;
      { constant.discrete() } -> std::same_as<bool>;
      { constant.threads() } -> std::same_as<int>;
      { D::discrete(constant.options()) } -> std::same_as<bool>;
    } &&
    std::movable<typename D::Buffer> && std::movable<typename D::PinnedBuffer> &&
    std::constructible_from<D, typename D::Options> &&
    std::constructible_from<typename D::Event, D&> &&
    std::constructible_from<typename D::Lane, D&, std::string> &&
    std::constructible_from<typename D::Lane, D&, std::string, Priority> &&
    requires(typename D::Buffer& buffer, typename D::PinnedBuffer& pinned) {
      { buffer.data() } -> std::same_as<void*>;
      { buffer.bytes() } -> std::same_as<Bytes>;
      { pinned.data() } -> std::same_as<void*>;
      { pinned.bytes() } -> std::same_as<Bytes>;
    } &&
    requires(typename D::Event& event, const typename D::Event& constant, std::uint64_t epoch) {
      { constant.epoch() } -> std::same_as<std::uint64_t>;
      { constant.ready(epoch) } -> std::same_as<bool>;
      event.signal();
      event.synchronize(epoch);
    } &&
    requires(typename D::Lane& lane, typename D::Event& event, void (*function)(typename D::Lane&),
             void* to, const void* from, Bytes bytes, Seconds& time) {
      lane.submit(function);
      lane.synchronize();
      lane.record(event);
      lane.stamp(time);
      lane.wait(event, std::uint64_t{1});
      lane.copy(to, from, bytes, Copy::to_device);
      lane.fill_zero(to, bytes);
      { lane.threads() } -> std::same_as<int>;
      { lane.device() } -> std::same_as<D&>;
    };

}  // namespace device
}  // namespace v0
}  // namespace reef
