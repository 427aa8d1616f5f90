#pragma once

#include <cstddef>
#include <cstdint>

#include <reef/compress/kinds.hpp>
#include <reef/run/operands.hpp>
#include <reef/schedule/program.hpp>

/// \file
/// Views of instructions, one for each kind that a compressor writes.
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

/// Which operands an instruction of a codec has: its Instruction::mode.
struct Coding {
  bool copies = false;     ///< numbers are brought to host memory, as floats, and taken back
  bool remembers = false;  ///< the codec has memory
  bool begins = false;     ///< it is the round's first to use that memory: it reads what was kept
  bool adds = false;       ///< numbers are summed: there is room for what one message decodes to
  bool masks = false;      ///< it writes which numbers arrive as zero
  bool masked = false;     ///< it leaves out the numbers that a mask names
  bool judged = false;     ///< it does nothing where the step does not count

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

/// `Encode(edge, j)`, `EncodeParts(b)`, `EncodeShard(b)`.
///
///     reads    numbers, kept memory if it begins; a mask if it is masked
///     writes   message, or messages side by side; copy; a mask if it masks; with either what goes by the message: what it
///              decodes to, or what is left of the numbers
///     next     memory after it: written if it begins, else accumulated into
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

/// `Decode(edge, j)`, `DecodeShards(b)`, `DecodeFold(b)`.
///
///     reads    message, or messages side by side; kept memory if it begins; a mask if it is masked; a verdict if it is judged
///     writes   numbers; copy; a mask if it masks; if it adds, or is masked, what one message decodes to
///     next     as EncodeView
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

/// `EncodeInPlace(b)`: replaces numbers by those that their messages decode to, owner by owner.
///
///     accumulates  numbers
///     reads        a verdict if it is judged; kept memory of senders, and of receivers
///     writes       message; copy; memory behind it, of both
template <class Instr>
struct EncodeInPlaceView {
  run::PartOf<Instr> numbers, message, copy, kept, next, verdict;

  /// Finds as many memories as the instruction reads; with `memories` it makes room for so many.
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

/// The condition under which a KeepMemory keeps the codec's memory: its Instruction::mode.
///
/// | by_verdict | what is behind a step that counts; behind another it stays as it was                       |
/// | always     | what was sent counts on all ranks, whatever becomes of a rank's own step                   |
/// | or_nothing | by verdict, but 0 behind a step that does not count: of rounds that overlap, in which what is remembered |
/// |            | has seen micro-batches of the next step too, of whatever numbers                           |
enum class Keeps : std::uint8_t { by_verdict, always, or_nothing };

/// `KeepMemory`. The code that writes one has set its mode.
///
///     reads        verdict unless it keeps always, memory behind the step
///     accumulates  kept memory
template <class Instr>
struct KeepMemoryView {
  run::PartOf<Instr> verdict, next, memory;

  explicit KeepMemoryView(Instr& keep, run::Lists lists = run::Lists::found) {
    run::Layout layout(keep, lists);
    verdict = layout.reads(keep.mode == static_cast<std::uint8_t>(Keeps::always) ? 0 : 1);
    next = layout.reads(1);
    memory = layout.accumulates(1);
  }
};

}  // namespace compress
}  // namespace v0
}  // namespace reef
