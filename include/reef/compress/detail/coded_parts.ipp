#pragma once

#include <algorithm>

#include <reef/compress/detail/coded_parts.hpp>
#include <reef/compress/kinds.hpp>

namespace reef {
inline namespace v0 {
namespace compress::detail {

/// The gaps behind parameters among elements [first, last) of a bucket: [begin, end) of each, counted from `first`.
inline std::vector<std::pair<std::int64_t, std::int64_t>> padding_of(const run::StepPlan& plan, int bucket,
                                                                     std::int64_t first, std::int64_t last) {
  std::vector<std::pair<std::int64_t, std::int64_t>> gaps;
  std::int64_t end = 0;  // of the parameters so far
  const auto add_gap = [&](std::int64_t begin) {
    const std::int64_t from = (std::max)(end, first);
    const std::int64_t to = (std::min)(begin, last);
    if (from < to) gaps.emplace_back(from - first, to - first);
  };
  for (const auto& [begin, behind] : plan.parameters_in(bucket)) {
    add_gap(begin);
    end = behind;
  }
  add_gap(last);
  return gaps;
}

/// The parts, one behind the other, of members' numbers.
REEF_INLINE std::vector<std::int64_t> PartsOfRank::split(const schedule::Instruction& i,
                                                         const std::vector<std::int64_t>& members) const {
  std::vector<std::int64_t> all{0};
  for (std::size_t member = 0; member + 1 < members.size(); ++member) {
    const std::vector<std::int64_t> within = parts_within(pieces_, i.traffic, i.index, size_of_part(members, member));
    for (std::size_t part = 1; part < within.size(); ++part) all.push_back(members[member] + within[part]);
  }
  return all;
}

REEF_INLINE CodedParts PartsOfRank::of(const schedule::Instruction& i, std::int64_t count, bool sends) const {
  const run::WireForm& form = plan_.wire_of(i.traffic);
  CodedParts parts;
  if (i.kind == kinds::encode_in_place) {
    parts.numbers = plan_.buckets[static_cast<std::size_t>(i.index)].owners;
  } else if (!i.collective || i.kind == kinds::encode_shard) {
    parts.numbers = {0, count};
  } else if (i.kind == kinds::decode_fold) {
    parts.numbers.assign(1, 0);
    for (int member = 0; member < i.collective->group.size(); ++member) {
      parts.numbers.push_back(parts.numbers.back() + count);
    }
  } else {
    parts.numbers = i.collective->offsets;
  }
  if (i.traffic == Traffic::pseudo_gradient) {
    const std::size_t members = parts.numbers.size() - 1;
    parts.numbers = split(i, parts.numbers);
    parts.of_each = (parts.numbers.size() - 1) / members;
  }
  const auto& state = sends ? form.state : form.received_state;
  parts.messages = encoded_offsets(parts.numbers, [&](std::int64_t n) { return form.bytes(i.index, n); });
  parts.state = encoded_offsets(parts.numbers, [&](std::int64_t n) { return state ? state(i.index, n) : 0; });
  if (i.collective) parts.ranks = i.collective->group.members;
  return parts;
}

REEF_INLINE std::vector<std::pair<std::int64_t, std::int64_t>> PartsOfRank::padding(const schedule::Instruction& i,
                                                                                    std::int64_t count) const {
  if (i.traffic != Traffic::gradient && i.traffic != Traffic::parameter) return {};
  const bool is_part = i.kind == kinds::encode_shard || i.kind == kinds::decode_fold;
  const std::int64_t first = is_part ? plan_.buckets[static_cast<std::size_t>(i.index)].shard_begin(rank_) : 0;
  return padding_of(plan_, i.index, first, first + count);
}

}  // namespace compress::detail
}  // namespace v0
}  // namespace reef
