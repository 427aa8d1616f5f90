#pragma once

#include <string>
#include <utility>

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

  Program program;
};

/// A random program on a few lanes and storages, in which every read finds something.
inline Program random_program(std::uint64_t seed) {
  Writer w;
  std::uint64_t draw = 0;
  const auto below = [&](std::uint32_t n) { return random_bits({seed, 0, 0, 0}, draw++) % n; };
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
    written[target] = true;
  }
  return std::move(w.program);
}

}  // namespace reef::test
