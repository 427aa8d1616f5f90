#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include <reef/core/error.hpp>
#include <reef/schedule/detail/structure_checker.hpp>
#include <reef/schedule/program.hpp>

namespace reef {
inline namespace v0 {
namespace schedule::detail {

/// A message as one end of it sees it.
struct End {
  std::size_t rank = 0;         ///< the place of its program, or skeleton
  std::size_t instruction = 0;  ///< of its round, or a node
  Bytes bytes = 0;
  std::uint64_t pieces = 1;
  std::uint32_t scope = 0;  ///< scope_by_instruction
};

/// Ends of messages, of which the n-th that one rank sends another under a channel meets the n-th received there.
class Ends {
public:
  /// Those of a rank in its order.
  void add_send(int source, const Message& message, std::size_t rank, std::size_t instruction,
                std::uint32_t scope) {
    add(sent_, source, message.peer, message, {rank, instruction, message.bytes, message.pieces, scope});
  }
  void add_receive(int target, const Message& message, std::size_t rank, std::size_t instruction,
                   std::uint32_t scope) {
    add(received_, message.peer, target, message, {rank, instruction, message.bytes, message.pieces, scope});
  }

  /// Calls met(send, receive) for each message, by source, target and channel. Throws ScheduleError when an end is
  /// missing or the sizes differ; `text` says of an end which instruction it is.
  template <class Text, class Met>
  void match(const Text& text, const Met& met) {
    for (auto* all : {&sent_, &received_}) {
      std::sort(all->begin(), all->end(), [](const Keyed& a, const Keyed& b) {
        return std::pair(a.key(), a.order) < std::pair(b.key(), b.order);
      });
    }
    constexpr std::string_view fix =
        ".\n  fix: a receive for each send on the channel, in its order, of its bytes and pieces.";
    const Keyed* unexpected = nullptr;  // the first received that nobody sends
    std::size_t r = 0;
    const auto pass_over = [&](std::size_t to) {
      if (r < to && unexpected == nullptr) unexpected = &received_[r];
      r = to;
    };
    for (const Keyed& send : sent_) {
      std::size_t next = r;
      while (next < received_.size() && received_[next].key() < send.key()) ++next;
      pass_over(next);
      if (r == received_.size() || received_[r].key() != send.key()) {
        throw ScheduleError("reef::schedule::verify: ", text(send.end), " sends to rank ",
                            send.target, ", which never receives it", fix);
      }
      const End& receive = received_[r++].end;
      if (send.end.bytes != receive.bytes) {
        throw ScheduleError("reef::schedule::verify: ", text(send.end), " sends ", send.end.bytes,
                            " bytes, but ", text(receive), " expects ", receive.bytes, fix);
      }
      if (send.end.pieces != receive.pieces) {
        throw ScheduleError("reef::schedule::verify: ", text(send.end), " sends ", send.end.pieces,
                            " pieces, but ", text(receive), " expects ", receive.pieces, fix);
      }
      if (send.end.scope != receive.scope) {
        throw ScheduleError("reef::schedule::verify: ", text(send.end), " sends what ", text(receive),
                            " expects, but the one is in a loop that the other does not share.\n"
                            "  why: the one exchanges it as often as the loop runs.\n"
                            "  fix: both in the bodies of one shared loop, or both in none.");
      }
      met(send.end, receive);
    }
    pass_over(received_.size());
    if (unexpected == nullptr) return;
    throw ScheduleError("reef::schedule::verify: ", text(unexpected->end),
                        " waits for a message of rank ", unexpected->source,
                        ", which never sends it", fix);
  }

private:
  struct Keyed {
    int source, target;
    std::uint32_t channel;
    std::uint32_t order;  // in which they were added
    End end;
    [[nodiscard]] std::tuple<int, int, std::uint32_t> key() const { return {source, target, channel}; }
  };

  static void add(std::vector<Keyed>& to, int source, int target, const Message& message, const End& end) {
    to.push_back({source, target, message.channel, static_cast<std::uint32_t>(to.size()), end});
  }

  std::vector<Keyed> sent_{};
  std::vector<Keyed> received_{};
};

/// The instructions at the two ends of every message of one round. Throws ScheduleError when an
/// end is missing or the sizes differ.
inline std::vector<std::pair<End, End>> match_messages(std::span<const Program> programs) {
  Ends ends;
  for (std::size_t r = 0; r < programs.size(); ++r) {
    const int rank = programs[r].rank;
    const std::vector<std::uint32_t> scopes = scope_by_instruction(programs[r]);
    for (std::size_t i = 0; i < programs[r].round.size(); ++i) {
      for (const Message& message : programs[r].round[i].sends) ends.add_send(rank, message, r, i, scopes[i]);
      for (const Message& message : programs[r].round[i].receives) ends.add_receive(rank, message, r, i, scopes[i]);
    }
  }
  std::vector<std::pair<End, End>> pairs;
  ends.match(
      [&](const End& end) {
        return who(programs[end.rank], programs[end.rank].round[end.instruction]);
      },
      [&](const End& send, const End& receive) { pairs.emplace_back(send, receive); });
  return pairs;
}

}  // namespace schedule::detail
}  // namespace v0
}  // namespace reef
