#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <reef/schedule/program.hpp>

namespace reef {
inline namespace v0 {
namespace schedule {

/// A run of `count` ranks at equal distances: first, first + stride, and so on.
struct RankRun {
  int first = 0;
  int stride = 1;
  int count = 1;

  friend constexpr bool operator==(const RankRun&, const RankRun&) = default;
};

/// A set of ranks in ascending order, stored as runs (first, stride, count): the replicas of a stage take only a few
/// numbers, however many replicas exist.
struct RankSet {
  std::vector<RankRun> runs{};

  /// Returns the set of these ranks, which must be ascending.
  static RankSet of(std::span<const int> members);
  [[nodiscard]] std::vector<int> members() const;
  [[nodiscard]] std::size_t size() const;
  [[nodiscard]] int first() const { return runs.front().first; }
  /// Returns the position of a rank among the members; -1 if it is not a member.
  [[nodiscard]] int position_of(int rank) const;

  friend bool operator==(const RankSet&, const RankSet&) = default;
};

/// Consecutive members of a group that each send or receive one message of one size, or no message if `there` is false.
struct Portion {
  std::uint32_t members = 1;
  bool there = false;
  Bytes bytes = 0;
  std::uint64_t pieces = 0;

  [[nodiscard]] bool is_like(const Portion& other) const {
    return there == other.there && bytes == other.bytes && pieces == other.pieces;
  }
  friend constexpr bool operator==(const Portion&, const Portion&) = default;
};

/// A collective as one record: the messages that a rank sends to the other members and receives from them, by position,
/// in as few portions (consecutive members with messages of one size) as possible.
struct Exchange {
  std::uint32_t group = 0;  ///< index into Skeleton::groups, the sets of ranks
  std::uint32_t channel = 0;
  std::vector<Portion> sent{};
  std::vector<Portion> received{};

  friend bool operator==(const Exchange&, const Exchange&) = default;
};

/// The part of a rank's program that other ranks can wait for: its messages and their peers, and the
/// order of the instructions: which of them must be complete, or have started, before another starts.
///
/// A deadlock is a cycle of waits. No cycle is within one rank, since an instruction waits only for earlier ones of its
/// program. So a cycle passes through messages, within one run of the program, and can be found from the skeletons
/// alone.
///
/// The skeleton contains one iteration of a shared loop, which proves any number: messages match within an iteration,
/// and no rank ends an iteration before all ranks that share the loop have begun it. So if there is a path through
/// several iterations, from after the loop to before it on another rank, there is one through a single iteration.
///
/// | node     | an instruction with messages; a loop on a path between two of these; or a join: a point for |
/// |          | which several nodes wait and which waits for several nodes itself                           |
/// | start    | after `waits`, and after the previous node in its queue is complete, or started if posted   |
/// | complete | once both ends of all messages that it sends or receives have started                       |
/// | names    | instructions and loops have names, for the error text of a deadlock                         |
struct Skeleton {
  enum class Part : std::uint8_t { instruction, loop, join };

  static constexpr std::uint32_t none = ~std::uint32_t{0};

  struct Name {
    std::uint32_t kind = 0;  ///< index into `kinds`, the names of kinds of instructions
    int index = -1;
    int micro_batch = -1;

    friend constexpr bool operator==(const Name&, const Name&) = default;
  };

  struct Node {
    Name name{};
    std::uint32_t first_wait = 0;
    std::uint32_t first_send = 0;
    std::uint32_t first_receive = 0;
    std::uint32_t exchange = none;  ///< index into `exchanges`, the collectives; for a loop, an index into `untils`
    std::uint32_t scope = 0;        ///< scope of an instruction (which loop it is in), from scope_by_instruction
    Part part = Part::join;
    Lane lane = Lane::compute;
    bool posted = false;

    friend constexpr bool operator==(const Node&, const Node&) = default;
  };

  /// A wait for an earlier node. `point` is twice its index, plus 1 if the node must be complete, not just started.
  struct Wait {
    std::uint32_t point = 0;

    [[nodiscard]] std::uint32_t node() const { return point / 2; }
    [[nodiscard]] bool complete() const { return point % 2 == 1; }

    friend constexpr bool operator==(const Wait&, const Wait&) = default;
  };

  int rank = 0;
  std::vector<std::string> kinds{};
  std::vector<RankSet> groups{};
  std::vector<Node> nodes{};  ///< instructions with messages, loops and joins of waits, in the order of the program
  std::vector<Wait> waits{};
  std::vector<Message> sends{};
  std::vector<Message> receives{};
  std::vector<Exchange> exchanges{};
  std::vector<Name> untils{};

  [[nodiscard]] std::span<const Wait> waits_of(std::size_t node) const& {
    return part_of(waits, &Node::first_wait, node);
  }
  void waits_of(std::size_t) const&& = delete;
  [[nodiscard]] std::span<const Message> sends_of(std::size_t node) const& {
    return part_of(sends, &Node::first_send, node);
  }
  void sends_of(std::size_t) const&& = delete;
  [[nodiscard]] std::span<const Message> receives_of(std::size_t node) const& {
    return part_of(receives, &Node::first_receive, node);
  }
  void receives_of(std::size_t) const&& = delete;

  /// Returns the name of an instruction or loop for errors: "rank 0: Send(3, micro-batch 1) on lane send" (in the queue
  /// send).
  [[nodiscard]] std::string text_of(std::size_t node) const;

private:
  template <class T>
  std::span<const T> part_of(const std::vector<T>& all, std::uint32_t Node::*first,
                             std::size_t node) const {
    const std::size_t begin = nodes[node].*first;
    const std::size_t end = node + 1 < nodes.size() ? nodes[node + 1].*first : all.size();
    return std::span(all).subspan(begin, end - begin);
  }
};

}  // namespace schedule
}  // namespace v0
}  // namespace reef

#ifndef REEF_COMPILED
#include <reef/schedule/skeleton.ipp>
#endif
