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
#include <reef/core/units.hpp>

namespace reef {
inline namespace v0 {
namespace schedule {

/// The in-order queues of one rank. Two instructions of one lane never run at once; two of
/// different lanes do, unless a value orders them. `update` is a lane of the device for what an
/// optimizer computes beside the model, `source` the one on which batches come in.
enum class Lane : std::uint8_t { compute, load, evict, send, receive, reduce, update, source };

inline constexpr std::size_t lane_count = 8;

constexpr std::string_view name_of(Lane lane) {
  constexpr std::array<std::string_view, lane_count> names{
      "compute", "load", "evict", "send", "receive", "reduce", "update", "source"};
  return names[static_cast<std::size_t>(lane)];
}

/// What is on the lane moves bytes to or from the device, and not by the device's own engines: messages, and
/// calls between them.
constexpr bool communicates(Lane lane) {
  return lane == Lane::send || lane == Lane::receive || lane == Lane::reduce ||
         lane == Lane::source;
}

/// When the lane of an instruction is free for the next one on it.
///
/// | held   | once the instruction is complete: of a transfer, when its messages have arrived           |
/// | posted | once it has started, which is when the lane is free and all that it waits for is there.   |
/// |        | A transfer on lane send or receive completes later, whenever its messages have arrived;   |
/// |        | so what is posted on a lane starts in order and completes in any order                    |
///
/// With posted receives a message leaves as soon as it is produced and the link is free, whatever the receiver is
/// doing, as long as there is a slot for it.
enum class Completion : std::uint8_t { held, posted };

/// Where a storage lives: in the device's memory, or in host memory that copies are fast from.
enum class Place : std::uint8_t { device, host };

/// How long a region's bytes are its own.
///
/// | round      | from its first use in a round to its last; then others may have the bytes     |
/// | reserved   | always, but it holds no value when a round begins                             |
/// | persistent | always, and it holds its value from one round to the next                     |
enum class Life : std::uint8_t { round, reserved, persistent };

using StorageId = std::uint32_t;
inline constexpr StorageId no_storage = ~StorageId{0};

/// Bytes with a name. Either a region of its own, or a part of another storage.
struct Storage {
  std::string name;
  Bytes bytes = 0;
  Place place = Place::device;
  Life life = Life::round;
  StorageId parent = no_storage;  ///< the storage that this one is a part of
  Bytes offset = 0;               ///< in the parent; 0 for a region
};

/// What a storage holds at some point: version 0 at the entry of a round, v + 1 after an update.
struct Value {
  StorageId storage = no_storage;
  int version = 0;

  friend constexpr bool operator==(const Value&, const Value&) = default;
};

/// What one rank sends another at once. The n-th send to a peer under a channel meets the n-th
/// receive from it.
struct Message {
  int peer = 0;
  Bytes bytes = 0;  ///< as they go over the wire, headers included
  std::uint32_t channel = 0;
  std::uint64_t pieces = 1;  ///< how many messages of the transport that is
  std::optional<Bytes> raw{};  ///< of numbers that are encoded: the bytes that they take in memory
};

/// What an instruction's messages carry: for meters, and for codecs, which choose by it.
///
/// | activation          | a tensor between stages, on its way forward                               |
/// | activation_gradient | its gradient, on its way back                                             |
/// | gradient            | gradients of parameters, on their way to those who sum them, and back     |
/// | parameter           | weights                                                                   |
/// | pseudo_gradient     | weights or their differences that an outer step averages                  |
/// | scalars             | counts, losses and norms, in doubles                                      |
enum class Traffic : std::uint8_t {
  none,
  activation,
  activation_gradient,
  gradient,
  parameter,
  pseudo_gradient,
  scalars
};

inline constexpr std::size_t traffic_count = 7;

/// Of tensors between stages.
constexpr bool is_between_stages(Traffic traffic) {
  return traffic == Traffic::activation || traffic == Traffic::activation_gradient;
}

constexpr std::string_view name_of(Traffic traffic) {
  constexpr std::array<std::string_view, traffic_count> names{
      "none",      "activation",      "activation gradient", "gradient",
      "parameter", "pseudo-gradient", "scalars"};
  return names[static_cast<std::size_t>(traffic)];
}

/// What a collective does with its members' elements: sums them for their owners, or brings each what its owner has.
enum class CollectiveForm : std::uint8_t { reduce_scatter, all_gather };

/// Who takes part in a collective, and which elements of the whole each member has: member p those of
/// [offsets[p], offsets[p + 1]).
struct Collective {
  Group group{};
  std::vector<std::int64_t> offsets{};
  CollectiveForm form = CollectiveForm::all_gather;
};

/// What an instruction takes: measured seconds, or operations and bytes to divide by a rate.
struct Cost {
  Seconds seconds = -1;  ///< negative: not measured
  double flops = 0;
  Bytes bytes = 0;  ///< moved through the memory, or over the link between device and host
  int copies = 0;   ///< over that link, one after another: each has its latency
};

/// One step of a program, as plain data. `kind` names the code that runs it.
///
/// What its code has to know and cannot ask anybody else, the instruction says: `mode`, which of the
/// ways of its kind its operands are listed in, as the writer of the kind defines; `elements`, those
/// of a bucket that it works on; `collective`. Nothing is to be inferred from how many operands
/// there are.
///
/// Dependencies are derived from reads, writes and accumulates. An accumulation reads and writes:
/// accumulations into one storage keep the program's order, so sums have one order of terms.
struct Instruction {
  std::string kind;
  Lane lane = Lane::compute;
  int index = -1;        ///< the segment, edge, bucket or shard
  int micro_batch = -1;  ///< counted per rank, from 0
  std::vector<Value> reads{};
  std::vector<Value> writes{};
  std::vector<Value> accumulates{};
  std::vector<Message> sends{};
  std::vector<Message> receives{};
  Cost cost{};
  std::uint8_t mode = 0;
  Traffic traffic = Traffic::none;
  Completion completion = Completion::held;
  std::pair<std::int64_t, std::int64_t> elements{0, 0};   ///< [first, second) of what `index` names
  std::shared_ptr<const Collective> collective{};         ///< of one; else null

  [[nodiscard]] bool is_posted() const { return completion == Completion::posted; }

  /// "Backward(3, micro-batch 1)".
  [[nodiscard]] std::string text() const;
};

/// A loop in a round, which iterates for as long as there is time: "accumulate until the reduce
/// lane is done".
///
///     while (`until` of this round is not complete && (max == 0 || iterations < max)) one more
///
/// | body      | round[begin, end), which ends on the compute lane. What it finds it leaves: any  |
/// |           | number of iterations is right, also none                                         |
/// | asks      | the compute lane, once all that any instruction of the body waits for from       |
/// |           | outside, and what comes before the body on its lanes, is complete                |
/// | iteration | complete on all lanes before the next one begins, or the loop ends               |
/// | after     | what waits for an instruction of the body, or follows it on its lane, waits for  |
/// |           | the loop                                                                         |
///
/// A body exchanges messages only if ranks share the loop: the loops of one place in `repeats` of their programs.
/// They run the same number of iterations, since before each of them, and before they go on, all have told all in an
/// exchange of one number whether they are done: `until` complete, or `max` iterations run. They go on unless all are.
///
/// | first_agree | the exchange ahead of the body, in no body: it says whether there is an iteration at all |
/// | agree       | the same exchange in the body, behind what an iteration computes                          |
/// | peers       | those that both exchange with; the messages of the body are with these alone, and meet    |
/// |             | messages of the same loop                                                                 |
struct Repeat {
  static constexpr std::uint32_t alone = ~std::uint32_t{0};

  std::uint32_t begin = 0;
  std::uint32_t end = 0;
  std::uint32_t until = 0;  ///< an instruction before the body, in no body
  int max = 0;              ///< iterations; 0 is no limit
  std::uint32_t first_agree = alone;
  std::uint32_t agree = alone;

  [[nodiscard]] bool is_shared() const { return agree != alone; }

  /// All of it at other places of a round.
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

/// What one rank does in one step of training: instructions in the order in which a single lane
/// would run them (the reference), on lanes that run at once.
///
/// The round is repeated; what is persistent holds its value from one round to the next.
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
  std::vector<Repeat> repeats{};  ///< ascending; bodies have no instruction in common

  /// Adds a region of its own.
  StorageId add_storage(std::string name, Bytes bytes, Place place, Life life = Life::round);

  /// Adds a name for `bytes` at `offset` of another storage. Throws ScheduleError when they do not
  /// lie inside it.
  StorageId add_part(std::string name, StorageId parent, Bytes offset, Bytes bytes);

  /// Appends an instruction; the reference holds until the next.
  Instruction& add(std::string_view kind, Lane lane, int index = -1, int micro_batch = -1) &;

  /// The region that a storage lies in, and where in it.
  [[nodiscard]] std::pair<StorageId, Bytes> region_of(StorageId id) const;

  [[nodiscard]] const std::string& name(Value value) const& { return storages[value.storage].name; }
  [[nodiscard]] std::string name(Value value) const&& { return storages[value.storage].name; }
};

inline constexpr std::uint32_t no_loop = ~std::uint32_t{0};

/// By instruction: the place in `repeats` of the loop whose body it is in, or no_loop.
std::vector<std::uint32_t> loop_by_instruction(const Program& program);

/// By instruction, as a number that both ends of a message have alike: 0 outside of shared loops; of the loop l in
/// `repeats` 3 l + 1 in its body, 3 l + 2 for `first_agree`, 3 l + 3 for `agree`.
std::vector<std::uint32_t> scope_by_instruction(const Program& program);

/// The scope is of what ranks agree in about a loop.
constexpr bool agrees(std::uint32_t scope) { return scope > 0 && scope % 3 != 1; }

}  // namespace schedule
}  // namespace v0
}  // namespace reef

#ifndef REEF_COMPILED
#include <reef/schedule/program.ipp>
#endif
