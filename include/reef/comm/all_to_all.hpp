#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <iterator>
#include <numeric>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <reef/comm/detail/wire.hpp>
#include <reef/comm/shards.hpp>
#include <reef/comm/task.hpp>
#include <reef/core/error.hpp>
#include <reef/core/group.hpp>

namespace reef {
inline namespace v0 {
namespace comm {

/// What a rank has for the others: a part for each, or one part that all get.
enum class Parts : std::uint8_t { each, one };

/// Sends each rank, or each member of a group, its own part of this rank's input, and receives this rank's
/// parts of theirs. Parts may have any lengths; nothing is summed.
///
///     output[output_offsets[p], output_offsets[p+1]) on r
///         = input[input_offsets[r], input_offsets[r+1]) on p
///
/// | who      | all ranks, in the same order among the collectives of a queue of the same name          |
/// | group    | its members alone, as ReduceScatterTask; P is then its size, p and r are positions       |
/// | shape    | input: (input_offsets[P]) bytes, output: (output_offsets[P]); parts may be empty. What p  |
/// |          | has for r is as long as what r awaits of p; the own part is copied                       |
/// | complete | when all parts are in the output, and those of the input have left                       |
/// | length   | exact, or `at_most`: offsets then bound the parts, of which each rank sends what it has by then      |
/// |          | (set_length, set_used)                                                                  |
/// | to all   | with Parts::one all of the input, 0 to input_offsets[1], goes to each: an all-gather of any  |
/// |          | lengths                                                                                 |
/// | life     | input unchanged, both alive, until complete; they must not overlap                       |
/// | wire     | cost(): input without the own part, straight to its owners, by messages also where ranks  |
/// |          | share memory; one at least for each other rank, so that lengths are always compared      |
/// | memory   | a header of 64 bytes for each piece that is sent or received, grown once                 |
/// | errors   | OptionError, at once: bad offsets, a bad group; when it is submitted: this rank is no     |
/// |          | member; out of wait(), as the Progress object is unusable then: own parts of two lengths. |
/// |          | MpiError on members: lengths, order or members differ; by the deadline, where another is  |
/// |          | at a collective that goes through shared memory                                          |
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
               Parts parts = Parts::each)
      : Task(Kind::all_to_all, std::move(name), std::move(group)),
        parts_(parts),
        input_offsets_(std::move(input_offsets)),
        output_offsets_(std::move(output_offsets)) {
    check_sides(this->group() ? this->group()->size() : static_cast<int>(output_offsets_.size()) - 1);
    bind(input, output);
  }
  ~AllToAllTask() override { retire(); }

  /// Other memory of the same lengths for the next submission; not while in flight.
  void bind(std::span<const std::byte> input, std::span<std::byte> output) {
    detail::check_offsets(name(), input_offsets_, std::ssize(input));
    detail::check_offsets(name(), output_offsets_, std::ssize(output));
    input_ = input;
    output_ = output;
    used_.assign(output_offsets_.size() - 1, 0);
    for (std::size_t p = 0; p < used_.size(); ++p) used_[p] = most_for(static_cast<int>(p));
  }

  /// Whether all ranks know how long the parts of the next submissions are; not while in flight. All say the same.
  void set_length(Length length) { length_ = length; }
  /// How much of the part for a rank, in a group for the member of that position, is sent from the next submission on: less,
  /// where the length is `at_most`. Not once it has started: what makes it ready may still say so. Throws OptionError for
  /// more.
  void set_used(int position, Bytes bytes) {
    const Bytes most = most_for(position);
    if (bytes > most || (bytes < most && length_ == Length::exact)) {
      throw OptionError("reef::comm: '", name(), "' is to send ", bytes, " of ", most, " bytes to member ", position,
                        ".\n  fix: all of them, or fewer with Length::at_most on all ranks.");
    }
    used_[to_index(position)] = bytes;
  }

  /// What rank `rank` of `ranks` sends at most, of a part for each: in a group the position, of its size.
  static Cost cost(int ranks, int rank, std::span<const std::int64_t> input_offsets,
                   Bytes piece = default_piece_bytes) {
    Cost cost;
    for (int position = 0; position < ranks; ++position) {
      if (position == rank) continue;
      const Bytes bytes = length(input_offsets, position);
      const std::uint64_t messages = pieces_of(bytes, piece);
      cost = cost + Cost{messages, bytes + messages * header_bytes, 0};
    }
    return cost;
  }

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
  [[nodiscard]] Bytes most_for(int position) const {
    return length(input_offsets_, parts_ == Parts::one ? 0 : position);
  }

  void check_sides(int ranks) const {
    detail::check_ranks(name(), std::ssize(input_offsets_) - 1, parts_ == Parts::one ? 1 : ranks);
    detail::check_ranks(name(), std::ssize(output_offsets_) - 1, ranks);
  }

  void start(const detail::Station& station) override {
    const int ranks = station.size();
    const int own = station.position;
    check_sides(ranks);
    const Bytes kept = used_[to_index(own)];
    if (most_for(own) != length(output_offsets_, own)) {
      throw OptionError("reef::comm: '", name(), "' keeps ", most_for(own), " bytes of its input, but has ",
                        length(output_offsets_, own),
                        " for them in its output.\n  fix: own parts of one length in both.");
    }
    count_in(station.sent);
    members_.assign(station.members.begin(), station.members.end());
    pending_ = 0;
    moved_ = false;
    peers_.assign(to_index(ranks), {});
    for (int position = 0; position < ranks; ++position) {
      if (position == own) continue;
      Peer& peer = peers_[to_index(position)];
      peer.to_send = pieces_of(most_for(position), station.piece_bytes);
      peer.to_receive = pieces_of(length(output_offsets_, position), station.piece_bytes);
      pending_ += peer.to_send + peer.to_receive;
    }
    if (headers_.size() < pending_) headers_.resize(pending_);
    // Each begins with its neighbour, so that not all send to one.
    Header* next = headers_.data();
    for (int step = 1; step < ranks; ++step)
      next = receive(station, (own + ranks - step) % ranks, next);
    for (int step = 1; step < ranks; ++step) next = send(station, (own + step) % ranks, next);
    if (kept > 0) {
      std::memcpy(output_.data() + output_offsets_[to_index(own)], input_.data() + begin_for(own),
                  kept);
    }
  }

  // Pieces are numbered by how many are behind them: the first says how long the whole is.
  Header* receive(const detail::Station& station, int position, Header* headers) {
    const std::uint64_t pieces = peers_[to_index(position)].to_receive;
    const Bytes all = length(output_offsets_, position);
    std::byte* const place = output_.data() + output_offsets_[to_index(position)];
    for (std::uint64_t piece = 0; piece < pieces; ++piece) {
      const Bytes begin = piece * station.piece_bytes;
      const Bytes bytes = (std::min)(station.piece_bytes, all - begin);
      const Header expected =
          header(station, static_cast<std::uint32_t>(pieces - 1 - piece), bytes);
      station.wire.receive(*this, token(position, true), station.rank_of(position), station.channel,
                           kind(), expected, *headers++, place + begin, length_);
    }
    return headers;
  }
  Header* send(const detail::Station& station, int position, Header* headers) {
    const std::uint64_t pieces = peers_[to_index(position)].to_send;
    const Bytes all = used_[to_index(position)];
    const std::byte* const place = input_.data() + begin_for(position);
    for (std::uint64_t piece = 0; piece < pieces; ++piece) {
      const Bytes begin = piece * station.piece_bytes;
      const Bytes bytes = begin < all ? (std::min)(station.piece_bytes, all - begin) : 0;
      *headers = header(station, static_cast<std::uint32_t>(pieces - 1 - piece), bytes);
      station.wire.send(*this, token(position, false), station.rank_of(position), station.channel,
                        kind(), *headers++, place + begin);
    }
    return headers;
  }

  static std::uint64_t token(int position, bool receives) {
    return static_cast<std::uint64_t>(position) * 2 + (receives ? 1 : 0);
  }
  void delivered(std::uint64_t token) override {
    Peer& peer = peers_[token / 2];
    if (token % 2 == 1) {
      --peer.to_receive;
      peer.seen = true;
    } else {
      --peer.to_send;
    }
    --pending_;
    moved_ = true;
  }

  bool advance() override { return std::exchange(moved_, false); }
  [[nodiscard]] bool done() const override { return pending_ == 0; }
  [[nodiscard]] detail::Awaited awaited() const override { return {this, pending_}; }
  /// The ranks that sent nothing yet; if all have sent something, those that still owe or take.
  void missing(std::vector<int>& ranks) const override {
    ranks.clear();
    for (const bool absent : {true, false}) {
      for (std::size_t position = 0; position < peers_.size(); ++position) {
        const Peer& peer = peers_[position];
        const bool owes = peer.to_receive > 0 && (!absent || !peer.seen);
        if (owes || (!absent && peer.to_send > 0)) ranks.push_back(members_[position]);
      }
      if (!ranks.empty()) return;
    }
  }
  [[nodiscard]] Bytes payload() const override { return input_.size(); }
  [[nodiscard]] Bytes carried() const override {
    if (parts_ == Parts::one) return *std::max_element(used_.begin(), used_.end());
    return std::accumulate(used_.begin(), used_.end(), Bytes{0});
  }

  Parts parts_;
  Length length_ = Length::exact;
  std::vector<std::int64_t> input_offsets_;   // (P + 1), or 2 of one part
  std::vector<std::int64_t> output_offsets_;  // (P + 1)
  std::span<const std::byte> input_;
  std::span<std::byte> output_;
  std::vector<int> members_;
  std::vector<Bytes> used_;     // by position: of what is for it
  std::vector<Peer> peers_;  // by position; the own has nothing to do
  std::vector<Header> headers_;
  std::uint64_t pending_ = 0;  // messages not yet delivered
  bool moved_ = false;
};

}  // namespace comm
}  // namespace v0
}  // namespace reef
