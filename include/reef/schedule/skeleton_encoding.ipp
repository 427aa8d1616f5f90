#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <map>
#include <tuple>
#include <utility>
#include <vector>

#include <reef/core/inline.hpp>
#include <reef/core/text.hpp>
#include <reef/schedule/skeleton_encoding.hpp>

namespace reef {
inline namespace v0 {
namespace schedule {

namespace detail {

inline constexpr std::uint64_t skeleton_magic = 0x32534B;  // "KS2"

/// Numbers of seven bits a byte, the lowest first.
class SkeletonWriter {
public:
  void number(std::uint64_t value) {
    for (; value >= 0x80; value >>= 7) text_.push_back(static_cast<char>(value | 0x80));
    text_.push_back(static_cast<char>(value));
  }
  void whole(std::int64_t value) {
    number((static_cast<std::uint64_t>(value) << 1) ^ static_cast<std::uint64_t>(value >> 63));
  }
  void text(std::string_view value) {
    number(value.size());
    text_ += value;
  }
  void name(const Skeleton::Name& name) {
    number(name.kind);
    whole(name.index);
    whole(name.micro_batch);
  }
  void portions(const std::vector<Portion>& portions) {
    number(portions.size());
    for (const Portion& portion : portions) {
      number(portion.members);
      number(portion.there ? 1 : 0);
      if (!portion.there) continue;
      number(portion.bytes);
      number(portion.pieces);
    }
  }

  std::string take() { return std::move(text_); }

private:
  std::string text_;
};

/// Reads what a SkeletonWriter wrote, and never beyond its end.
class SkeletonReader {
public:
  explicit SkeletonReader(std::string_view bytes) : bytes_(bytes) {}

  std::uint64_t number() {
    std::uint64_t value = 0;
    for (int shift = 0; shift < 64; shift += 7) {
      if (bytes_.empty()) refuse("it ends within a number");
      const auto byte = static_cast<std::uint8_t>(bytes_.front());
      bytes_.remove_prefix(1);
      if (shift == 63 && byte > 1) break;
      value |= static_cast<std::uint64_t>(byte & 0x7F) << shift;
      if (byte < 0x80) return value;
    }
    refuse("a number has more than 64 bits");
  }
  std::int64_t whole() {
    const std::uint64_t value = number();
    return static_cast<std::int64_t>((value >> 1) ^ (~(value & 1) + 1));
  }
  std::uint32_t below(std::uint64_t bound, const char* what) {
    const std::uint64_t value = number();
    if (value >= bound) refuse(what, value);
    return static_cast<std::uint32_t>(value);
  }
  std::uint32_t number32(const char* what) { return below(std::uint64_t{1} << 32, what); }
  int integer(const char* what) {
    const std::int64_t value = whole();
    if (value < (std::numeric_limits<int>::min)() || value > (std::numeric_limits<int>::max)()) {
      refuse(what, value);
    }
    return static_cast<int>(value);
  }
  int peer(int rank, int ranks) {
    const std::int64_t ahead = integer("distance of a peer");
    if (ahead == 0 || rank + ahead < 0 || rank + ahead >= ranks) refuse("peer", rank + ahead);
    return static_cast<int>(rank + ahead);
  }
  /// Of things of a byte or more each: so a count that lies allocates nothing.
  std::size_t count(const char* what) {
    const std::uint64_t value = number();
    if (value > bytes_.size()) refuse(what, value);
    return static_cast<std::size_t>(value);
  }
  std::string text() {
    const std::size_t size = count("length of a text");
    std::string value(bytes_.substr(0, size));
    bytes_.remove_prefix(size);
    return value;
  }
  Skeleton::Name name(std::size_t kinds) {
    Skeleton::Name result;
    result.kind = below(kinds, "kind");
    result.index = integer("index");
    result.micro_batch = integer("micro-batch");
    return result;
  }
  RankSet group(int ranks) {
    RankSet result;
    std::int64_t free = 0;  // the lowest rank that may come next
    for (std::size_t runs = count("number of runs"); runs > 0; --runs) {
      const std::int64_t first = free + below(static_cast<std::uint64_t>(ranks), "member");
      const auto stride =
          static_cast<std::int64_t>(below(static_cast<std::uint64_t>(ranks), "stride")) + 1;
      const auto members =
          static_cast<std::int64_t>(below(static_cast<std::uint64_t>(ranks), "members")) + 1;
      const std::int64_t last = first + (members - 1) * stride;
      if (last >= ranks) refuse("last member", last);
      result.runs.push_back(
          {static_cast<int>(first), static_cast<int>(stride), static_cast<int>(members)});
      free = last + 1;
    }
    if (result.runs.empty()) refuse("a group has no members");
    return result;
  }
  /// So many members in all.
  std::vector<Portion> portions(std::uint64_t members) {
    std::vector<Portion> result;
    for (std::size_t left = count("number of portions"); left > 0; --left) {
      Portion portion;
      portion.members = below(members + 1, "members of a portion");
      if (portion.members == 0) refuse("a portion has no members");
      members -= portion.members;
      portion.there = below(2, "presence") == 1;
      if (portion.there) {
        portion.bytes = number();
        portion.pieces = number();
      }
      result.push_back(portion);
    }
    if (members > 0) refuse("portions leave members out", members);
    return result;
  }

  void finish() const {
    if (!bytes_.empty()) refuse("bytes follow its end", bytes_.size());
  }

  template <class... Numbers>
  [[noreturn]] static void refuse(const char* what, const Numbers&... numbers) {
    throw DecodeError("reef::schedule::decode_skeleton: the bytes are no skeleton: ", what,
                      sizeof...(numbers) > 0 ? " " : "", numbers...,
                      ".\n  fix: start every rank with the same version of Reef.");
  }

private:
  std::string_view bytes_;
};

// What a node's first byte says: its part, two flags, the lane.
inline constexpr std::uint32_t tag_parts = 3;
inline constexpr std::uint32_t tag_posted = 4;
inline constexpr std::uint32_t tag_exchange = 8;
inline constexpr std::uint32_t tag_lane_shift = 4;

}  // namespace detail

REEF_INLINE std::string encode(const Skeleton& skeleton) {
  detail::SkeletonWriter out;
  out.number(detail::skeleton_magic);
  out.whole(skeleton.rank);
  out.number(skeleton.kinds.size());
  for (const std::string& kind : skeleton.kinds) out.text(kind);
  out.number(skeleton.groups.size());
  for (const RankSet& group : skeleton.groups) {
    out.number(group.runs.size());
    int free = 0;
    for (const RankRun& run : group.runs) {
      out.number(static_cast<std::uint64_t>(run.first - free));
      out.number(static_cast<std::uint64_t>(run.stride - 1));
      out.number(static_cast<std::uint64_t>(run.count - 1));
      free = run.first + (run.count - 1) * run.stride + 1;
    }
  }
  std::vector<std::pair<Bytes, std::uint64_t>> sizes;
  std::map<std::pair<Bytes, std::uint64_t>, std::uint64_t> place_of;
  for (const auto* messages : {&skeleton.sends, &skeleton.receives}) {
    for (const Message& message : *messages) {
      const std::pair size(message.bytes, message.pieces);
      if (place_of.emplace(size, sizes.size()).second) sizes.push_back(size);
    }
  }
  out.number(sizes.size());
  for (const auto& [bytes, pieces] : sizes) {
    out.number(bytes);
    out.number(pieces);
  }
  out.number(skeleton.nodes.size());
  for (std::uint32_t n = 0; n < skeleton.nodes.size(); ++n) {
    const Skeleton::Node& node = skeleton.nodes[n];
    const bool instruction = node.part == Skeleton::Part::instruction;
    const bool whole = instruction && node.exchange != Skeleton::none;
    out.number(static_cast<std::uint64_t>(node.part) + (node.posted ? detail::tag_posted : 0U) +
               (whole ? detail::tag_exchange : 0U) +
               (static_cast<std::uint64_t>(node.lane) << detail::tag_lane_shift));
    const auto waits = skeleton.waits_of(n);
    out.number(waits.size());
    for (const Skeleton::Wait wait : waits) out.number(2 * n + 1 - wait.point);
    if (node.part == Skeleton::Part::join) continue;
    out.name(node.name);
    if (instruction) out.number(node.scope);
    if (node.part == Skeleton::Part::loop) {
      out.name(skeleton.untils[node.exchange]);
    } else if (whole) {
      const Exchange& exchange = skeleton.exchanges[node.exchange];
      out.number(exchange.group);
      out.number(exchange.channel);
      out.portions(exchange.sent);
      out.portions(exchange.received);
    } else {
      for (const auto messages : {skeleton.sends_of(n), skeleton.receives_of(n)}) {
        out.number(messages.size());
        for (const Message& message : messages) {
          out.whole(message.peer - skeleton.rank);
          out.number(message.channel);
          out.number(place_of.at({message.bytes, message.pieces}));
        }
      }
    }
  }
  return out.take();
}

REEF_INLINE Skeleton decode_skeleton(std::string_view bytes, int ranks) {
  using detail::SkeletonReader;
  SkeletonReader in(bytes);
  if (in.number() != detail::skeleton_magic) SkeletonReader::refuse("another kind of message");
  Skeleton result;
  result.rank = in.integer("rank");
  if (result.rank < 0 || result.rank >= ranks) SkeletonReader::refuse("rank", result.rank);
  for (std::size_t left = in.count("number of kinds"); left > 0; --left) {
    result.kinds.push_back(in.text());
  }
  for (std::size_t left = in.count("number of groups"); left > 0; --left) {
    result.groups.push_back(in.group(ranks));
    if (result.groups.back().position_of(result.rank) < 0) {
      SkeletonReader::refuse("a group is without its rank");
    }
  }
  std::vector<std::pair<Bytes, std::uint64_t>> sizes;
  for (std::size_t left = in.count("number of sizes"); left > 0; --left) {
    const Bytes size = in.number();
    sizes.emplace_back(size, in.number());
  }
  const auto count = static_cast<std::uint32_t>(in.count("number of nodes"));
  for (std::uint32_t n = 0; n < count; ++n) {
    const std::uint32_t tag = in.below(lane_count << detail::tag_lane_shift, "tag");
    Skeleton::Node node;
    const std::uint32_t part = tag & detail::tag_parts;
    if (part > static_cast<std::uint32_t>(Skeleton::Part::join))
      SkeletonReader::refuse("part", part);
    node.part = static_cast<Skeleton::Part>(part);
    node.posted = (tag & detail::tag_posted) != 0;
    node.lane = static_cast<Lane>(tag >> detail::tag_lane_shift);
    node.first_wait = static_cast<std::uint32_t>(result.waits.size());
    node.first_send = static_cast<std::uint32_t>(result.sends.size());
    node.first_receive = static_cast<std::uint32_t>(result.receives.size());
    for (std::size_t left = in.count("number of waits"); left > 0; --left) {
      const std::uint32_t back = in.below(std::uint64_t{2} * n + 2, "wait");
      if (back < 2) SkeletonReader::refuse("a node waits for itself");
      result.waits.push_back({2 * n + 1 - back});
    }
    if (node.part != Skeleton::Part::join) node.name = in.name(result.kinds.size());
    if (node.part == Skeleton::Part::instruction) node.scope = in.number32("scope");
    if (node.part == Skeleton::Part::loop) {
      node.exchange = static_cast<std::uint32_t>(result.untils.size());
      result.untils.push_back(in.name(result.kinds.size()));
    } else if (node.part == Skeleton::Part::instruction && (tag & detail::tag_exchange) != 0) {
      Exchange exchange;
      exchange.group = in.below(result.groups.size(), "group");
      exchange.channel = in.number32("channel");
      const std::uint64_t others = result.groups[exchange.group].size() - 1;
      exchange.sent = in.portions(others);
      exchange.received = in.portions(others);
      node.exchange = static_cast<std::uint32_t>(result.exchanges.size());
      result.exchanges.push_back(std::move(exchange));
    } else if (node.part == Skeleton::Part::instruction) {
      for (auto* messages : {&result.sends, &result.receives}) {
        for (std::size_t left = in.count("number of messages"); left > 0; --left) {
          Message message;
          message.peer = in.peer(result.rank, ranks);
          message.channel = in.number32("channel");
          std::tie(message.bytes, message.pieces) = sizes[in.below(sizes.size(), "size")];
          messages->push_back(message);
        }
      }
    }
    result.nodes.push_back(node);
  }
  in.finish();
  return result;
}

}  // namespace schedule
}  // namespace v0
}  // namespace reef
