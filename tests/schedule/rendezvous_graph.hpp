#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include <reef/core/error.hpp>
#include <reef/core/text.hpp>
#include <reef/schedule/dependencies.hpp>
#include <reef/schedule/detail/structure_checker.hpp>
#include <reef/schedule/placement.hpp>
#include <reef/schedule/program.hpp>

/// The proof as it reads: every start and end of two rounds of all ranks is a node, every message an edge each way. What
/// verify finds in skeletons is compared with it.
namespace reef::test::reference {

using schedule::Dependencies;
using schedule::Message;
using schedule::Precedence;
using schedule::Program;
using schedule::Repeat;
using schedule::detail::who;

/// The n-th message between two ranks under one channel, as each end sees it.
struct End {
  std::size_t rank, instruction;
  Bytes bytes;
  std::uint64_t pieces;
};

using ChannelKey = std::tuple<int, int, std::uint32_t>;  // source, target, channel

/// The instructions at the two ends of every message of one round. Throws ScheduleError when an
/// end is missing or the sizes differ.
inline std::vector<std::pair<End, End>> match_messages(std::span<const Program> programs) {
  std::map<ChannelKey, std::vector<End>> sent;
  std::map<ChannelKey, std::vector<End>> received;
  for (std::size_t r = 0; r < programs.size(); ++r) {
    for (std::size_t i = 0; i < programs[r].round.size(); ++i) {
      const int rank = programs[r].rank;
      for (const Message& message : programs[r].round[i].sends) {
        sent[{rank, message.peer, message.channel}].push_back(
            {r, i, message.bytes, message.pieces});
      }
      for (const Message& message : programs[r].round[i].receives) {
        received[{message.peer, rank, message.channel}].push_back(
            {r, i, message.bytes, message.pieces});
      }
    }
  }
  const auto text = [&](const End& end) {
    return who(programs[end.rank], programs[end.rank].round[end.instruction]);
  };
  constexpr std::string_view fix =
      ".\n  fix: a receive for each send on the channel, in its order, of its bytes and pieces.";
  std::vector<std::pair<End, End>> pairs;
  for (const auto& [key, sends] : sent) {
    const std::vector<End>& receives = received[key];
    for (std::size_t n = 0; n < sends.size(); ++n) {
      if (n >= receives.size()) {
        throw ScheduleError("reef::schedule::verify: ", text(sends[n]), " sends to rank ",
                            std::get<1>(key), ", which never receives it", fix);
      }
      if (sends[n].bytes != receives[n].bytes) {
        throw ScheduleError("reef::schedule::verify: ", text(sends[n]), " sends ", sends[n].bytes,
                            " bytes, but ", text(receives[n]), " expects ", receives[n].bytes, fix);
      }
      if (sends[n].pieces != receives[n].pieces) {
        throw ScheduleError("reef::schedule::verify: ", text(sends[n]), " sends ", sends[n].pieces,
                            " pieces, but ", text(receives[n]), " expects ", receives[n].pieces,
                            fix);
      }
      pairs.emplace_back(sends[n], receives[n]);
    }
  }
  for (const auto& [key, receives] : received) {
    const std::size_t matched = sent[key].size();
    if (receives.size() > matched) {
      throw ScheduleError("reef::schedule::verify: ", text(receives[matched]),
                          " waits for a message of rank ", std::get<0>(key),
                          ", which never sends it", fix);
    }
  }
  return pairs;
}

/// Two rounds of all ranks as a graph of starts and ends: an edge a -> b says that b cannot happen
/// before a. Sends count as rendezvous, so neither end of a message ends before the other starts. A
/// loop begins with the start of its first instruction, and ends with the end of its last: without a
/// limit not before what it runs until.
class RendezvousGraph {
public:
  RendezvousGraph(std::span<const Program> programs, std::span<const Dependencies> dependencies)
      : programs_(programs) {
    std::size_t count = 0;
    for (const Program& program : programs) {
      first_.push_back(count);
      count += 2 * rounds * program.round.size();
    }
    edges_.resize(count);
    for (std::size_t r = 0; r < programs.size(); ++r) add_rank(r, dependencies[r]);
    for (const auto& [send, receive] : match_messages(programs)) {
      for (std::size_t round = 0; round < rounds; ++round) {
        const std::size_t a = start(send.rank, round, send.instruction);
        const std::size_t b = start(receive.rank, round, receive.instruction);
        edges_[a].push_back(b + 1);
        edges_[b].push_back(a + 1);
      }
    }
  }

