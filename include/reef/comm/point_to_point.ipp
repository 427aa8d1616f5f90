#pragma once

#include <algorithm>

#include <reef/comm/point_to_point.hpp>
#include <reef/core/inline.hpp>

namespace reef::inline v0::comm {

namespace detail {

REEF_INLINE void TransferTask::rebind(std::byte* data, Bytes bytes) {
  data_ = data;
  bytes_ = bytes;
}

REEF_INLINE void TransferTask::start(const Station& station) {
  pending_ = divide_up(bytes_, station.piece_bytes);
  if (headers_.size() < pending_) headers_.resize(pending_);
  const auto pieces = static_cast<std::uint32_t>(pending_);
  for (std::uint32_t piece = 0; piece < pieces; ++piece) {
    const Bytes begin = piece * station.piece_bytes;
    const Bytes size = std::min(station.piece_bytes, bytes_ - begin);
    Header head = header(station, piece, size);
    head.origin = origin_;
    if (kind() == Kind::send) {
      headers_[piece] = head;
      station.wire.send(*this, piece, peer_, station.tag, kind(), headers_[piece], data_ + begin);
    } else {
      station.wire.receive(*this, piece, peer_, station.tag, kind(), head, headers_[piece],
                           data_ + begin);
    }
  }
}

REEF_INLINE void TransferTask::delivered(std::uint64_t) {
  --pending_;
  moved_ = true;
}

}  // namespace detail

}  // namespace reef::inline v0::comm
