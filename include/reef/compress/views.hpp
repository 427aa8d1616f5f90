#pragma once

#include <cstddef>
#include <cstdint>

#include <reef/compress/kinds.hpp>
#include <reef/run/operands.hpp>
#include <reef/schedule/program.hpp>

/// \file
/// Views of instructions, which name their operands: one for each kind of instruction that a compressor writes.
///
/// \code
/// // given: const schedule::Program& program
/// Bytes remembered = 0;
/// for (const schedule::Instruction& i : program.round) {
///   if (i.kind != compress::kinds::keep_memory) continue;
///   remembered += program.storages[compress::KeepMemoryView(i).memory.front().storage].bytes;
/// }
/// \endcode

namespace reef {
inline namespace v0 {
namespace compress {

/// The flags of an instruction that encodes or decodes, which decide its operands: its Instruction::mode.
struct Coding {
  bool copies = false;     ///< true: the numbers are copied to host memory as floats, and copied back
  bool remembers = false;  ///< true: the codec has memory
  bool begins = false;     ///< true: the first instruction of the step to use that memory, which reads what was kept
  bool adds = false;       ///< true: decoded numbers are summed, and a buffer holds the numbers of one message
  bool masks = false;      ///< true: the instruction writes a mask of the numbers that arrive as zero
  bool masked = false;     ///< true: the instruction leaves out the numbers that a mask marks
  bool judged = false;     ///< true: the instruction does nothing if the step is rejected, as for NaNs

  [[nodiscard]] std::uint8_t mode() const {
    return static_cast<std::uint8_t>((copies ? 1 : 0) | (remembers ? 2 : 0) | (begins ? 4 : 0) |
                                     (adds ? 8 : 0) | (masks ? 16 : 0) | (masked ? 32 : 0) |
                                     (judged ? 64 : 0));
  }
};

inline Coding coding_of(const schedule::Instruction& i) {
  return {(i.mode & 1) != 0,  (i.mode & 2) != 0,  (i.mode & 4) != 0, (i.mode & 8) != 0,
          (i.mode & 16) != 0, (i.mode & 32) != 0, (i.mode & 64) != 0};
}

/// The operands of the instructions `Encode(edge, j)`, `EncodeParts(b)` and `EncodeShard(b)`: micro-batch j, bucket b.
///
///     reads    numbers; kept memory if `begins`; a mask if `masked`
///     writes   message, or messages side by side; copy; a mask if `masks`; with a mask, term: the numbers that the
///              message decodes to, or the numbers that the mask leaves
///     next     memory after the message: written if `begins`, else accumulated into
template <class Instr>
struct EncodeView {
  run::PartOf<Instr> numbers, message, copy, kept, next, mask, term;

  explicit EncodeView(Instr& encode, run::Lists lists = run::Lists::found) {
    const Coding coding = coding_of(encode);
    run::Layout layout(encode, lists);
    numbers = layout.reads(1);
    kept = layout.reads(coding.remembers && coding.begins ? 1 : 0);
    if (coding.masked) mask = layout.reads(1);
    message = layout.writes(1);
    copy = layout.writes(coding.copies ? 1 : 0);
    if (coding.masks) mask = layout.writes(1);
    term = layout.writes(coding.masks || coding.masked ? 1 : 0);
    const std::size_t memories = coding.remembers ? 1 : 0;
    next = coding.begins ? layout.writes(memories) : layout.accumulates(memories);
  }
};

/// The operands of the instructions `Decode(edge, j)`, `DecodeShards(b)` and `DecodeFold(b)`: micro-batch j, bucket b.
///
///     reads    message, or messages side by side; kept memory if `begins`; a mask if `masked`; a verdict if `judged`
///     writes   numbers; copy; a mask if `masks`; if `adds` or `masked`, term: the numbers that one message decodes to
///     next     memory after the message: written if `begins`, else accumulated into
template <class Instr>
struct DecodeView {
  run::PartOf<Instr> message, numbers, copy, term, kept, next, mask, verdict;

  explicit DecodeView(Instr& decode, run::Lists lists = run::Lists::found) {
    const Coding coding = coding_of(decode);
    run::Layout layout(decode, lists);
    message = layout.reads(1);
    kept = layout.reads(coding.remembers && coding.begins ? 1 : 0);
    if (coding.masked) mask = layout.reads(1);
    verdict = layout.reads(coding.judged ? 1 : 0);
    numbers = layout.writes(1);
    copy = layout.writes(coding.copies ? 1 : 0);
    if (coding.masks) mask = layout.writes(1);
    term = layout.writes(coding.adds || coding.masked ? 1 : 0);
    const std::size_t memories = coding.remembers ? 1 : 0;
    next = coding.begins ? layout.writes(memories) : layout.accumulates(memories);
  }
};

/// The operands of the instruction `EncodeInPlace(b)`, which replaces the numbers of bucket b by those that their
/// messages decode to, owner by owner.
///
///     accumulates  numbers
///     reads        a verdict if `judged`; kept memory of senders and of receivers
///     writes       message; copy; memory after the message, of senders and of receivers
template <class Instr>
struct EncodeInPlaceView {
  run::PartOf<Instr> numbers, message, copy, kept, next, verdict;

  /// Finds the operands of an instruction, with as many codec memories as it reads; the second constructor lays out
  /// `memories`.
  explicit EncodeInPlaceView(Instr& encode)
      : EncodeInPlaceView(encode, encode.reads.size() - (coding_of(encode).judged ? 1 : 0),
                          run::Lists::found) {}
  EncodeInPlaceView(Instr& encode, std::size_t memories, run::Lists lists) {
    run::Layout layout(encode, lists);
    numbers = layout.accumulates(1);
    verdict = layout.reads(coding_of(encode).judged ? 1 : 0);
    kept = layout.reads(memories);
    message = layout.writes(1);
    copy = layout.writes(coding_of(encode).copies ? 1 : 0);
    next = layout.writes(memories);
  }
};

/// The condition under which a KeepMemory instruction keeps the codec's memory: its Instruction::mode.
///
/// | by_verdict | keeps the memory after a step that counts; after another step the kept memory stays             |
/// | always     | keeps the memory after every step: what was sent counts on all ranks, even if a rank skips      |
/// | or_nothing | by verdict, but sets the memory to 0 after a step that does not count: for rounds that overlap, |
/// |            | whose memory has already seen micro-batches of the next step                                    |
enum class KeepCondition : std::uint8_t { by_verdict, always, or_nothing };

/// The operands of the instruction `KeepMemory`, which keeps a codec's memory for the next step; its mode
/// (KeepCondition) must be set before.
///
///     reads        verdict unless KeepCondition::always; memory after the step
///     accumulates  kept memory
template <class Instr>
struct KeepMemoryView {
  run::PartOf<Instr> verdict, next, memory;

  explicit KeepMemoryView(Instr& keep, run::Lists lists = run::Lists::found) {
    run::Layout layout(keep, lists);
    verdict = layout.reads(keep.mode == static_cast<std::uint8_t>(KeepCondition::always) ? 0 : 1);
    next = layout.reads(1);
    memory = layout.accumulates(1);
  }
};

}  // namespace compress
}  // namespace v0
}  // namespace reef
