#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

#include <reef/core/text.hpp>
#include <reef/schedule/dependencies.hpp>
#include <reef/schedule/detail/structure_checker.hpp>
#include <reef/schedule/placement.hpp>
#include <reef/schedule/program.hpp>

namespace reef::inline v0::schedule {

/// What a machine offers each rank; 0 is no limit.
struct Limits {
  Bytes device_bytes = 0;
  Bytes host_bytes = 0;
};

namespace detail {

/// Every read finds the version that it names, whole and written; what persists gets ever newer.
///
/// Writing a storage makes stale whatever else lies in those bytes: the parts and wholes that
/// overlap it, and what was there before in a reused place.
class ValueChecker {
public:
  ValueChecker(const Program& program, const Placement& placement)
      : program_(program),
        overlaps_(overlaps_of(program, placement)),
        held_(program.storages.size()) {
    for (std::size_t id = 0; id < held_.size(); ++id) {
      if (program.storages[id].life == Life::persistent &&
          program.storages[id].parent == no_storage) {
        held_[id] = {true, 0, nullptr};
      }
    }
  }

  void run() {
    for (const Instruction& instruction : program_.round) {
      for (const Value value : instruction.reads) require(instruction, value, "reads");
      for (const Value value : instruction.accumulates)
        require(instruction, value, "accumulates into");
      for (const Value value : instruction.writes) write(instruction, value, false);
      for (const Value value : instruction.accumulates) write(instruction, value, true);
    }
    check_exit();
  }

private:
  struct Held {
    bool valid = false;
    int version = 0;
    const Instruction* overwritten_by = nullptr;
  };

  void require(const Instruction& instruction, Value value, std::string_view verb) const {
    const Held& held = held_[value.storage];
    if (held.valid && held.version == value.version) return;
    const std::string what = concat("reef::schedule::verify: ", who(program_, instruction), " ",
                                    verb, " ", program_.name(value));
    if (held.valid) {
      throw ScheduleError(what, " version ", value.version, ", but version ", held.version,
                          " is there.");
    }
    if (held.overwritten_by != nullptr) {
      throw ScheduleError(what, ", whose bytes ", held.overwritten_by->text(), " has overwritten.");
    }
    throw ScheduleError(what, ", which nothing has written.");
  }

  void write(const Instruction& instruction, Value value, bool adds) {
    const Held& held = held_[value.storage];
    const bool persists = program_.storages[value.storage].life == Life::persistent;
    if (persists && held.valid && !adds && value.version <= held.version) {
      throw ScheduleError("reef::schedule::verify: ", who(program_, instruction), " writes ",
                          program_.name(value), " version ", value.version, ", but version ",
                          held.version, " is there already.");
    }
    for (const StorageId other : overlaps_[value.storage]) {
      if (other != value.storage) held_[other] = {false, 0, &instruction};
    }
    held_[value.storage] = {true, value.version, nullptr};
  }

  /// What persists is whole again, so the next round can begin where this one did.
  void check_exit() const {
    for (std::size_t id = 0; id < held_.size(); ++id) {
      const Storage& storage = program_.storages[id];
      if (storage.life != Life::persistent || storage.parent != no_storage || held_[id].valid)
        continue;
      throw ScheduleError("reef::schedule::verify: rank ", program_.rank, ": ", storage.name,
                          " persists, but after ", held_[id].overwritten_by->text(),
                          " only a part of it is written when the round ends.");
    }
  }

