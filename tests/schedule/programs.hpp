#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include <reef/core/random.hpp>
#include <reef/schedule/program.hpp>

namespace reef::test {

using schedule::Instruction;
using schedule::Lane;
using schedule::Life;
using schedule::Place;
using schedule::Program;
using schedule::StorageId;

/// A program of a rank in few words.
class Writer {
public:
  explicit Writer(int rank = 0) { program.rank = rank; }

  StorageId storage(const std::string& name, Bytes bytes = 64, Life life = Life::round) {
    return program.add_storage(name, bytes, Place::device, life);
  }
  Instruction& reads(const std::string& kind, Lane lane, StorageId from, int version = 0) {
    Instruction& i = program.add(kind, lane);
    i.reads = {{from, version}};
    return i;
  }
  Instruction& writes(const std::string& kind, Lane lane, StorageId to, int version = 0) {
    Instruction& i = program.add(kind, lane);
    i.writes = {{to, version}};
    return i;
  }
  Instruction& moves(const std::string& kind, Lane lane, StorageId from, StorageId to) {
    Instruction& i = reads(kind, lane, from);
    i.writes = {{to, 0}};
    return i;
  }

  /// The instructions from `begin` to the last one so far are the body of a loop.
  void repeat_from(std::size_t begin, std::size_t until, int max = 0) {
    program.repeats.push_back({static_cast<std::uint32_t>(begin),
                               static_cast<std::uint32_t>(program.round.size()),
                               static_cast<std::uint32_t>(until), max});
  }

  Program program;
};

/// Rank r of two sums micro-batches, `plain` of them and then as many as there is time for while the
/// ranks exchange `bytes`: Sum, (Batch, Add) ..., loop of Batch and Add until Sum, Use.
inline Program accumulating(int rank, int plain, Seconds micro_batch, Bytes bytes) {
  Writer w(rank);
  const StorageId exchanged = w.storage("exchanged", 64, Life::persistent);
  const StorageId sum = w.storage("sum", 64, Life::persistent);
  Instruction& exchange = w.program.add("Sum", Lane::reduce);
  exchange.accumulates = {{exchanged, 0}};
  exchange.sends = {{1 - rank, bytes, 0}};
  exchange.receives = {{1 - rank, bytes, 0}};
  for (int k = 0; k <= plain; ++k) {
    const std::size_t begin = w.program.round.size();
    const StorageId batch = w.storage("batch " + std::to_string(k));
    w.writes("Batch", Lane::receive, batch).micro_batch = k;
    Instruction& add = w.reads("Add", Lane::compute, batch);
    add.micro_batch = k;
    add.accumulates = {{sum, 0}};
    add.cost.seconds = micro_batch;
    if (k == plain) w.repeat_from(begin, 0);
  }
  w.program.add("Use", Lane::compute).reads = {{exchanged, 0}, {sum, 0}};
  return std::move(w.program);
}

/// A random program on a few lanes and storages, in which every read and every wait finds something.
inline Program random_program(std::uint64_t seed) {
  Writer w;
  std::uint64_t draw = 0;
  const auto below = [&](std::uint32_t n) { return random_bits({seed, 0, 0, 0}, draw++) % n; };
  std::uint64_t waits = 0;
  const auto waits_below = [&](std::uint32_t n) {
    return random_bits({seed, 0, 5, 0}, waits++) % n;
  };
  const int count = 2 + static_cast<int>(below(6));
  for (int s = 0; s < count; ++s) w.storage("s" + std::to_string(s), 64 * (1 + below(4)));
  std::vector<bool> written(static_cast<std::size_t>(count), false);
  const int instructions = 3 + static_cast<int>(below(20));
  for (int i = 0; i < instructions; ++i) {
    const auto lane = static_cast<Lane>(below(schedule::lane_count));
    const StorageId target = below(static_cast<std::uint32_t>(count));
    Instruction& instruction = w.writes("I" + std::to_string(i), lane, target);
    const StorageId from = below(static_cast<std::uint32_t>(count));
    if (written[from]) instruction.reads = {{from, 0}};
    const StorageId before = waits_below(static_cast<std::uint32_t>(count));
    if (written[before] && waits_below(3) == 0) instruction.after = {{before, 0}};
    written[target] = true;
  }
  return std::move(w.program);
}

/// A random program on regions of all lives and of both places, some empty, and on parts and parts of parts;
/// what it reads or waits for need not be there.
inline Program random_storages(std::uint64_t seed) {
  Writer w;
  std::uint64_t draw = 0;
  const auto below = [&](std::uint32_t n) { return random_bits({seed, 0, 2, 0}, draw++) % n; };
  const std::uint32_t count = 4 + below(8);
  for (std::uint32_t s = 0; s < count; ++s) {
    const std::string name = "s" + std::to_string(s);
    if (s > 0 && below(2) == 0) {
      const StorageId parent = below(s);
      const Bytes whole = w.program.storages[parent].bytes;
      const Bytes begin = below(static_cast<std::uint32_t>(whole) + 1);
      const Bytes bytes = below(static_cast<std::uint32_t>(whole - begin) + 1);
      w.program.add_part(name, parent, begin, bytes);
    } else {
      w.program.add_storage(name, 64 * below(4), static_cast<Place>(below(2)),
                            static_cast<Life>(below(3)));
    }
  }
  const int instructions = 3 + static_cast<int>(below(20));
  for (int i = 0; i < instructions; ++i) {
    const auto lane = static_cast<Lane>(below(schedule::lane_count));
    Instruction& instruction = w.program.add("I" + std::to_string(i), lane);
    for (auto* list :
         {&instruction.reads, &instruction.writes, &instruction.accumulates, &instruction.after}) {
      for (std::uint32_t values = below(3); values > 0; --values)
        list->push_back({below(count), 0});
    }
  }
  return std::move(w.program);
}

/// A random program with one loop or two, drawn anew until it has room for one.
inline Program random_loops(std::uint64_t seed) {
  for (std::uint64_t again = 0;; ++again) {
    Program program = random_program(1000 * seed + again);
    std::uint64_t draw = 0;
    const auto below = [&](std::uint32_t n) {
      return random_bits({seed, again, 1, 0}, draw++) % n;
    };
    for (std::uint32_t i = 1; i < program.round.size(); ++i) {
      const std::uint32_t free = program.repeats.empty() ? 1 : program.repeats.back().end;
      if (program.round[i].lane != Lane::compute || program.repeats.size() == 2 || i < free)
        continue;
      const std::uint32_t begin = free + below(i + 1 - free);
      std::uint32_t until = below(begin);
      for (const schedule::Repeat& repeat : program.repeats) {
        if (until >= repeat.begin && until < repeat.end) until = 0;
      }
      program.repeats.push_back({begin, i + 1, until, 0});
    }
    if (!program.repeats.empty()) return program;
  }
}

/// The instructions of a round whose loops run so many iterations, in the order of the program.
inline std::vector<std::size_t> unrolled(const Program& program,
                                         const std::vector<int>& iterations) {
  std::vector<std::size_t> result;
  std::size_t loop = 0;
  for (std::size_t i = 0; i < program.round.size(); ++i) {
    if (loop == program.repeats.size() || i != program.repeats[loop].begin) {
      result.push_back(i);
      continue;
    }
    for (int iteration = 0; iteration < iterations[loop]; ++iteration) {
      for (std::size_t k = i; k < program.repeats[loop].end; ++k) result.push_back(k);
    }
    i = program.repeats[loop++].end - 1;
  }
  return result;
}

}  // namespace reef::test
