#pragma once

#include <algorithm>
#include <cstddef>
#include <functional>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <reef/core/units.hpp>
#include <reef/trace/overlap.hpp>
#include <reef/trace/span.hpp>

namespace reef {
inline namespace v0 {
namespace trace::detail {

/// What a lane's row shows: spans of one activity that the eye cannot part are one.
struct Box {
  Seconds begin;
  Seconds end;
  Activity activity;
  std::string_view name;
  Bytes bytes;
  int count;
};

/// The boxes of one track within [from, to), longer ones first where they nest. Spans closer than
/// `blur` are merged, and a span shorter than that joins what it touches.
inline std::vector<Box> boxes_of(const Recording& recording, std::size_t track, Seconds from,
                                 Seconds to, Seconds blur) {
  std::vector<const Span*> spans;
  for (const Span& span : recording.spans) {
    if (span.track == track && span.begin < to && span.end > from) spans.push_back(&span);
  }
  std::stable_sort(spans.begin(), spans.end(), [](const Span* a, const Span* b) {
    return a->begin != b->begin ? a->begin < b->begin : a->end > b->end;
  });
  std::vector<Box> boxes;
  for (const Span* span : spans) {
    const Seconds begin = (std::max)(from, span->begin);
    const Seconds end = (std::min)(to, span->end);
    if (!boxes.empty()) {
      Box& last = boxes.back();
      const bool is_small = end - begin < blur || last.end - last.begin < blur;
      if (last.activity == span->activity && is_small && begin - last.end < blur) {
        last.end = (std::max)(last.end, end);
        last.bytes += span->bytes;
        last.count += 1;
        continue;
      }
    }
    boxes.push_back({begin, end, span->activity, recording.name_of(*span), span->bytes, 1});
  }
  return boxes;
}

/// "Backward" of "Backward(3, micro-batch 1)".
inline std::string_view kind_of(std::string_view name) {
  return name.substr(0, name.find_first_of("( "));
}

/// The kinds of computation within a stretch of time, those that take longest first.
inline std::vector<std::string> kinds_of_compute(std::span<const Recording> recordings,
                                                 Seconds from, Seconds to) {
  std::map<std::string, Seconds, std::less<>> total;
  for (const Recording& recording : recordings) {
    for (const Span& span : recording.spans) {
      const Seconds length = (std::min)(to, span.end) - (std::max)(from, span.begin);
      if (span.activity != Activity::compute || !(length > 0)) continue;
      const std::string_view kind = kind_of(recording.name_of(span));
      const auto found = total.find(kind);
      (found != total.end() ? found->second : total[std::string(kind)]) += length;
    }
  }
  std::vector<std::pair<Seconds, std::string>> longest;
  for (const auto& [kind, seconds] : total) longest.emplace_back(-seconds, kind);
  std::sort(longest.begin(), longest.end());
  std::vector<std::string> kinds;
  for (auto& [seconds, kind] : longest) kinds.push_back(std::move(kind));
  return kinds;
}

/// When communication ran and no computation did.
inline std::vector<Intervals::Interval> exposed(const Recording& recording, Seconds from,
                                                Seconds to) {
  const Intervals compute = busy(recording.spans, Activity::compute, from, to);
  const Intervals communication = busy(recording.spans, Activity::communication, from, to);
  std::vector<Intervals::Interval> parts;
  for (auto [begin, end] : communication.parts()) {
    for (const auto& hidden : compute.parts()) {
      if (hidden.end <= begin) continue;
      if (hidden.begin >= end) break;
      if (hidden.begin > begin) parts.push_back({begin, hidden.begin});
      begin = hidden.end;
    }
    if (begin < end) parts.push_back({begin, end});
  }
  return parts;
}

}  // namespace trace::detail
}  // namespace v0
}  // namespace reef
