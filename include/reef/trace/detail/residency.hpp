#pragma once

#include <algorithm>
#include <charconv>
#include <cstddef>
#include <map>
#include <string_view>
#include <vector>

#include <reef/core/kinds.hpp>
#include <reef/core/units.hpp>
#include <reef/trace/detail/boxes.hpp>
#include <reef/trace/overlap.hpp>
#include <reef/trace/span.hpp>

namespace reef {
inline namespace v0 {
namespace trace::detail {

/// A stay of a segment of the model on the device, while it is swapped.
struct Stay {
  int segment;
  Seconds begin;  ///< of its load
  Seconds ready;  ///< and the end of that
  Seconds end;    ///< of the last that reads it, or brings its gradients away
  std::vector<Intervals::Interval> used{};  ///< by kernels
};

/// The number in "Load(3)" or "Forward(3, micro-batch 1)"; -1 where there is none.
inline int index_of(std::string_view name) {
  const std::size_t open = name.find('(');
  int index = -1;
  if (open == std::string_view::npos) return index;
  const char* const first = name.data() + open + 1;
  if (std::from_chars(first, name.data() + name.size(), index).ec != std::errc()) return -1;
  return index;
}

/// The stays of a recording's segments, by segment: from each `Load(s)` to the last kernel of s, or copy of
/// its gradients, before the next one. Segments that run and are never loaded live on the device, or have no
/// weights: they stay throughout. Empty where nothing is loaded.
inline std::map<int, std::vector<Stay>> stays_of(const Recording& recording) {
  std::map<int, std::vector<Stay>> stays;
  for (const Span& span : recording.spans) {
    const std::string_view name = recording.name_of(span);
    if (span.activity != Activity::copy || kind_of(name) != kinds::load) continue;
    const int segment = index_of(name);
    if (segment >= 0) stays[segment].push_back({segment, span.begin, span.end, span.end});
  }
  if (stays.empty()) return stays;
  for (auto& [segment, list] : stays) {
    std::sort(list.begin(), list.end(),
              [](const Stay& a, const Stay& b) { return a.begin < b.begin; });
  }
  Seconds first = stays.begin()->second.front().begin;
  Seconds last = first;
  for (const Span& span : recording.spans) {
    first = (std::min)(first, span.begin);
    last = (std::max)(last, span.end);
  }
  for (const Span& span : recording.spans) {
    const std::string_view name = recording.name_of(span);
    const bool computes = span.activity == Activity::compute;
    if (!computes && kind_of(name) != kinds::evict) continue;
    const std::string_view kind = kind_of(name);
    const bool of_segment =
        kind == kinds::forward || kind == kinds::recompute || kind == kinds::backward ||
        kind == kinds::evict;
    const int segment = index_of(name);
    if (!of_segment || segment < 0) continue;
    const auto found = stays.try_emplace(segment, 1, Stay{segment, first, first, last}).first;
    const auto behind =
        std::upper_bound(found->second.begin(), found->second.end(), span.begin,
                         [](Seconds at, const Stay& stay) { return at < stay.ready; });
    if (behind == found->second.begin()) continue;
    Stay& stay = *(behind - 1);
    stay.end = (std::max)(stay.end, span.end);
    if (computes && kind != kinds::evict) stay.used.push_back({span.begin, span.end});
  }
  return stays;
}

}  // namespace trace::detail
}  // namespace v0
}  // namespace reef
