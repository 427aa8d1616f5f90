#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <tuple>
#include <vector>

#include <reef/core/error.hpp>
#include <reef/core/text.hpp>
#include <reef/run/fragment.hpp>
#include <reef/run/state_range.hpp>
#include <reef/run/step_builder.hpp>

namespace reef {
inline namespace v0 {
namespace compress::detail {

using schedule::Traffic;

/// Whose memory of messages it is.
///
/// | sent, received | of an edge, or of a reduction: of each rank that the process stands for     |
/// | shared, taken  | of an all-gather: of the shards that ranks give, and of those that they get |
enum class Side : std::uint8_t { sent, received, shared, taken };

/// What a codec of this rank remembers from step to step. In a checkpoint it is in pieces that are alike whether ranks
/// are processes or one process stands for them; of what has a number for each of the model's it is by those, however
/// they are cut.
struct Memory {
  struct Piece {
    int rank = -1;           ///< whose: a replica, or one that the process stands for; -1: of none alone
    std::int64_t begin = 0;  ///< among what the owners of a bucket have, or of by_element in the flat parameter layout
    std::int64_t numbers = 0;
  };

  Traffic traffic{};
  int index = 0;  ///< edge, bucket or piece of a fragment
  Side side{};
  int fold = 0;   ///< of a process that stands for several ranks; of an edge whose samples come again, the micro-batch
  std::vector<Piece> pieces{};  ///< one behind the other
  std::string place{};          ///< in names, of what is not numbered alike on all stages; else empty
  bool by_element = false;      ///< pieces are of elements of the flat parameter layout

  using Key = std::tuple<Traffic, int, Side, int>;
  [[nodiscard]] Key key() const { return {traffic, index, side, fold}; }
  [[nodiscard]] std::int64_t numbers() const;
  [[nodiscard]] std::string name() const;
  [[nodiscard]] std::string storage_name() const {
    return concat(name(), by_element ? concat(" of bucket ", index) : std::string(), " of fold ", fold);
  }
};

/// Throws OptionError where what is sent is not of the same samples again after so many steps; 0: it need not be.
void require_period(const run::StepPlan& plan, Traffic traffic, std::int64_t period, const std::string& codec);

/// The numbers that a bucket's messages are of, one by one.
inline std::int64_t size_of_part(const std::vector<std::int64_t>& offsets, std::size_t part) {
  return offsets[part + 1] - offsets[part];
}

/// Numbers side by side, those of the first part first.
template <class T>
std::span<T> part_of(std::span<T> all, const std::vector<std::int64_t>& places, std::size_t part) {
  return all.subspan(static_cast<std::size_t>(places[part]), static_cast<std::size_t>(size_of_part(places, part)));
}

/// By what each of `offsets`' parts takes, in the order of parts.
template <class Size>
std::vector<std::int64_t> encoded_offsets(const std::vector<std::int64_t>& offsets, const Size& size) {
  std::vector<std::int64_t> places{0};
  for (std::size_t part = 0; part + 1 < offsets.size(); ++part) {
    places.push_back(places.back() + static_cast<std::int64_t>(size(size_of_part(offsets, part))));
  }
  return places;
}

/// What of each message to all is coded apart: offsets of its parts. Of pieces of fragments one for each parameter,
/// else it is one whole.
std::vector<std::int64_t> parts_within(const std::vector<run::FragmentPiece>& pieces, Traffic traffic, int index,
                                       std::int64_t n);

/// What is remembered of gradients or weights is a number for each, of a codec alike for all: it is theirs, whatever
/// bucket they are in.
bool remembers_elements(const run::WireForm& form, Traffic traffic);

/// The most that what a member has of n numbers takes, encoded.
std::int64_t max_bytes(const run::StepPlan& plan, const std::vector<run::FragmentPiece>& pieces, Traffic traffic,
                        int index, std::int64_t n);

/// What differences of fragments are remembered of: of what each rank has sent, and of what all have received.
void add_memories_of_differences(std::vector<Memory>& all, const run::StepBuilder& builder);

/// The memories of a rank, in one order: what reserve() has storages for.
std::vector<Memory> memories_of(const run::StepBuilder& builder);

/// Of an edge whose codec has a period a memory for each micro-batch, else one.
inline Memory::Key key_of_edge(const run::StepPlan& plan, Traffic traffic, Side side, const run::Instruction& copy) {
  return {traffic, copy.index, side, plan.wire_of(traffic).period > 0 ? copy.micro_batch : 0};
}

/// A program that commits nothing keeps nothing.
bool keeps_memories(const run::StepBuilder& builder);

inline run::Place place_of_memory(const run::StepPlan& plan) {
  return plan.discrete ? run::Place::host : run::Place::device;
}

/// Where the memories of a program under construction lie: what was kept, and what is behind the round so far.
struct MemoryStorages {
  struct Storages {
    run::StorageId kept = run::no_storage;
    run::StorageId next = run::no_storage;  ///< once something in the round has used it
  };
  std::map<Memory::Key, Storages> by_key{};
};

void reserve_memories(run::StepBuilder& builder);

std::vector<run::StateRange> memory_ranges(const run::StepBuilder& builder);

}  // namespace compress::detail
}  // namespace v0
}  // namespace reef

#ifndef REEF_COMPILED
#include <reef/compress/detail/memories.ipp>
#endif