  const Program& program_;
  Overlaps overlaps_;
  std::vector<Held> held_;
};

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
  std::vector<std::pair<End, End>> pairs;
  for (const auto& [key, sends] : sent) {
    const std::vector<End>& receives = received[key];
    for (std::size_t n = 0; n < sends.size(); ++n) {
      if (n >= receives.size()) {
        throw ScheduleError("reef::schedule::verify: ", text(sends[n]), " sends to rank ",
                            std::get<1>(key), ", which never receives it.");
      }
      if (sends[n].bytes != receives[n].bytes) {
        throw ScheduleError("reef::schedule::verify: ", text(sends[n]), " sends ", sends[n].bytes,
                            " bytes, but ", text(receives[n]), " expects ", receives[n].bytes, ".");
      }
      if (sends[n].pieces != receives[n].pieces) {
        throw ScheduleError("reef::schedule::verify: ", text(sends[n]), " sends ", sends[n].pieces,
                            " pieces, but ", text(receives[n]), " expects ", receives[n].pieces,
                            ".");
      }
      pairs.emplace_back(sends[n], receives[n]);
    }
  }
  for (const auto& [key, receives] : received) {
    const std::size_t matched = sent[key].size();
    if (receives.size() > matched) {
      throw ScheduleError("reef::schedule::verify: ", text(receives[matched]),
                          " waits for a message of rank ", std::get<0>(key),
                          ", which never sends it.");
    }
  }
  return pairs;
}

/// Two rounds of all ranks as a graph of starts and ends: an edge a -> b says that b cannot happen
/// before a. Sends count as rendezvous, so neither end of a message ends before the other starts.
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
    std::array<std::size_t, lane_count> last;
    last.fill(edges_.size());
    for (std::size_t round = 0; round < rounds; ++round) {
      for (std::size_t i = 0; i < program.round.size(); ++i) {
        const std::size_t begin = start(r, round, i);
        edges_[begin].push_back(begin + 1);
        std::size_t& previous = last[static_cast<std::size_t>(program.round[i].lane)];
        if (previous != edges_.size()) edges_[previous].push_back(begin);
        previous = begin + 1;
        for (const Dependency dependency : dependencies[i]) {
          if (dependency.previous_round && round == 0) continue;
          const std::size_t from = dependency.previous_round ? round - 1 : round;
          edges_[start(r, from, dependency.instruction) + 1].push_back(begin);
        }
      }
    }
  }

  std::string name(std::size_t node) const {
    std::size_t r = programs_.size() - 1;
    while (first_[r] > node) --r;
    const std::size_t index = (node - first_[r]) / 2;
    return who(programs_[r], programs_[r].round[index % programs_[r].round.size()]);
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
           "\n  fix: give the sends and receives of the two ranks one order, or another lane.";
  }

  std::span<const Program> programs_;
  std::vector<std::size_t> first_;
  std::vector<std::vector<std::size_t>> edges_;
};

inline void check_memory(const Program& program, const Placement& placement, Bytes limit,
                         Place place) {
  const Bytes needed = placement.arena_bytes(place);
  if (limit == 0 || needed <= limit) return;
  const Storage* largest = nullptr;
  for (const Storage& storage : program.storages) {
    if (storage.place != place || storage.parent != no_storage) continue;
    if (largest == nullptr || storage.bytes > largest->bytes) largest = &storage;
  }
  throw ScheduleError("reef::schedule::verify: rank ", program.rank, " needs ",
                      format_bytes(needed), " of ", (place == Place::device ? "device" : "host"),
                      " memory, of which there are ", format_bytes(limit),
                      ". The largest storage is ", largest->name, " with ",
                      format_bytes(largest->bytes),
                      ".\n  fix: a smaller micro-batch or model, or a policy that swaps.");
}

}  // namespace detail

/// Proves, before anything starts, that the programs of all ranks together cannot deadlock (sends
/// counted as rendezvous), that every value is there in the version that is read, and that no
/// memory is exceeded.
///
/// | errors | ScheduleError: the instruction, value and version; the cycle in words; the memory |
/// | cost   | O(regions^2) to place them; else linear in instructions, dependencies, messages   |
inline void verify(std::span<const Program> programs, const Limits& limits = {}) {
  detail::check_structure(programs);
  std::vector<Dependencies> dependencies;
  for (const Program& program : programs) {
    const Placement placement = place(program);
    detail::ValueChecker(program, placement).run();
    detail::check_memory(program, placement, limits.device_bytes, Place::device);
    detail::check_memory(program, placement, limits.host_bytes, Place::host);
    dependencies.push_back(derive(program, placement));
  }
  detail::RendezvousGraph(programs, dependencies).check();
}

}  // namespace reef::inline v0::schedule
