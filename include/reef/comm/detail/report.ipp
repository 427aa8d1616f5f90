#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <utility>

#include <reef/comm/detail/occupations.hpp>
#include <reef/comm/detail/ranks.hpp>
#include <reef/comm/detail/report.hpp>
#include <reef/comm/detail/start.hpp>
#include <reef/core/inline.hpp>
#include <reef/core/text.hpp>

namespace reef {
inline namespace v0 {
namespace comm::detail {

REEF_INLINE std::string list_absent(const std::vector<Absent>& ranks, Seconds deadline,
                                    Seconds operation_deadline, bool closed) {
  std::string text;
  for (const Absent& absent : ranks) {
    const std::string silence = format_seconds(absent.silence);
    text += concat("\n  rank ", absent.rank);
    if (!absent.left && absent.silence <= deadline && !absent.awaits.empty()) {
      text += concat(" is alive and waits itself, for ", name_ranks(absent.awaits),
                     closed && absent.direct ? ": did it leave this operation out?" : "");
      continue;
    }
    if (!absent.direct) text += ", which is waited for in turn,";
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
  if (closed) {
    return text +
           "\n  why: these ranks wait for each other, and none of them is on the way to what another one waits for: "
           "they do not do the same things in the same order.\n  fix: see below what each is at, and let all ranks "
           "make the same calls.";
  }
  return text +
         "\n  fix: look at that rank's own output and machine; if its program is at work of its own, let it say so "
         "(comm::AtWork), or give a longer deadline.";
}

/// ", activation gradient of edge 3, micro-batch 2, step 7, round 8, plan 1234"; empty if it says none of it.
inline std::string text_of_origin(const Origin& origin) {
  if (origin == Origin{}) return {};
  std::string text =
      concat(", ", name_of(origin.direction), " of edge ", static_cast<std::uint32_t>(origin.edge));
  if (origin.micro_batch != Origin::nothing) text += concat(", micro-batch ", origin.micro_batch);
  return text + concat(", step ", origin.step, ", round ", origin.round, ", plan ", origin.plan);
}

/// What came instead, where its header says nothing that counts.
inline std::string text_of_fault(const Mismatch& mismatch) {
  switch (mismatch.fault) {
    case Fault::version:
      return concat("a message in version ", static_cast<int>(mismatch.found.version),
                    " of the format, which here is ", static_cast<int>(Header::current_version));
    case Fault::truncated:
      return concat("a truncated message, of which ", mismatch.received, " bytes came");
    case Fault::longer: return "a longer message";
    case Fault::header: return "a header whose seal does not match";
    case Fault::payload: return "that, but a payload whose checksum does not match";
    default: return concat(mismatch.received, " bytes that are no message of this Reef");
  }
}

/// What to do about it.
inline std::string fix_of(Fault fault) {
  switch (fault) {
    case Fault::foreign:
    case Fault::version: return "one build of Reef on every rank.";
    case Fault::truncated:
    case Fault::header:
    case Fault::payload:
      return "look at the memory and the network of these two machines, and go on from the last "
             "checkpoint.";
    default:
      return "submit the same collectives, with the same sizes and offsets, in the same "
             "order to the "
             "queue of\n  the same name on every rank, or every member of the group, and give each "
             "transfer a name of its own.";
  }
}

REEF_INLINE std::string describe(const Mismatch& mismatch, int rank, Names& names) {
  const Header& found = mismatch.found;
  const Header& expected = mismatch.expected;
  const bool same_name = found.is_message() && found.operation == expected.operation;
  const bool codecs = same_name && found.codec != expected.codec;
  const auto one = [&](const Header& header, const std::string& known) {
    std::string text =
        concat((known.empty() ? names.text(header.operation) : known), " number ", header.sequence);
    // Its pieces are numbered by how many are behind them.
    text += mismatch.kind == Kind::all_to_all
                ? concat(", ", header.bytes, " bytes and ", header.piece, " pieces behind them")
                : concat(", piece ", header.piece, ", ", header.bytes, " bytes");
    text += text_of_origin(header.origin);
    if (codecs) text += concat(", encoded by codec ", static_cast<int>(header.codec));
    return text;
  };
  const bool damaged = mismatch.fault == Fault::truncated || mismatch.fault == Fault::header ||
                       mismatch.fault == Fault::payload;
  std::string text = damaged ? concat("reef::comm: a message of rank ", mismatch.peer, " to rank ",
                                      rank, " was damaged.")
                             : concat("reef::comm: rank ", rank, " and rank ", mismatch.peer,
                                      " do not do the same thing.");
  text += concat("\n  rank ", rank, " is at ", one(expected, {}), ";\n  rank ", mismatch.peer,
                 " sent ");
  const std::uint64_t apart = found.operation ^ expected.operation;
  if (damaged || !found.is_message()) {
    text += text_of_fault(mismatch);
  } else if (apart != 0 && apart >> 32 == 0) {
    text += one(found, names.text(expected.operation)) + ", with other members of the group";
  } else {
    text += one(found, mismatch.name);
    if (mismatch.shards) text += ", with other offsets of the shards, or another root";
    if (mismatch.fault == Fault::longer && found.bytes == expected.bytes) {
      text += ", in a longer message";
    }
    if (same_name && found.sequence < expected.sequence) text += ", which it had sent before";
    if (found.origin.plan != expected.origin.plan) text += ": it runs another program";
  }
  if (codecs) return text + ".\n  fix: the same codec on every rank that takes part (set_codec).";
  return text + ".\n  fix: " + fix_of(mismatch.fault);
}

/// Why ranks have parted, where some of them know a reason that the others do not have.
inline std::string list_reasons(const std::vector<std::string>& dumps) {
  const std::string_view mark = Occupations::reason_mark;
  std::vector<std::pair<std::string, std::vector<std::size_t>>> reasons;
  for (std::size_t rank = 0; rank < dumps.size(); ++rank) {
    for (std::size_t at = dumps[rank].find(mark); at != std::string::npos; at = dumps[rank].find(mark, at)) {
      at += mark.size();
      const std::string reason = dumps[rank].substr(at, dumps[rank].find('\n', at) - at);
      auto one = std::find_if(reasons.begin(), reasons.end(), [&](const auto& known) { return known.first == reason; });
      if (one == reasons.end()) one = reasons.insert(one, {reason, {}});
      one->second.push_back(rank);
    }
  }
  std::string text;
  for (const auto& [reason, ranks] : reasons) {
    if (ranks.size() < dumps.size()) text += concat("\n  why: ", reason, ", on ", name_ranks(ranks), " alone.");
  }
  return text;
}

REEF_INLINE std::string list_operations(const std::vector<std::string>& dumps) {
  std::string text = list_reasons(dumps) + "\n  what each is at, and its last operations, the latest first:";
  for (std::size_t rank = 0; rank < dumps.size(); ++rank) {
    text += concat("\n  rank ", rank);
    text += dumps[rank].empty() ? " does not answer" : ":\n" + dumps[rank];
    if (text.back() == '\n') text.pop_back();
  }
  return text;
}

}  // namespace comm::detail
}  // namespace v0
}  // namespace reef
