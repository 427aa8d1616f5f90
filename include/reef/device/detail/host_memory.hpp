#pragma once

#include <cstring>
#include <string>
#include <string_view>
#include <utility>

#include <reef/device/detail/host_device.hpp>
#include <reef/device/detail/owned.hpp>

namespace reef {
inline namespace v0 {
namespace device {

/// Gives a Buffer's memory back to the ledger, and to the machine.
struct Host::Free {
  Host* device;
  Bytes bytes;
  std::string what;

  void operator()(void* data) const {
    if (device->options_.poison_freed) std::memset(data, 0xFF, static_cast<std::size_t>(bytes));
    hand_back(data, bytes);
    device->ledger_.give_back(bytes, what);
  }
};

struct Host::FreePinned {
  Bytes bytes;

  void operator()(void* data) const { hand_back(data, bytes); }
};

/// Device memory that is freed when this goes. Moved from, it is empty.
class Host::Buffer : public detail::Owned<Host::Free> {
public:
  Buffer() = default;

private:
  friend class Host;
  Buffer(void* data, Free free) : Owned(data, std::move(free)) {}
};

/// Host memory that copies are fast from. Here that is any memory.
class Host::PinnedBuffer : public detail::Owned<Host::FreePinned> {
public:
  PinnedBuffer() = default;

private:
  friend class Host;
  PinnedBuffer(void* data, FreePinned free) : Owned(data, free) {}
};

inline Host::Buffer Host::allocate(Bytes bytes, std::string_view what) {
  if (bytes == 0) return {};
  Free free{this, bytes, std::string(what)};
  ledger_.take(bytes, what);
  void* const data = obtain(bytes);
  if (data == nullptr) {
    ledger_.give_back(bytes, what);
    throw ledger_.refused(bytes, what, "the machine's memory is exhausted");
  }
  if (options_.poison_freed) std::memset(data, 0xFF, static_cast<std::size_t>(bytes));
  return {data, std::move(free)};
}

inline Host::PinnedBuffer Host::allocate_pinned(Bytes bytes, std::string_view what) {
  if (bytes == 0) return {};
  void* const data = obtain(bytes);
  if (data == nullptr) {
    throw ledger_.refused(bytes, what, "the machine's memory is exhausted (pinned)");
  }
  return {data, FreePinned{bytes}};
}

}  // namespace device
}  // namespace v0
}  // namespace reef
