#pragma once

#include <cstddef>
#include <vector>

#include <reef/run/operands.hpp>
#include <reef/schedule/program.hpp>

/// \file
/// Views, which name operands, of the instructions that move values: copies between host and device, and messages.

namespace reef {
inline namespace v0 {
namespace run {

/// Returns the values that an instruction waits for beside its named operands: those in `after`, and those that it
/// reads beyond its operands.
template <class View>
std::vector<schedule::Value> waits_of(const schedule::Instruction& instruction, const View& view) {
  std::vector<schedule::Value> result = instruction.after;
  result.insert(result.end(), view.waits.begin(), view.waits.end());
  return result;
}

/// The operands of an instruction that copies values one by one: Download, Upload and similar ones.
///
///     reads    from; waits
///     writes   to       to[k] = from[k]
///
/// \code
/// // given: schedule::Program& program, run::Value x, run::Value away
/// schedule::Instruction& spill = program.add("Spill", run::Lane::evict);
/// run::CopyView(spill, {x}, {away});
/// run::CopyView copy(program.round.back());  // whoever rewrites it
/// copy.to.front().storage = program.add_storage("elsewhere", 1_KiB, run::Place::host);
/// \endcode
template <class Instr>
struct CopyView {
  PartOf<Instr> from, to, waits;

  explicit CopyView(Instr& copy) : CopyView(copy, copy.writes.size(), Lists::found) {}
  CopyView(Instr& copy, std::size_t count, Lists lists) {
    Layout layout(copy, lists);
    from = layout.reads(count);
    to = layout.writes(count);
    waits = layout.further_reads();
  }
  /// Writes the operands of a copy into an instruction that has none yet.
  CopyView(Instr& copy, const std::vector<schedule::Value>& sources,
           const std::vector<schedule::Value>& targets)
      : CopyView(copy, sources.size(), Lists::added) {
    from.set(sources);
    to.set(targets);
  }
};

/// Returns true if a copy instruction has at least one value to copy.
inline bool copies_something(const schedule::Instruction& copy) { return !copy.writes.empty(); }

/// Adds a value to those that a copy instruction copies.
inline void add_copied(schedule::Instruction& copy, schedule::Value from, schedule::Value to) {
  copy.reads.push_back(from);
  copy.writes.push_back(to);
}

/// The operands of `DownloadTied(parameter)`, an instruction that copies weights to host memory, to be sent to another
/// stage.
///
///     reads    weights of the parameter's bucket, whole or in parts side by side
///     writes   the parameter
template <class Instr>
struct DownloadTiedView {
  PartOf<Instr> weights, parameter;

  explicit DownloadTiedView(Instr& download) {
    Layout layout(download);
    weights = layout.reads(download.reads.size());
    parameter = layout.writes(1);
  }
};

/// The operands of a collective (see run::add_reduce_scatter_messages and run::add_all_gather_messages).
///
///     reads    given: this rank's input, the whole or its shard; waits
///     writes   taken: this rank's result, the whole or its shard
template <class Instr>
struct CollectiveView {
  PartOf<Instr> given, taken, waits;

  explicit CollectiveView(Instr& collective, Lists lists = Lists::found) {
    Layout layout(collective, lists);
    given = layout.reads(1);
    taken = layout.writes(1);
    waits = layout.further_reads();
  }
  /// Fills in the operands of a new collective instruction, which reads `from`, writes `to`, and waits for no other
  /// values.
  CollectiveView(Instr& collective, schedule::Value from, schedule::Value to)
      : CollectiveView(collective, Lists::added) {
    given.front() = from;
    taken.front() = to;
  }
};

/// The operands of an instruction that sends to a peer: Send, SendTied.
///
///     reads    payload
///     sends    message
template <class Instr>
struct SendView {
  PartOf<Instr> payload;

  explicit SendView(Instr& send, Lists lists = Lists::found) : send_(send) {
    payload = Layout(send, lists).reads(1);
    if constexpr (!std::is_const_v<Instr>) {
      if (lists == Lists::added) send.sends.resize(1);
    }
  }
  [[nodiscard]] auto& message() const { return send_.sends.at(0); }

private:
  Instr& send_;
};

/// The operands of an instruction that receives from a peer: Receive, ReceiveTied.
///
///     writes     payload
///     receives   message
template <class Instr>
struct ReceiveView {
  PartOf<Instr> payload;

  explicit ReceiveView(Instr& receive, Lists lists = Lists::found) : receive_(receive) {
    payload = Layout(receive, lists).writes(1);
    if constexpr (!std::is_const_v<Instr>) {
      if (lists == Lists::added) receive.receives.resize(1);
    }
  }
  [[nodiscard]] auto& message() const { return receive_.receives.at(0); }

private:
  Instr& receive_;
};

}  // namespace run
}  // namespace v0
}  // namespace reef
