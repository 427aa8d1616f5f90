#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdio>
#include <initializer_list>
#include <map>
#include <string_view>
#include <utility>

#include <reef/core/inline.hpp>
#include <reef/core/text.hpp>
#include <reef/trace/overlap.hpp>

namespace reef {
inline namespace v0 {
namespace trace {

REEF_INLINE Intervals::Intervals(std::vector<Interval> parts) : parts_(std::move(parts)) {
  std::erase_if(parts_, [](const Interval& part) { return !(part.begin < part.end); });
  std::sort(parts_.begin(), parts_.end(),
            [](const Interval& a, const Interval& b) { return a.begin < b.begin; });
  std::size_t count = 0;
  for (const Interval& part : parts_) {
    if (count != 0 && part.begin <= parts_[count - 1].end) {
      parts_[count - 1].end = (std::max)(parts_[count - 1].end, part.end);
    } else {
      parts_[count++] = part;
    }
  }
  parts_.resize(count);
}

REEF_INLINE Seconds Intervals::length() const {
  Seconds sum = 0;
  for (const Interval& part : parts_) sum += part.end - part.begin;
  return sum;
}

REEF_INLINE Intervals Intervals::united(const Intervals& other) const {
  std::vector<Interval> both = parts_;
  both.insert(both.end(), other.parts_.begin(), other.parts_.end());
  return Intervals(std::move(both));
}

REEF_INLINE Seconds Intervals::covered(Seconds begin, Seconds end) const {
  auto part = std::upper_bound(parts_.begin(), parts_.end(), begin,
                               [](Seconds at, const Interval& p) { return at < p.end; });
  Seconds sum = 0;
  for (; part != parts_.end() && part->begin < end; ++part) {
    sum += (std::max)(0.0, (std::min)(end, part->end) - (std::max)(begin, part->begin));
  }
  return sum;
}

REEF_INLINE Intervals busy(std::span<const Span> spans, Activity activity, Seconds from,
                           Seconds to) {
  std::vector<Intervals::Interval> parts;
  for (const Span& span : spans) {
    if (span.activity == activity) {
      parts.push_back({(std::max)(from, span.begin), (std::min)(to, span.end)});
    }
  }
  return Intervals(std::move(parts));
}

REEF_INLINE Overlap analyze(std::span<const Span> spans, Seconds from, Seconds to) {
  const Intervals compute = busy(spans, Activity::compute, from, to);
  const Intervals communication = busy(spans, Activity::communication, from, to);
  const Intervals copy = busy(spans, Activity::copy, from, to);
  Overlap result;
  result.wall = (std::max)(0.0, to - from);
  result.compute = compute.length();
  result.communication = communication.length();
  result.copy = copy.length();
  result.union_ = compute.united(communication).length();
  // Sums of different terms: a rounding error must not show as negative seconds.
  result.exposed = (std::max)(0.0, result.union_ - result.compute);
  result.exposed_copy = (std::max)(0.0, compute.united(copy).length() - result.compute);
  return result;
}

REEF_INLINE Overlap& operator+=(Overlap& sum, const Overlap& other) {
  for (const auto figure : overlap_figures) sum.*figure += other.*figure;
  return sum;
}

REEF_INLINE Overlap mean(std::span<const Overlap> ranks) {
  Overlap sum;
  for (const Overlap& rank : ranks) sum += rank;
  const double count = ranks.empty() ? 1 : static_cast<double>(ranks.size());
  for (const auto figure : overlap_figures) sum.*figure /= count;
  return sum;
}

REEF_INLINE std::string overlap_table(std::span<const Overlap> ranks) {
  std::string text =
      "rank     wall s  compute s     comm s    union s  overlap s  exposed s     copy s     idle "
      "s  "
      "hidden\n";
  const auto line = [&](const std::string& rank, const Overlap& o) {
    std::array<char, 160> row{};
    std::snprintf(row.data(), row.size(),
                  "%-4s %10.4f %10.4f %10.4f %10.4f %10.4f %10.4f %10.4f %10.4f %6.1f%%\n",
                  rank.c_str(), o.wall, o.compute, o.communication, o.union_, o.overlap(),
                  o.exposed, o.copy, o.idle(), 100 * o.hidden());
    text += row.data();
  };
  for (std::size_t rank = 0; rank < ranks.size(); ++rank) line(std::to_string(rank), ranks[rank]);
  if (ranks.size() > 1) line("mean", mean(ranks));
  return text;
}

REEF_INLINE std::string check_overlap(const Recording& recording, Seconds from, Seconds to,
                                      double share) {
  const Overlap found = analyze(recording.spans, from, to);
  if (found.hidden() >= share) return "";
  const Intervals compute = busy(recording.spans, Activity::compute, from, to);
  std::map<std::string_view, Seconds> exposed;
  for (const Span& span : recording.spans) {
    const Seconds begin = (std::max)(from, span.begin);
    const Seconds end = (std::min)(to, span.end);
    if (span.activity == Activity::communication && begin < end) {
      exposed[recording.name_of(span)] += end - begin - compute.covered(begin, end);
    }
  }
  std::vector<std::pair<Seconds, std::string_view>> longest;
  for (const auto& [name, seconds] : exposed) longest.emplace_back(seconds, name);
  std::sort(longest.rbegin(), longest.rend());
  std::array<char, 160> head{};
  std::snprintf(head.data(), head.size(),
                "rank %d: compute hides %.1f%% of the communication, less than %.1f%%; exposed: ",
                recording.rank, 100 * found.hidden(), 100 * share);
  std::string text = concat(head.data(), format_seconds(found.exposed), " of ",
                            format_seconds(found.communication));
  for (std::size_t i = 0; i < std::min<std::size_t>(3, longest.size()); ++i) {
    text += i == 0 ? "; longest: " : ", ";
    text.append(longest[i].second).append(" ").append(format_seconds(longest[i].first));
  }
  return text;
}

}  // namespace trace
}  // namespace v0
}  // namespace reef