  /// Throws ScheduleError with the cycle in words, if there is one.
  void check() const {
    enum : std::uint8_t { unseen, open, done };
    std::vector<std::uint8_t> state(edges_.size(), unseen);
    struct Frame {
      std::size_t node, next;
    };
    for (std::size_t root = 0; root < edges_.size(); ++root) {
      if (state[root] != unseen) continue;
      std::vector<Frame> path{{root, 0}};
      state[root] = open;
      while (!path.empty()) {
        Frame& top = path.back();
        if (top.next == edges_[top.node].size()) {
          state[top.node] = done;
          path.pop_back();
          continue;
        }
        const std::size_t target = edges_[top.node][top.next++];
        if (state[target] == unseen) {
          state[target] = open;
          path.push_back({target, 0});
        } else if (state[target] == open) {
          std::vector<std::size_t> cycle;
          for (std::size_t i = path.size(); i-- > 0;) {
            cycle.push_back(path[i].node);
            if (path[i].node == target) break;
          }
          throw ScheduleError(words(cycle));
        }
      }
    }
  }

private:
  static constexpr std::size_t rounds = 2;

  std::size_t start(std::size_t rank, std::size_t round, std::size_t i) const {
    return first_[rank] + 2 * (round * programs_[rank].round.size() + i);
  }

  void add_rank(std::size_t r, const Dependencies& dependencies) {
    const Program& program = programs_[r];
    const std::vector<Precedence> all = schedule::precedences(program, dependencies);
    for (std::size_t round = 0; round < rounds; ++round) {
      const auto ends_before = [&](std::size_t former, std::size_t from, std::size_t node) {
        edges_[start(r, former, from) + 1].push_back(node);
      };
      for (std::size_t i = 0; i < program.round.size(); ++i) {
        edges_[start(r, round, i)].push_back(start(r, round, i) + 1);
      }
      for (const Precedence& precedence : all) {
        if (precedence.previous_round && round == 0) continue;
        if (precedence.at_start) {
          edges_[start(r, precedence.previous_round ? round - 1 : round, precedence.from)].push_back(
              start(r, round, precedence.to));
          continue;
        }
        ends_before(precedence.previous_round ? round - 1 : round, precedence.from,
                    start(r, round, precedence.to));
      }
      for (const Repeat& repeat : program.repeats) {
        const std::size_t opened = start(r, round, repeat.begin);
        const std::size_t closed = start(r, round, repeat.end - 1) + 1;
        for (std::size_t i = repeat.begin; i < repeat.end; ++i) {
          if (i != repeat.begin) edges_[opened].push_back(start(r, round, i));
          if (i + 1 != repeat.end) ends_before(round, i, closed);
        }
        if (repeat.max == 0) ends_before(round, repeat.until, closed);
      }
    }
  }

  std::string name(std::size_t node) const {
    std::size_t r = programs_.size() - 1;
    while (first_[r] > node) --r;
    const std::size_t index = (node - first_[r]) / 2 % programs_[r].round.size();
    std::string result = who(programs_[r], programs_[r].round[index]);
    for (const Repeat& repeat : programs_[r].repeats) {
      if (node % 2 == 0 || index + 1 != repeat.end) continue;
      result += concat(", in a loop until ", programs_[r].round[repeat.until].text(), ",");
    }
    return result;
  }

  /// The cycle comes last waiter first: each entry waits for the next, the last for the first.
  std::string words(const std::vector<std::size_t>& cycle) const {
    std::vector<std::string> steps;
    for (const std::size_t node : cycle) {
      const bool is_end = node % 2 == 1;
      std::string text = (is_end ? "the end of " : "the start of ") + name(node);
      steps.push_back(std::move(text));
    }
    std::string result = "reef::schedule::verify: the programs deadlock:";
    for (std::size_t i = 0; i < steps.size(); ++i) {
      result += concat("\n  ", steps[i], " waits for ", steps[(i + 1) % steps.size()]);
    }
    return result +
           "\n  fix: give the sends and receives of the two ranks one order, or another lane; let "
           "a "
           "loop run until what does not wait for it.";
  }

  std::span<const Program> programs_;
  std::vector<std::size_t> first_;
  std::vector<std::vector<std::size_t>> edges_;
};

/// Throws ScheduleError unless the messages of programs that are ones all match and nobody waits in a circle.
inline void verify_together(const std::vector<Program>& programs) {
  std::vector<Dependencies> dependencies;
  for (const Program& program : programs) {
    dependencies.push_back(schedule::derive(program, schedule::place(program)));
  }
  RendezvousGraph(programs, dependencies).check();
}

}  // namespace reef::test::reference
