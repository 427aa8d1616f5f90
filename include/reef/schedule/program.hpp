#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <reef/core/error.hpp>
#include <reef/core/group.hpp>
#include <reef/core/transfer.hpp>
#include <reef/core/units.hpp>

namespace reef {
inline namespace v0 {
namespace schedule {

/// The in-order queues of one rank. Two instructions of one lane (queue) never run at once; two of different lanes may
/// run at once unless a value orders them. `update` is the lane of the device on which the optimizer computes beside
/// the model; `source` is the lane that brings in batches.
enum class Lane : std::uint8_t { compute, load, evict, send, receive, reduce, update, source };

inline constexpr std::size_t lane_count = 8;

constexpr std::string_view name_of(Lane lane) {
  constexpr std::array<std::string_view, lane_count> names{
      "compute", "load", "evict", "send", "receive", "reduce", "update", "source"};
  return names[static_cast<std::size_t>(lane)];
}

/// Returns true if the queue runs messages, or calls between messages: its instructions move bytes to or from the
/// device without the device's own copy engines.
constexpr bool communicates(Lane lane) {
  return lane == Lane::send || lane == Lane::receive || lane == Lane::reduce ||
         lane == Lane::source;
}

using reef::Completion;
using reef::is_between_stages;
using reef::name_of;
using reef::Traffic;
using reef::traffic_count;

/// The memory that contains a block of a program's data: device memory, or pinned host memory, from which copies are
/// fast.
enum class Place : std::uint8_t { device, host };

/// The time for which no other block of memory may use a block's bytes; a round is one run of the program.
///
/// | round      | from the first to the last use in a round; at other times other regions may use the bytes |
/// | reserved   | always, but the region holds no value when a round begins                                 |
/// | persistent | always, and the region holds its value from one round to the next                         |
enum class Life : std::uint8_t { round, reserved, persistent };

using StorageId = std::uint32_t;
inline constexpr StorageId no_storage = ~StorageId{0};

/// A named block of bytes in a program: either a region of its own, or a part of another storage.
struct Storage {
  std::string name;
  Bytes bytes = 0;
  Place place = Place::device;
  Life life = Life::round;
  StorageId parent = no_storage;  ///< the storage that contains this one; no_storage if it is a block of its own
  Bytes offset = 0;               ///< the offset in the parent; 0 for a block of its own
};

/// A version of a storage's (memory block's) content: 0 when a run of the program begins, v + 1 after an update of
/// version v.
struct Value {
  StorageId storage = no_storage;
  int version = 0;

  friend constexpr bool operator==(const Value&, const Value&) = default;
};

/// The bytes that one rank sends to another at once. The n-th send to a peer under a channel (tag) matches the peer's
/// n-th receive under that channel.
struct Message {
  int peer = 0;
  Bytes bytes = 0;  ///< size of the message in bytes as sent, headers included
  std::uint32_t channel = 0;
  std::uint64_t pieces = 1;    ///< the number of the transport's messages into which these bytes are cut
  std::optional<Bytes> raw{};  ///< size of the message's numbers in memory, if they are encoded
};

/// The form of a collective: a reduce-scatter sums its members' elements for
/// their owners, an all-gather sends the owners' elements to all members.
enum class CollectiveForm : std::uint8_t { reduce_scatter, all_gather };

/// The members of a collective, and the range of elements that each of
/// them owns: the member at position p owns [offsets[p], offsets[p + 1]).
struct Collective {
  Group group{};
  std::vector<std::int64_t> offsets{};
  CollectiveForm form = CollectiveForm::all_gather;
};

/// The cost of an instruction: measured seconds, or operations and bytes to divide by a machine's rate.
struct Cost {
  Seconds seconds = -1;  ///< measured time; negative: not measured
  double flops = 0;
  Bytes bytes = 0;  ///< bytes moved through the memory, or over the link between device and host
  int copies = 0;  ///< number of copies over the link between device and host, one after another, each with its latency
};

/// One step of a rank's program, as plain data. `kind` names the code that runs it.
///
/// The instruction contains the facts that its code cannot get elsewhere: `mode`, the layout of
/// its operand lists, as the writer of the kind defines it; `elements`, the range of a bucket
/// that it processes; `collective`. The code must infer nothing from the number of operands.
///
/// Dependencies are derived from reads, writes, accumulates and after. An accumulation reads and
/// writes: accumulations into one storage keep the program's order, so sums have one order of terms. A
/// value in `after` only orders: the instruction waits until the value exists in that version, and the
/// next write of the value does not wait for the instruction. The value keeps its bytes up to the
/// instruction, as if it were read (decision 050); a storage without bytes orders at no cost of memory.
struct Instruction {
  std::string kind;
  Lane lane = Lane::compute;
  int index = -1;        ///< number of the segment, edge between stages, bucket or shard that the instruction works on
  int micro_batch = -1;  ///< the number of the micro-batch, counted per rank, from 0
  std::vector<Value> reads{};
  std::vector<Value> writes{};
  std::vector<Value> accumulates{};
  std::vector<Value> after{};  ///< values that the instruction waits for, but neither reads nor writes
  std::vector<Message> sends{};
  std::vector<Message> receives{};
  Cost cost{};
  std::uint8_t mode = 0;
  Traffic traffic = Traffic::none;
  Completion completion = Completion::held;
  /// range [first, second) of elements of the bucket or shard `index`
  std::pair<std::int64_t, std::int64_t> elements{0, 0};
  std::shared_ptr<const Collective> collective{};         ///< the collective, if the instruction is one; else null

  [[nodiscard]] bool is_posted() const { return completion == Completion::posted; }

  /// Returns true if the instruction writes or accumulates into a value.
  [[nodiscard]] bool changes_values() const { return !writes.empty() || !accumulates.empty(); }

  /// Returns the instruction as text: "Backward(3, micro-batch 1)".
  [[nodiscard]] std::string text() const;
};

/// Calls f(value) for all values that an instruction reads, writes, accumulates into, and waits for.
template <class Instr, class F>
void for_each_value(Instr& instruction, const F& f) {
  for (auto* const values :
       {&instruction.reads, &instruction.writes, &instruction.accumulates, &instruction.after}) {
    for (auto& value : *values) f(value);
  }
}

/// A loop in a program, which iterates for as long as there is time: "accumulate gradients until the reduction is
/// done".
///
///     while (`until` of this round is not complete && (max == 0 || iterations < max)) one more
///
/// | body      | round[begin, end), which ends on the compute lane. It leaves every value in the            |
/// |           | version that it had before, so that any number of iterations is valid, also none           |
/// | asks      | the compute lane tests the condition, once all instructions outside the body for which the |
/// |           | body waits, and those before the body on its lanes, are complete                           |
/// | iteration | complete on all lanes before the next one begins, or the loop ends                         |
/// | after     | an instruction that waits for one of the body, or follows it on its lane, waits            |
/// |           | for the end of the loop                                                                    |
///
/// A body exchanges messages only if ranks share the loop, which then has the same index in `repeats` of their
/// programs. The ranks run the same number of iterations: before each iteration, all tell all others in an exchange of
/// one number whether they are done (`until` complete, or `max` iterations run), and the loop ends when all are done.
///
/// | first_agree | the exchange before the body, outside of all bodies: decides whether there is an iteration at all |
/// | agree       | the same exchange in the body, after the computation of an iteration                              |
/// | peers       | the ranks with which both exchanges communicate; the body's messages go to and from these         |
/// |             | alone, and match messages of the same loop                                                        |
struct Repeat {
  static constexpr std::uint32_t alone = ~std::uint32_t{0};

  std::uint32_t begin = 0;
  std::uint32_t end = 0;
  std::uint32_t until = 0;  ///< index of the instruction whose completion ends the loop; before the body, in no body
  int max = 0;              ///< the most iterations; 0: no limit
  /// The number of iterations that plans expect of a loop that ends when the code of `until` says so
  /// (Communication::ends in run/), which is asked before each iteration; 0: the loop ends with the completion of
  /// `until`.
  int expected = 0;
  std::uint32_t first_agree = alone;
  std::uint32_t agree = alone;

  [[nodiscard]] bool is_shared() const { return agree != alone; }

  /// Moves the loop to other indices of a program's instructions: `place` maps each old index to the new one.
  template <class Place>
  void move(const Place& place) {
    const std::uint32_t last = place(end - 1);
    begin = place(begin);
    end = last + 1;
    until = place(until);
    if (!is_shared()) return;
    first_agree = place(first_agree);
    agree = place(agree);
  }
};

/// The instructions that one rank runs in one step of training, in concurrent queues (lanes); they are stored in the
/// order in which a single queue would run them (the reference).
///
/// The instructions (the round) run again in every step; persistent storages hold their values from one round to the
/// next.
///
/// \code
/// schedule::Program program;
/// const schedule::StorageId x = program.add_storage("x", 1_MiB, schedule::Place::device);
/// schedule::Instruction& load = program.add("Load", schedule::Lane::load);
/// load.writes = {{x, 0}};
/// load.cost.bytes = 1_MiB;
/// program.add("Use", schedule::Lane::compute).reads = {{x, 0}};  // so it waits for Load
/// \endcode
struct Program {
  int rank = 0;
  std::vector<Storage> storages{};
  std::vector<Instruction> round{};
  std::vector<Repeat> repeats{};  ///< loops, ascending; their bodies have no instruction in common

  /// Adds a region, a block of memory of its own, and returns its id.
  StorageId add_storage(std::string name, Bytes bytes, Place place, Life life = Life::round);

  /// Adds a memory block (storage) that is a part of another: `bytes` bytes at `offset` in `parent`.
  StorageId add_part(std::string name, StorageId parent, Bytes offset, Bytes bytes);

  /// Appends an instruction of this kind to a queue; the returned reference is valid until the next call. `index`:
  /// number of the segment, bucket or edge.
  Instruction& add(std::string_view kind, Lane lane, int index = -1, int micro_batch = -1) &;

  /// Returns the independent block of memory that contains a storage (a block or a part of one), and the storage's
  /// offset there.
  [[nodiscard]] std::pair<StorageId, Bytes> region_of(StorageId id) const;

  [[nodiscard]] const std::string& name(Value value) const& { return storages[value.storage].name; }
  [[nodiscard]] std::string name(Value value) const&& { return storages[value.storage].name; }
};

inline constexpr std::uint32_t no_loop = ~std::uint32_t{0};

/// Returns for each instruction of a program the index in `repeats` of the loop whose body contains the instruction, or
/// no_loop.
std::vector<std::uint32_t> loop_by_instruction(const Program& program);

/// Returns for each instruction its scope, a number that is equal at both ends of a message: 0 outside of shared
/// loops; for shared loop l in `repeats` 3 l + 1 in its body, 3 l + 2 for `first_agree`, 3 l + 3 for `agree`.
std::vector<std::uint32_t> scope_by_instruction(const Program& program);

/// Returns true if a scope (scope_by_instruction) is that of an exchange in which ranks agree about a loop:
/// `first_agree` or `agree`.
constexpr bool agrees(std::uint32_t scope) { return scope > 0 && scope % 3 != 1; }

}  // namespace schedule
}  // namespace v0
}  // namespace reef

#ifndef REEF_COMPILED
#include <reef/schedule/program.ipp>
#endif
