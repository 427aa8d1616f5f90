#pragma once

#include <algorithm>

#include <reef/comm/detail/wire.hpp>
#include <reef/comm/point_to_point.hpp>
#include <reef/core/error.hpp>
#include <reef/core/inline.hpp>

namespace reef {
inline namespace v0 {
namespace comm {

namespace detail {

REEF_INLINE void TransferTask::rebind(std::byte* data, Bytes bytes) {
  data_ = data;
  bytes_ = bytes;
  used_ = bytes;
}

REEF_INLINE void TransferTask::set_used(Bytes bytes) {
  if (bytes > bytes_ || (bytes < bytes_ && length_ == Length::exact)) {
    throw OptionError("reef::comm: '", name(), "' is to send ", bytes, " of ", bytes_,
                      " bytes.\n  fix: all of them, or fewer with Length::at_most on both ends.");
  }
  used_ = bytes;
}

REEF_INLINE void TransferTask::start(const Station& station) {
  count_in(station.sent);
  pending_ = divide_up(bytes_, station.piece_bytes);
  if (headers_.size() < pending_) headers_.resize(pending_);
  const auto pieces = static_cast<std::uint32_t>(pending_);
  for (std::uint32_t piece = 0; piece < pieces; ++piece) {
    const Bytes begin = piece * station.piece_bytes;
    const Bytes end = kind() == Kind::send ? used_ : bytes_;
    const Bytes size = begin < end ? (std::min)(station.piece_bytes, end - begin) : 0;
    Header head = header(station, piece, size);
    head.origin = origin_;
    if (kind() == Kind::send) {
      headers_[piece] = head;
      station.wire.send(*this, piece, peer_, station.channel, kind(), headers_[piece], data_ + begin);
    } else {
      station.wire.receive(*this, piece, peer_, station.channel, kind(), head, headers_[piece],
                           data_ + begin, length_);
    }
  }
  if (kind() == Kind::receive) used_ = 0;
}

REEF_INLINE void TransferTask::delivered(std::uint64_t piece) {
  if (kind() == Kind::receive) used_ += headers_[piece].bytes;
  --pending_;
  moved_ = true;
}

}  // namespace detail

}  // namespace comm
}  // namespace v0
}  // namespace reef
