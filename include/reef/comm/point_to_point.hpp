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

/// How long a transfer keeps the next task of its queue from starting.
///
/// | held   | until it is complete                                                                  |
/// | posted | until it has started: its `ready` holds and its messages are given to MPI. Any number |
/// |        | of a queue may be under way, and complete in any order; one that is not ready still    |
/// |        | holds up what is behind it                                                             |
enum class Completion : std::uint8_t { held, posted };

namespace detail {

/// What sends and receives share: a payload in pieces, straight from and into its memory.
class TransferTask : public Task, private Receiver {
public:
  /// What the sender of `bytes` sends; a receiver sends nothing.
  static constexpr Cost cost(Bytes bytes, Bytes piece = default_piece_bytes) {
    return message_cost(bytes, piece);
  }

  [[nodiscard]] Completion completion() const { return completion_; }
  /// How the next submissions complete; not while in flight. Each end chooses for itself: a posted send may meet
  /// a held receive.
  void set_completion(Completion completion) { completion_ = completion; }

  /// Whether both ends know how long the next submissions are; not while in flight. Both ends say the same.
  void set_length(Length length) { length_ = length; }
  /// Of the next submission, the bytes of its memory that are sent: fewer, where the length is `at_most`. Not once it has
  /// started: what makes it ready may still say so. Throws OptionError for more.
  void set_used(Bytes bytes);
  /// The bytes that have come, or were sent, in the last submission. Once it is complete.
  [[nodiscard]] Bytes used() const { return used_; }

  /// Where in a job the next submission belongs; each of its messages says it, and the receiver takes no other. Not
  /// once it has started: what makes it ready may still set it.
  void set_origin(const Origin& origin) { origin_ = origin; }

protected:
  TransferTask(Kind kind, std::string name, int peer, std::byte* data, Bytes bytes)
      : Task(kind, std::move(name)), peer_(peer), data_(data), bytes_(bytes), used_(bytes) {}
  ~TransferTask() override = default;

  /// Other memory for the next submission; not while in flight.
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
    // The wire only reads through it.
    template <class T>
    static std::byte* bytes_of(std::span<T> data) {
      return const_cast<std::byte*>(reinterpret_cast<const std::byte*>(data.data()));
    }
};

/// Receives exactly data.size() elements from rank `peer`. The other half of SendTask.
///
/// | complete | when `data` holds them; before that, and after an error, its contents are unspecified |
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
