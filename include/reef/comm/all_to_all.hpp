#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <reef/comm/detail/receiver.hpp>
#include <reef/comm/detail/station.hpp>
#include <reef/comm/message.hpp>
#include <reef/comm/shards.hpp>
#include <reef/comm/task.hpp>
#include <reef/core/group.hpp>
#include <reef/core/inline.hpp>

namespace reef {
inline namespace v0 {
namespace comm {

/// The division of a rank's input in an all-to-all: `each`, a part for each rank; `one`, one part that all ranks
/// receive.
enum class Parts : std::uint8_t { each, one };

/// A task that sends each rank, or each member of a group, its own part of this rank's input, and receives
/// the parts of their inputs that are for this rank. Parts may have any lengths; nothing is summed.
///
///     output[output_offsets[p], output_offsets[p+1]) on r
///         = input[input_offsets[r], input_offsets[r+1]) on p
///
/// | who      | all ranks submit it, in the same order among the collectives of the queue of the same name      |
/// | group    | only its members, as with ReduceScatterTask; P is then its size, p and r are positions          |
/// | shape    | input: (input_offsets[P]) bytes, output: (output_offsets[P]); parts may be empty. The part that |
/// |          | p sends to r is as long as r expects; a rank's part for itself is copied                        |
/// | complete | when the output holds all parts, and all parts of the input have been sent                      |
/// | length   | exact, or `at_most`: the offsets are then upper bounds, and each rank sends as many bytes of    |
/// |          | a part as set_used states (set_length, set_used)                                                |
/// | to all   | with Parts::one the whole input, [0, input_offsets[1]), is sent to every rank: an all-gather    |
/// |          | of parts of any lengths                                                                         |
/// | life     | both memories must exist, and the input be unchanged, until complete; no overlap                |
/// | wire     | cost(): the input without the part for this rank, directly to the receivers, by messages even   |
/// |          | in shared memory; at least one to each other rank, so that lengths are always compared          |
/// | memory   | a header of 64 bytes for each piece that is sent or received, allocated once                    |
/// | errors   | OptionError: from the constructor for bad offsets or a bad group; from submit() if this rank is |
/// |          | not a member; from wait(), with the Progress object unusable, if the lengths of a rank's part   |
/// |          | for itself differ. MpiError on members: lengths, order or members differ; at the deadline, if   |
/// |          | another member is in a collective through shared memory                                         |
///
/// \code
/// // given: comm::Progress& progress
/// // given: std::span<const std::byte> input, std::span<std::byte> output
/// const auto equal = comm::even_offsets(std::ssize(input), progress.size());
/// comm::AllToAllTask task("tokens to experts", input, equal, output, equal);
/// progress.submit(progress.queue("experts"), task);
/// progress.wait(task);
/// \endcode
class AllToAllTask final : public Task, private detail::Receiver {
public:
  AllToAllTask(std::string name, std::span<const std::byte> input,
               std::vector<std::int64_t> input_offsets, std::span<std::byte> output,
               std::vector<std::int64_t> output_offsets, std::optional<Group> group = {},
               Parts parts = Parts::each);
  ~AllToAllTask() override { retire(); }

  /// Sets other memory of the same lengths for the task's next submission; not while in flight.
  void bind(std::span<const std::byte> input, std::span<std::byte> output);

  /// Sets whether the parts sent to ranks have exactly the lengths of the offsets in the next submissions, or at most
  /// these; the same on all ranks. Not while in flight.
  void set_length(Length length) { length_ = length; }
  /// Sets how many bytes of the part for a rank, or for the member of a group at that position, are sent
  /// from the next submission on: fewer than the part has, if the length is `at_most`. Call it before the
  /// task starts; its `ready` function may still do so. Throws OptionError for more bytes than the part has.
  void set_used(int position, Bytes bytes);

  /// Returns the upper bound of what rank `rank` of `ranks` sends in an all-to-all with Parts::each; in a group `rank`
  /// is the position, and `ranks` the size.
  static Cost cost(int ranks, int rank, std::span<const std::int64_t> input_offsets,
                   Bytes piece = default_piece_bytes);

private:
  struct Peer {
    std::uint64_t to_send = 0;
    std::uint64_t to_receive = 0;
    bool seen = false;
  };

  static Bytes length(std::span<const std::int64_t> offsets, int position) {
    const auto at = static_cast<std::size_t>(position);
    return static_cast<Bytes>(offsets[at + 1] - offsets[at]);
  }
  static std::uint64_t pieces_of(Bytes bytes, Bytes piece) {
    return std::max<std::uint64_t>(1, divide_up(bytes, piece));
  }
  static std::size_t to_index(int position) { return static_cast<std::size_t>(position); }

  [[nodiscard]] std::int64_t begin_for(int position) const {
    return parts_ == Parts::one ? 0 : input_offsets_[to_index(position)];
  }
  [[nodiscard]] Bytes max_for(int position) const {
    return length(input_offsets_, parts_ == Parts::one ? 0 : position);
  }

  void check_sides(int ranks) const;

  REEF_INLINE void start(const detail::Station& station) override;

  Header* receive(const detail::Station& station, int position, Header* headers);
  Header* send(const detail::Station& station, int position, Header* headers);

  static std::uint64_t token(int position, bool receives) {
    return static_cast<std::uint64_t>(position) * 2 + (receives ? 1 : 0);
  }
  REEF_INLINE void delivered(std::uint64_t token) override;

  bool advance() override { return std::exchange(moved_, false); }
  [[nodiscard]] bool done() const override { return pending_ == 0; }
  [[nodiscard]] detail::Awaited awaited() const override { return {this, pending_}; }
  /// Fills in the ranks from which no message has come yet; if all have sent some, those whose messages are not all
  /// sent or received.
  REEF_INLINE void missing(std::vector<int>& ranks) const override;
  [[nodiscard]] Bytes payload() const override { return input_.size(); }
  [[nodiscard]] REEF_INLINE Bytes carried() const override;

  Parts parts_;
  Length length_ = Length::exact;
  std::vector<std::int64_t> input_offsets_;   // (P + 1), or 2 for one part
  std::vector<std::int64_t> output_offsets_;  // (P + 1)
  std::span<const std::byte> input_;
  std::span<std::byte> output_;
  std::vector<int> members_;
  std::vector<Bytes> used_;     // bytes sent to each position
  std::vector<Peer> peers_;  // the progress of the exchange with each position; the entry of this rank is unused
  std::vector<Header> headers_;
  std::uint64_t pending_ = 0;  // messages not yet delivered
  bool moved_ = false;
};

}  // namespace comm
}  // namespace v0
}  // namespace reef

#ifndef REEF_COMPILED
#include <reef/comm/all_to_all.ipp>
#endif
