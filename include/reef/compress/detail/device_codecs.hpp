#pragma once

#include <type_traits>
#include <utility>

#include <reef/core/language.hpp>

namespace reef {
inline namespace v0 {
namespace compress::detail {

/// The codecs of a device whose memory the host does not read: `has<C>`, and with that
///
///     encode(lane, format, values, element, n, payload)          enqueues what fills payload, in memory of the host
///                                                                that the device reaches, as format.encode does
///     decode(lane, format, payload, values, element, n, adds)    enqueues what makes of it values, or adds to them
///
/// Of codecs that are exact, have no memory, and say what a message's head() is. Others' numbers are brought to the
/// host.
template <class Device>
struct DeviceCodecs {
  static_assert(
      Device::on_host,
      "reef::compress::Channels: the codecs of this device are not there.\n"
      "  why: the same messages are made everywhere, or nowhere.\n"
      "  fix: #include <reef/compress/cuda.cuh> for device::Cuda; another device specialises DeviceCodecs, with "
      "has<C> = false if it has none.");
  template <class C>
  static constexpr bool has = false;
};

template <class Lane>
using CodecsOfLane = DeviceCodecs<std::remove_cvref_t<decltype(std::declval<Lane&>().device())>>;

}  // namespace compress::detail
}  // namespace v0
}  // namespace reef
