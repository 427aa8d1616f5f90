#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include <reef/comm/task.hpp>
#include <reef/core/inline.hpp>

namespace reef {
inline namespace v0 {
namespace comm {

using reef::Completion;

namespace detail {

/// The common base class of sends and receives: they move a payload in pieces, directly from or to the caller's memory.
class TransferTask : public Task, private Receiver {
public:
  /// Returns the messages and bytes that the sender of `bytes` bytes sends; a receiver sends nothing.
  static constexpr Cost cost(Bytes bytes, Bytes piece = default_piece_bytes) {
    return message_cost(bytes, piece);
  }

  [[nodiscard]] Completion completion() const { return completion_; }
  /// Sets the completion (blocking or posted) of the next submissions, which each end of the transfer chooses for
  /// itself: a posted send may match a held receive. Not while in flight.
  void set_completion(Completion completion) { completion_ = completion; }

  /// Sets whether both ends know the exact length of the next submissions, or only an upper bound; not while in flight.
  /// Both ends set the same.
  void set_length(Length length) { length_ = length; }
  /// Sets the number of bytes that the next submission sends: fewer than its memory has, if the length is `at_most`.
  /// Call it before the task starts; its `ready` function may still do so. Throws OptionError for more bytes.
  void set_used(Bytes bytes);
  /// Returns the number of bytes that were received, or sent, in the last submission, which must be complete.
  [[nodiscard]] Bytes used() const { return used_; }

  /// Sets where in the job the next submission belongs (step, micro-batch, ...): its messages carry this, and the
  /// receiver accepts no others. Call it before the task starts; its `ready` function may still do so.
  void set_origin(const Origin& origin) { origin_ = origin; }

protected:
  TransferTask(Kind kind, std::string name, int peer, std::byte* data, Bytes bytes)
      : Task(kind, std::move(name)), peer_(peer), data_(data), bytes_(bytes), used_(bytes) {}
  ~TransferTask() override = default;

  /// Sets other memory for the transfer's next submission; not while in flight.
  void rebind(std::byte* data, Bytes bytes);

private:
  REEF_INLINE void start(const Station& station) final;
  REEF_INLINE void delivered(std::uint64_t piece) final;
  bool advance() final { return std::exchange(moved_, false); }
  [[nodiscard]] bool done() const final { return pending_ == 0; }
  [[nodiscard]] Awaited awaited() const final { return {this, pending_}; }
  void missing(std::vector<int>& ranks) const final { ranks.assign(1, peer_); }
  [[nodiscard]] Bytes payload() const final { return bytes_; }
  [[nodiscard]] Bytes carried() const final { return used_; }
  [[nodiscard]] int peer() const final { return peer_; }
  [[nodiscard]] bool posted() const final { return completion_ == Completion::posted; }

  int peer_;
  std::byte* data_;
  Bytes bytes_;
  Bytes used_;
  Length length_ = Length::exact;
  Completion completion_ = Completion::held;
  Origin origin_{};
  std::vector<Header> headers_;
  std::uint64_t pending_ = 0;
  bool moved_ = false;
};

}  // namespace detail

/// A task that sends the bytes of `data` to rank `peer`, which receives them by a ReceiveTask of the same name.
///
/// | who      | this rank and `peer`; the n-th send of a name matches its n-th receive, counted as they |
/// |          | start: so all tasks of one name, posted ones too, must be on one queue                  |
/// | queue    | held until complete, or posted: see Completion                                          |
/// | complete | when `data` may be changed again (on a shaped link: when it has left this rank)         |
/// | wire     | cost(bytes): one message for each piece, with a header; 0 bytes send nothing            |
/// | errors   | MpiError on both ranks if a message is not the expected one, if its size or origin is   |
/// |          | another, or if the checksum of its payload shows damage                                 |
///
/// \code
/// // given: comm::Progress& progress, std::span<const float> activations
/// comm::SendTask task("activations", 1, activations);  // rank 1 has a ReceiveTask of this name
/// task.set_completion(comm::Completion::posted);
/// progress.submit(progress.queue("send"), task);
/// progress.wait(task);
/// \endcode
class SendTask final : public detail::TransferTask {
public:
  template <class T>
    requires std::is_trivially_copyable_v<T> SendTask(std::string name, int peer, std::span<T> data)
        : TransferTask(Kind::send, std::move(name), peer, bytes_of(data), data.size_bytes()) {}
    ~SendTask() override { retire(); }

    /// Sets other memory for the task, which is sent from the next submission on.
    template <class T>
    void bind(std::span<T> data) {
      rebind(bytes_of(data), data.size_bytes());
    }

  private:
    // Returns the bytes of `data` as bytes that are not const: a send only reads them.
    template <class T>
    static std::byte* bytes_of(std::span<T> data) {
      return const_cast<std::byte*>(reinterpret_cast<const std::byte*>(data.data()));
    }
};

/// A task that receives exactly data.size() elements from rank `peer`, which sends them by a SendTask of the same name.
///
/// | complete | when `data` holds the elements; before that, and after an error, its contents are unspecified |
class ReceiveTask final : public detail::TransferTask {
public:
  template <class T>
    requires std::is_trivially_copyable_v<T> ReceiveTask(std::string name, int peer,
                                                         std::span<T> data)
        : TransferTask(Kind::receive, std::move(name), peer,
                       reinterpret_cast<std::byte*>(data.data()), data.size_bytes()) {}
    ~ReceiveTask() override { retire(); }

    /// Sets other memory for the task, which receives from the next submission on.
    template <class T>
    void bind(std::span<T> data) {
      rebind(reinterpret_cast<std::byte*>(data.data()), data.size_bytes());
    }
};

}  // namespace comm
}  // namespace v0
}  // namespace reef

#ifndef REEF_COMPILED
#include <reef/comm/point_to_point.ipp>
#endif
