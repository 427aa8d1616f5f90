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

/// `count` ranks: first, first + stride, and so on.
struct RankRun {
  int first = 0;
  int stride = 1;
  int count = 1;

  friend constexpr bool operator==(const RankRun&, const RankRun&) = default;
};

/// Ranks, ascending. As runs the replicas of a stage are a few numbers, however many they are.
struct RankSet {
  std::vector<RankRun> runs{};

  /// Of ascending ranks.
  static RankSet of(std::span<const int> members);
  [[nodiscard]] std::vector<int> members() const;
  [[nodiscard]] std::size_t size() const;
  [[nodiscard]] int first() const { return runs.front().first; }
  /// Among the members; -1 if it is none.
  [[nodiscard]] int position_of(int rank) const;

  friend bool operator==(const RankSet&, const RankSet&) = default;
};

/// So many members of a group in a row, to or from each of which there goes a message of that size, or none.
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

/// A collective as one record: what a rank sends to the other members and receives from them, by position, in as
/// few portions as there are.
struct Exchange {
  std::uint32_t group = 0;  ///< of Skeleton::groups
  std::uint32_t channel = 0;
  std::vector<Portion> sent{};
  std::vector<Portion> received{};

  friend bool operator==(const Exchange&, const Exchange&) = default;
};

/// Of a rank's program what other ranks can wait for: who exchanges what with whom, and which of that has to be
/// complete, or started, before which starts.
///
/// A deadlock is a circle of waits, and one within a rank there is none: all of its waits go back in the
/// program. So a circle goes through messages, within a round, and is found in the skeletons alone.
///
/// A shared loop stands there with one iteration. Any number is as good: messages meet within an iteration, and no
/// rank ends one before all that share the loop have begun it, so a way through several iterations, from what comes
/// behind the loop to what comes before it on another rank, is a way through one.
///
/// | node     | an instruction with messages; a loop on a way between two of these; or a join: what several |
/// |          | wait for that waits for several itself                                                     |
/// | start    | after `waits`, and after the node ahead of it on its lane: complete, or started if posted   |
/// | complete | once all the messages that it sends and receives have both ends started                    |
/// | names    | instructions and loops have them, for what is said of a deadlock                           |
struct Skeleton {
  enum class Part : std::uint8_t { instruction, loop, join };

  static constexpr std::uint32_t none = ~std::uint32_t{0};

  struct Name {
    std::uint32_t kind = 0;  ///< of `kinds`
    int index = -1;
    int micro_batch = -1;

    friend constexpr bool operator==(const Name&, const Name&) = default;
  };

  struct Node {
    Name name{};
    std::uint32_t first_wait = 0;
    std::uint32_t first_send = 0;
    std::uint32_t first_receive = 0;
    std::uint32_t exchange = none;  ///< of `exchanges`; of a loop what it runs until, of `untils`
    std::uint32_t scope = 0;  ///< of an instruction: scope_by_instruction
    Part part = Part::join;
    Lane lane = Lane::compute;
    bool posted = false;

    friend constexpr bool operator==(const Node&, const Node&) = default;
  };

  /// For an earlier node: twice its place, and one more to wait until it is complete and not just started.
  struct Wait {
    std::uint32_t point = 0;

    [[nodiscard]] std::uint32_t node() const { return point / 2; }
    [[nodiscard]] bool complete() const { return point % 2 == 1; }

    friend constexpr bool operator==(const Wait&, const Wait&) = default;
  };

  int rank = 0;
  std::vector<std::string> kinds{};
  std::vector<RankSet> groups{};
  std::vector<Node> nodes{};  ///< in the order of the program
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

  /// As errors say it: "rank 0: Send(3, micro-batch 1) on lane send".
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
