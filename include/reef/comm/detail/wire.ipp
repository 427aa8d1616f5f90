#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <span>

#include <reef/comm/detail/wire.hpp>
#include <reef/comm/error.hpp>
#include <reef/core/inline.hpp>
#include <reef/io/checksum.hpp>

namespace reef {
inline namespace v0 {
namespace comm::detail {

REEF_INLINE void Wire::send(Receiver& owner, std::uint64_t token, int peer, std::uint64_t channel,
                            Kind kind, Header& header, const void* payload) {
  const int tag = channels_.tag_to(peer, channel);
  Slot slot{&owner, token, peer, kind, false, nullptr, header, 0};
  const Bytes bytes = header_bytes + header.bytes;
  if (!shape_.empty()) {
    slot.not_before = book(peer, bytes);
    header.arrival = slot.not_before + to_ns(shape_.latency(rank_, peer));
  }
  header.checksum = checks(kind) ? io::crc32c(bytes_at(payload, header.bytes)) : 0;
  header.seal = seal_of(header);
  const Layout layout(header, const_cast<void*>(payload));
  MPI_Request request = MPI_REQUEST_NULL;
  check_mpi(MPI_Isend(layout.address, layout.count, layout.type, peer, tag, comm_, &request),
            "MPI_Isend");
  meter_->message(kind, bytes);
  owner.count(bytes);
  post(slot, request);
}

REEF_INLINE void Wire::receive(Receiver& owner, std::uint64_t token, int peer, std::uint64_t channel,
                               Kind kind, const Header& expected, Header& header, void* payload, Length length) {
  header = Header{};
  Slot slot{&owner, token, peer, kind, true, &header, expected, 0, payload};
  slot.length = length;
  if (const auto tag = channels_.tag_from(peer, channel)) {
    post_receive(slot, header, payload, *tag);
  } else {
    waiting_.push_back({slot, channel, &header, payload});
  }
}

REEF_INLINE void Wire::post_receive(const Slot& slot, Header& header, void* payload, int tag) {
  header.bytes = slot.expected.bytes;
  const Layout layout(header, payload);
  header.bytes = 0;
  MPI_Request request = MPI_REQUEST_NULL;
  check_mpi(MPI_Irecv(layout.address, layout.count, layout.type, slot.peer, tag, comm_, &request),
            "MPI_Irecv");
  post(slot, request);
}

REEF_INLINE void Wire::post_waiting(int peer, std::uint64_t channel, int tag) {
  const auto is_of_it = [&](const Waiting& one) { return one.slot.peer == peer && one.channel == channel; };
  for (const Waiting& one : waiting_) {
    if (is_of_it(one)) post_receive(one.slot, *one.header, one.payload, tag);
  }
  std::erase_if(waiting_, is_of_it);
}

REEF_INLINE bool Wire::poll() {
  bool moved = false;
  channels_.poll([this](int peer, std::uint64_t channel, int tag) { post_waiting(peer, channel, tag); });
  if (!requests_.empty()) {
    const int code = MPI_Testsome(static_cast<int>(requests_.size()), requests_.data(), &done_,
                                  indices_.data(), statuses_.data());
    if (code != MPI_SUCCESS && code != MPI_ERR_IN_STATUS) check_mpi(code, "MPI_Testsome");
    if (done_ > 0 && done_ != MPI_UNDEFINED) {
      collect(code == MPI_ERR_IN_STATUS);
      compact();
    }
  }
  const std::int64_t now = now_ns();
  while (!delayed_.empty() && delayed_.front().not_before <= now) {
    std::pop_heap(delayed_.begin(), delayed_.end(), later);
    const Slot slot = delayed_.back();
    delayed_.pop_back();
    if (slot.reaches) {
      delay(through_downlink(slot));
    } else {
      ready_.push_back(slot);
    }
  }
  for (std::size_t i = 0; i < ready_.size(); ++i) {
    const Slot slot = ready_[i];
    slot.owner->delivered(slot.token);
    moved = true;
  }
  ready_.clear();
  return moved;
}

REEF_INLINE std::int64_t Wire::next_arrival(std::int64_t together) const {
  if (delayed_.empty()) return never_ns;
  const std::int64_t next = delayed_.front().not_before;
  if (together == 0) return next;
  std::int64_t received = 0;
  std::int64_t left = next;
  for (const Slot& slot : delayed_) {
    if (slot.not_before > next + together) continue;
    std::int64_t& last = slot.receive ? received : left;
    last = (std::max)(last, slot.not_before);
  }
  return received > 0 ? received : left;
}

REEF_INLINE std::int64_t Wire::last_arrival(const Receiver& receiver,
                                            std::uint64_t messages) const {
  if (messages > delayed_.size()) return never_ns;
  std::int64_t last = 0;
  std::uint64_t here = 0;
  for (const Slot& slot : delayed_) {
    if (slot.owner != &receiver) continue;
    if (slot.reaches) return never_ns;  // it has yet to pass the downlink
    last = (std::max)(last, slot.not_before);
    ++here;
  }
  return here > 0 && here == messages ? last : never_ns;
}

REEF_INLINE std::int64_t Wire::quiet() const {
  if (idle()) return to_ns(4e-3);
  return shape_.empty() ? 0 : to_ns((std::min)(1e-3, look_time()));
}

REEF_INLINE std::int64_t Wire::longest_nap() const {
  return idle() || shape_.empty() ? never_ns : to_ns(std::clamp(look_time(), 1e-3, 1.0));
}

REEF_INLINE Seconds Wire::look_time() const {
  Seconds least = 1;
  const auto look = [&](const Slot& slot) {
    const Bytes bytes = slot.expected.bytes;
    const int from = slot.receive ? slot.peer : rank_;
    const int to = slot.receive ? rank_ : slot.peer;
    const Seconds latency = slot.receive ? shape_.latency(from, to) : 0;
    const Seconds time = latency + static_cast<double>(bytes) / shape_.rate(from, to);
    least = (std::min)(least, time / static_cast<double>(handshake + divide_up(bytes, fragment)));
  };
  for (const Slot& slot : slots_) look(slot);
  for (const Waiting& one : waiting_) look(one.slot);
  return least;
}

REEF_INLINE std::int64_t Wire::busy_until() const {
  std::int64_t last = 0;
  const std::int64_t now = now_ns();
  for (const std::vector<Slot>* const places : {&slots_, &delayed_}) {
    for (const Slot& slot : *places) {
      if (slot.not_before > now) last = (std::max)(last, slot.not_before);
    }
  }
  return last;
}

REEF_INLINE Wire::Leaving Wire::leaving() const {
  Leaving leaving;
  const std::int64_t now = now_ns();
  const auto visit = [&](const auto& see) {
    for (const std::vector<Slot>* const places : {&slots_, &delayed_}) {
      for (const Slot& slot : *places) {
        if (!slot.receive && slot.not_before > now) see(slot);
      }
    }
  };
  visit([&](const Slot& slot) {
    if (slot.not_before > leaving.until) leaving = {slot.peer, 0, slot.not_before};
  });
  visit([&](const Slot& slot) { leaving.bytes += slot.peer == leaving.peer ? header_bytes + slot.expected.bytes : 0; });
  return leaving;
}

REEF_INLINE void Wire::cancel(std::int64_t patience_ns) {
  channels_.cancel();
  waiting_.clear();
  for (std::size_t i = 0; i < requests_.size(); ++i) {
    if (slots_[i].receive && requests_[i] != MPI_REQUEST_NULL) MPI_Cancel(&requests_[i]);
  }
  const std::int64_t until = now_ns() + patience_ns;
  int all = requests_.empty() ? 1 : 0;
  while ((all == 0 || !channels_.has_told_all()) && now_ns() < until) {
    if (all == 0)
      MPI_Testall(static_cast<int>(requests_.size()), requests_.data(), &all, MPI_STATUSES_IGNORE);
  }
  requests_.clear();
  slots_.clear();
  delayed_.clear();
  ready_.clear();
}

REEF_INLINE Wire::Layout::Layout(Header& header, void* payload) {
  auto* const begin = reinterpret_cast<std::byte*>(&header);
  if (header.bytes == 0 || payload == begin + header_bytes) {
    address = begin;
    count = static_cast<int>(header_bytes + header.bytes);
    return;
  }
  const std::array<int, 2> lengths{static_cast<int>(header_bytes), static_cast<int>(header.bytes)};
  std::array<MPI_Aint, 2> places{};
  check_mpi(MPI_Get_address(begin, &places[0]), "MPI_Get_address");
  check_mpi(MPI_Get_address(payload, &places[1]), "MPI_Get_address");
  check_mpi(MPI_Type_create_hindexed(2, lengths.data(), places.data(), MPI_BYTE, &type),
            "MPI_Type_create_hindexed");
  check_mpi(MPI_Type_commit(&type), "MPI_Type_commit");
  own = true;
}

REEF_INLINE void Wire::post(const Slot& slot, MPI_Request request) {
  requests_.push_back(request);
  slots_.push_back(slot);
  if (indices_.size() < requests_.size()) {
    indices_.resize(requests_.size() * 2);
    statuses_.resize(requests_.size() * 2);
  }
}

REEF_INLINE void Wire::collect(bool with_errors) {
  for (int i = 0; i < done_; ++i) {
    Slot& slot = slots_[static_cast<std::size_t>(indices_[static_cast<std::size_t>(i)])];
    const MPI_Status& status = statuses_[static_cast<std::size_t>(i)];
    if (slot.receive) {
      check_received(slot, status, with_errors ? status.MPI_ERROR : MPI_SUCCESS);
      heard_[static_cast<std::size_t>(slot.peer)] = now_ns();
      slot.expected.bytes = slot.header->bytes;
      slot.not_before = shaped() ? slot.header->arrival : 0;
    } else if (with_errors) {
      check_mpi(status.MPI_ERROR, "MPI_Isend");
    }
    if (slot.not_before != 0) {
      delay(slot.receive && shape_.has_uplinks() ? reaching(slot) : slot);
    } else {
      ready_.push_back(slot);
    }
  }
}

REEF_INLINE void Wire::delay(const Slot& slot) {
  delayed_.push_back(slot);
  std::push_heap(delayed_.begin(), delayed_.end(), later);
}

REEF_INLINE std::int64_t Wire::book(int peer, Bytes bytes) {
  const auto amount = static_cast<double>(bytes);
  const std::int64_t asked = asked_ != 0 ? asked_ : now_ns();
  std::int64_t& free = link_free_[static_cast<std::size_t>(peer)];
  free = (std::max)(free, asked) + to_ns(amount / shape_.rate(rank_, peer));
  if (shape_.has_uplinks()) {
    uplink_free_ = (std::max)(uplink_free_, asked) + to_ns(amount / shape_.uplink(rank_));
    free = (std::max)(free, uplink_free_);
  }
  return free;
}

REEF_INLINE Wire::Slot Wire::reaching(Slot slot) const {
  const auto bytes = static_cast<double>(header_bytes + slot.expected.bytes);
  const double rate = (std::min)(shape_.rate(slot.peer, rank_), shape_.uplink(slot.peer));
  slot.not_before -= to_ns(bytes / rate);
  slot.reaches = true;
  return slot;
}

REEF_INLINE Wire::Slot Wire::through_downlink(Slot slot) {
  const auto bytes = static_cast<double>(header_bytes + slot.expected.bytes);
  downlink_free_ =
      (std::max)(downlink_free_, slot.not_before) + to_ns(bytes / shape_.downlink(rank_));
  downlink_free_ = (std::max)(downlink_free_, slot.header->arrival);
  slot.not_before = downlink_free_;
  slot.reaches = false;
  return slot;
}

REEF_INLINE void Wire::check_received(const Slot& slot, const MPI_Status& status, int code) const {
  int kind = MPI_SUCCESS;
  if (code != MPI_SUCCESS) MPI_Error_class(code, &kind);
  if (code != MPI_SUCCESS && kind != MPI_ERR_TRUNCATE) check_mpi(code, "MPI_Irecv");
  const bool longer = kind == MPI_ERR_TRUNCATE;  // some MPIs then keep the header to themselves
  int count = 0;
  MPI_Get_elements(&status, MPI_BYTE, &count);
  const auto received = longer ? header_bytes : static_cast<Bytes>((std::max)(count, 0));
  const auto head = bytes_at(slot.header, (std::min)(received, header_bytes));
  const auto payload = bytes_at(slot.payload, received - head.size());
  const Fault fault =
      longer ? Fault::longer : examine(slot.expected, head, payload, checks(slot.kind), slot.length);
  if (fault == Fault::none) return;
  throw Mismatch{slot.peer, slot.kind, slot.expected, decode_header(head).header,
                 received,  {},        false,         fault};
}

REEF_INLINE void Wire::compact() {
  std::size_t kept = 0;
  for (std::size_t i = 0; i < requests_.size(); ++i) {
    if (requests_[i] == MPI_REQUEST_NULL) continue;
    requests_[kept] = requests_[i];
    slots_[kept] = slots_[i];
    ++kept;
  }
  requests_.resize(kept);
  slots_.resize(kept);
}

}  // namespace comm::detail
}  // namespace v0
}  // namespace reef
