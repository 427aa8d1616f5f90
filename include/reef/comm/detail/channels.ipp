#pragma once

#include <algorithm>
#include <utility>

#include <reef/comm/detail/channels.hpp>
#include <reef/comm/environment.hpp>
#include <reef/core/error.hpp>
#include <reef/core/inline.hpp>

namespace reef {
inline namespace v0 {
namespace comm::detail {

REEF_INLINE int largest_tag() {
  constexpr int least_of_mpi = 32767;
  if (!Environment::active()) return least_of_mpi;  // a process alone sends nothing
  int* largest = nullptr;
  int found = 0;
  MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_TAG_UB, &largest,
                    &found);  // a split communicator does not have it
  return found != 0 ? *largest : least_of_mpi;
}

REEF_INLINE ChannelNumbers::Number ChannelNumbers::of(std::uint64_t channel, int largest) {
  const auto next = static_cast<std::int64_t>(first) + static_cast<std::int64_t>(tags_.size());
  const auto found = tags_.find(channel);
  if (found != tags_.end()) return {found->second, false};
  if (next > largest) {
    throw OptionError("reef::comm: this rank sends another one messages of more than ",
                      tags_.size(), " names.\n  why: this MPI has tags up to ", largest,
                      ", and each name takes one for as long as the Progress object lives.\n  fix: "
                      "use names again, "
                      "as one task does that is submitted many times.");
  }
  tags_.emplace(channel, static_cast<int>(next));
  return {static_cast<int>(next), true};
}

REEF_INLINE Channels::~Channels() {
  cancel();
  if (!telling_.empty()) static_cast<void>(new std::deque<Telling>(std::move(telling_)));
}

REEF_INLINE bool Channels::has_told_all() {
  while (!telling_.empty() && has_left(telling_.front())) telling_.pop_front();
  return telling_.empty();
}

REEF_INLINE int Channels::tag_to(int peer, std::uint64_t channel) {
  const auto [number, is_new] = to_[static_cast<std::size_t>(peer)].of(channel, largest_);
  if (!is_new) return number;
  Telling& telling = telling_.emplace_back();
  telling.told = {channel, number, 0};
  check_mpi(
      MPI_Isend(&telling.told, sizeof telling.told, MPI_BYTE, peer, tag, comm_, &telling.request),
      "MPI_Isend");
  meter_->message(Kind::control, sizeof telling.told);
  if (has_left(telling)) telling_.pop_back();
  return number;
}

REEF_INLINE std::optional<int> Channels::tag_from(int peer, std::uint64_t channel) {
  Incoming& from = from_[static_cast<std::size_t>(peer)];
  const auto found = from.tags.find(channel);
  if (found != from.tags.end()) return found->second;
  if (std::find(from.asked.begin(), from.asked.end(), channel) != from.asked.end()) return {};
  from.asked.push_back(channel);
  if (from.request == MPI_REQUEST_NULL) {
    listen(peer);
    asked_.push_back(peer);
  }
  return {};
}

REEF_INLINE void Channels::cancel() {
  for (const int peer : asked_) {
    Incoming& from = from_[static_cast<std::size_t>(peer)];
    from.asked.clear();
    MPI_Cancel(&from.request);
    MPI_Request_free(&from.request);
  }
  asked_.clear();
}

REEF_INLINE void Channels::listen(int peer) {
  Incoming& from = from_[static_cast<std::size_t>(peer)];
  check_mpi(MPI_Irecv(&from.told, sizeof from.told, MPI_BYTE, peer, tag, comm_, &from.request),
            "MPI_Irecv");
}

REEF_INLINE std::optional<Channels::Told> Channels::hear(Incoming& peer) {
  int done = 0;
  check_mpi(MPI_Test(&peer.request, &done, MPI_STATUS_IGNORE), "MPI_Test");
  if (done == 0) return {};
  peer.tags.emplace(peer.told.channel, peer.told.tag);
  return peer.told;
}

REEF_INLINE bool Channels::has_left(Telling& telling) {
  int done = 0;
  check_mpi(MPI_Test(&telling.request, &done, MPI_STATUS_IGNORE), "MPI_Test");
  return done != 0;
}

}  // namespace comm::detail
}  // namespace v0
}  // namespace reef
