#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include <reef/comm/detail/wire.hpp>
#include <reef/comm/meter.hpp>

namespace reef::inline v0::comm::detail {

class Aside;
class WindowChannel;

/// What a running task yet awaits, as far as it can tell.
struct Awaited {
  const Receiver* receiver = nullptr;  ///< whose messages
  std::uint64_t messages = 0;          ///< sent or received, not yet delivered
};

/// What a running task sees of the rank that it runs on. Progress thread only.
struct Station {
  Wire& wire;
  LiveMeter& meter;
  int rank;
  int size;
  Bytes piece_bytes;
  int tag;  ///< collectives use tag and tag + 1
  std::uint32_t sequence;
  WindowChannel* window;            ///< null: messages
  std::vector<std::byte>* staging;  ///< the queue's, grown once
  Aside* aside;
};

}  // namespace reef::inline v0::comm::detail
