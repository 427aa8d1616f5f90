#pragma once

#include <cstddef>
#include <cstdint>

#include <reef/comm/detail/report.hpp>
#include <reef/comm/detail/start.hpp>
#include <reef/core/inline.hpp>
#include <reef/core/text.hpp>

namespace reef::inline v0::comm::detail {

REEF_INLINE std::string list_absent(const std::vector<Absent>& ranks, Seconds deadline,
                                    Seconds operation_deadline) {
  std::string text;
  for (const Absent& absent : ranks) {
    const std::string silence = format_seconds(absent.silence);
    text += concat("\n  rank ", absent.rank);
    if (absent.left) {
      text += concat(" ended its communication ", silence, " ago, without this operation");
    } else if (absent.silence > deadline) {
      text += concat(" is silent since ", silence, " (deadline ", format_seconds(deadline),
                     "): stopped, dead or cut off");
    } else {
      text += concat(" is alive (heard of ", silence, " ago), but did nothing since ",
                     format_seconds(absent.inactivity), " (operation deadline ",
                     format_seconds(operation_deadline), "): did it leave this operation out?");
    }
  }
  return text +
         "\n  fix: look at that rank's own output and machine; if it is only slow, give a longer "
         "deadline.";
}

REEF_INLINE std::string describe(const Mismatch& mismatch, int rank, Names& names) {
  const bool codecs = mismatch.found.magic == Header::magic_number &&
                      mismatch.found.operation == mismatch.expected.operation &&
                      mismatch.found.codec != mismatch.expected.codec;
  const auto one = [&](const Header& header, const std::string& known) {
    std::string text =
        concat((known.empty() ? names.text(header.operation) : known), " number ", header.sequence);
    // Its pieces are numbered by how many are behind them.
    text += mismatch.kind == Kind::all_to_all
                ? concat(", ", header.bytes, " bytes and ", header.piece, " pieces behind them")
                : concat(", piece ", header.piece, ", ", header.bytes, " bytes");
    if (codecs) text += concat(", encoded by codec ", static_cast<int>(header.codec));
    return text;
  };
  std::string text = concat("reef::comm: rank ", rank, " and rank ", mismatch.peer,
                            " do not do the same thing.\n  rank ", rank, " is at ",
                            one(mismatch.expected, {}), ";\n  rank ", mismatch.peer, " sent ");
  const std::uint64_t apart = mismatch.found.operation ^ mismatch.expected.operation;
  if (mismatch.found.magic != Header::magic_number && mismatch.longer) {
    text += "a longer message";
  } else if (mismatch.found.magic != Header::magic_number) {
    text += concat(mismatch.received, " bytes that are no message of this Reef");
  } else if (apart != 0 && apart >> 32 == 0) {
    text += one(mismatch.found, names.text(mismatch.expected.operation)) +
            ", with other members of the group";
  } else {
    text += one(mismatch.found, mismatch.name);
    if (mismatch.shards) text += ", with other offsets of the shards, or another root";
  }
  if (codecs) return text + ".\n  fix: the same codec on every rank that takes part (set_codec).";
  return text +
         ".\n  fix: submit the same collectives, with the same sizes and offsets, in the same "
         "order to the "
         "queue of\n  the same name on every rank, or every member of the group, and give each "
         "transfer a name of its own.";
}

REEF_INLINE std::string list_operations(const std::vector<std::string>& dumps) {
  std::string text = "\n  last operations, the latest first:";
  for (std::size_t rank = 0; rank < dumps.size(); ++rank) {
    text += concat("\n  rank ", rank);
    text += dumps[rank].empty() ? " does not answer" : ":\n" + dumps[rank];
    if (text.back() == '\n') text.pop_back();
  }
  return text;
}

}  // namespace reef::inline v0::comm::detail
