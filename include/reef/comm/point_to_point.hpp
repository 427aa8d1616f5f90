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

/// The common base of sends and receives: a payload in pieces, straight from and into its memory.
class TransferTask : public Task, private Receiver {
public:
  /// Returns what the sender of `bytes` sends; a receiver sends nothing.
  static constexpr Cost cost(Bytes bytes, Bytes piece = default_piece_bytes) {
    return message_cost(bytes, piece);
  }

  [[nodiscard]] Completion completion() const { return completion_; }
  /// Sets how the next submissions complete; not while in flight. Each end chooses for itself: a posted send may meet a
  /// held receive.
  void set_completion(Completion completion) { completion_ = completion; }

  /// Sets whether both ends know the length of the next submissions; not while in flight. Both ends set the same.
  void set_length(Length length) { length_ = length; }
  /// Sets the bytes of its memory that the next submission sends: fewer, where the length is `at_most`. Not once the
  /// task has started, but the function that makes it ready may still set it. Throws OptionError for more.
  void set_used(Bytes bytes);
  /// Returns the bytes that were received, or sent, in the last submission. Once it is complete.
  [[nodiscard]] Bytes used() const { return used_; }

  /// Sets the place of the next submission in the job; each of its messages carries it, and the receiver takes no
  /// other. Not once the task has started, but the function that makes it ready may still set it.
  void set_origin(const Origin& origin) { origin_ = origin; }

protected:
  TransferTask(Kind kind, std::string name, int peer, std::byte* data, Bytes bytes)
      : Task(kind, std::move(name)), peer_(peer), data_(data), bytes_(bytes), used_(bytes) {}
  ~TransferTask() override = default;

  /// Sets other memory for the next submission; not while in flight.
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

/// Sends the bytes of `data` to rank `peer`, which receives them in a ReceiveTask of the same name.
///
/// | who      | this rank and `peer`; the n-th send of a name meets its n-th receive, counted as they |
/// |          | start: posted ones of one name too, by different tasks, are on one queue             |
/// | queue    | held till complete, or posted: see Completion                                        |
/// | complete | when `data` may be changed again (on a shaped link: when it has left this rank)      |
/// | wire     | cost(bytes): one message per piece, each with its header; 0 bytes send nothing       |
/// | errors   | MpiError on both ranks if a message is not the one that is next, of another size or   |
/// |          | origin too, or is not as it was sent: its payload has a checksum                     |
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

    /// Sends other memory from the next submission on.
    template <class T>
    void bind(std::span<T> data) {
      rebind(bytes_of(data), data.size_bytes());
    }

  private:
    // The wire only reads through the pointer.
    template <class T>
    static std::byte* bytes_of(std::span<T> data) {
      return const_cast<std::byte*>(reinterpret_cast<const std::byte*>(data.data()));
    }
};

/// Receives exactly data.size() elements from rank `peer`, which sends them in a SendTask of the same name.
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

    /// Receives into other memory from the next submission on.
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
