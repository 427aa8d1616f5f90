#pragma once

#include <reef/comm/detail/control.hpp>
#include <reef/core/inline.hpp>

namespace reef {
inline namespace v0 {
namespace comm::detail {

REEF_INLINE Control::~Control() {
  if (inbox_request_ != MPI_REQUEST_NULL) {
    MPI_Cancel(&inbox_request_);
    MPI_Request_free(&inbox_request_);
  }
}

REEF_INLINE void Control::heartbeat(std::uint64_t activity, const Standing& standing) {
  standings_[to_index(rank_)] = standing;
  note_activity(rank_, activity, standing.works);
  const std::string text = encode(standing);
  for (int peer = 0; peer < size(); ++peer) {
    if (peer == rank_) continue;
    Outgoing*& last = beating_[static_cast<std::size_t>(peer)];
    if (last != nullptr && !settled(*last)) continue;
    last = &post(peer, Signal::heartbeat, text, activity);
  }
}

REEF_INLINE void Control::broadcast(Signal signal, std::string_view text, std::uint64_t activity) {
  for (int peer = 0; peer < size(); ++peer) {
    if (peer != rank_) send(peer, signal, text, activity);
  }
}

REEF_INLINE bool Control::flushed() {
  return std::all_of(outgoing_.begin(), outgoing_.end(),
                     [this](const auto& message) { return settled(*message); });
}

REEF_INLINE bool Control::all_left() const {
  for (int peer = 0; peer < size(); ++peer) {
    if (peer != rank_ && !left(peer)) return false;
  }
  return true;
}

REEF_INLINE void Control::forgive() {
  std::fill(heard_.begin(), heard_.end(), now_ns());
  std::fill(active_since_.begin(), active_since_.end(), now_ns());
}

REEF_INLINE void Control::listen() {
  check_mpi(MPI_Irecv(inbox_.data(), static_cast<int>(inbox_.size()), MPI_BYTE, MPI_ANY_SOURCE, 0,
                      comm_, &inbox_request_),
            "MPI_Irecv");
}

REEF_INLINE bool Control::settled(Outgoing& message) {
  int done = 1;
  if (message.request != MPI_REQUEST_NULL) {
    MPI_Test(&message.request, &done, MPI_STATUS_IGNORE);
  }
  return done != 0;
}

REEF_INLINE Control::Outgoing& Control::post(int peer, Signal signal, std::string_view text,
                                             std::uint64_t activity) {
  auto free = std::find_if(outgoing_.begin(), outgoing_.end(),
                           [this](const auto& message) { return settled(*message); });
  if (free == outgoing_.end()) {
    free = outgoing_.insert(outgoing_.end(), std::make_unique<Outgoing>());
  }
  Outgoing& message = **free;
  const Frame frame{Frame::number, signal, activity, 0};
  text = text.substr(0, text_limit);
  message.bytes.resize(sizeof(Frame) + text.size());
  std::memcpy(message.bytes.data(), &frame, sizeof(Frame));
  std::copy(text.begin(), text.end(), message.bytes.begin() + sizeof(Frame));
  check_mpi(MPI_Isend(message.bytes.data(), static_cast<int>(message.bytes.size()), MPI_BYTE, peer,
                      0, comm_, &message.request),
            "MPI_Isend");
  meter_->message(Kind::control, message.bytes.size());
  return message;
}

REEF_INLINE void Control::note(int peer, const Frame& frame, std::string_view text) {
  if (!left(peer)) heard_[to_index(peer)] = now_ns();
  if (frame.signal == Signal::heartbeat) standings_[to_index(peer)] = decode_standing(text);
  if (frame.signal == Signal::farewell) {
    left_[to_index(peer)] = 1;
    standings_[to_index(peer)] = {};
  }
  note_activity(peer, frame.activity, standings_[to_index(peer)].works);
}

REEF_INLINE void Control::note_activity(int rank, std::uint64_t activity, bool works) {
  if (activity == activity_[to_index(rank)] && !works) return;
  activity_[to_index(rank)] = activity;
  active_since_[to_index(rank)] = now_ns();
}

}  // namespace comm::detail
}  // namespace v0
}  // namespace reef
