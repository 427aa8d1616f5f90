#pragma once

#include <algorithm>
#include <cctype>
#include <cstddef>
#include <map>
#include <string_view>
#include <unordered_map>
#include <utility>

#include <reef/core/inline.hpp>
#include <reef/trace/waits.hpp>

namespace reef {
inline namespace v0 {
namespace trace {

namespace detail {

/// "activation gradient" of "activation gradient 3 'x' of micro-batch 1"; "Upload" of "Upload(3)".
inline std::string_view without_numbers(std::string_view name) {
  std::size_t end = 0;
  while (end < name.size() && name[end] != '(' && name[end] != '\'' &&
         std::isdigit(static_cast<unsigned char>(name[end])) == 0) {
    ++end;
  }
  while (end > 0 && name[end - 1] == ' ') --end;
  return name.substr(0, end);
}

/// What came last of all before a span that begins a stretch of computation, of what was there when the gap began.
inline std::string_view awaited(const Recording& recording,
                                const std::unordered_map<std::uint32_t, const Span*>& by_id,
                                const Span& first, Seconds gap) {
  std::string_view what = "its own lane";
  std::uint32_t cause = first.cause;
  for (std::size_t steps = 0; cause != 0 && steps < by_id.size(); ++steps) {
    const auto found = by_id.find(cause);
    if (found == by_id.end()) break;
    what = without_numbers(recording.name_of(*found->second));
    if (found->second->begin < gap) break;
    cause = found->second->cause;
  }
  return what;
}

}  // namespace detail

REEF_INLINE Waits waits_of(const Recording& recording, Seconds from, Seconds to) {
  Waits result{recording.rank, 0, (std::max)(0.0, to - from), {}};
  std::unordered_map<std::uint32_t, const Span*> by_id;
  std::vector<const Span*> computes;
  for (const Span& span : recording.spans) {
    if (span.id != 0) by_id.emplace(span.id, &span);
    if (span.activity == Activity::compute && span.end > from && span.begin < to) {
      computes.push_back(&span);
    }
  }
  std::stable_sort(computes.begin(), computes.end(),
                   [](const Span* a, const Span* b) { return a->begin < b->begin; });
  std::map<std::string_view, Wait> waits;
  const auto wait = [&](std::string_view what, Seconds seconds) {
    if (!(seconds > 0)) return;
    Wait& known = waits[what];
    known.seconds += seconds;
    ++known.times;
  };
  Seconds end = from;
  for (const Span* const span : computes) {
    if (span->begin > end) {
      wait(detail::awaited(recording, by_id, *span, end), span->begin - end);
    }
    const Seconds until = (std::min)(to, span->end);
    result.busy += (std::max)(0.0, until - (std::max)(end, span->begin));
    end = (std::max)(end, until);
  }
  wait("the end", to - end);
  for (auto& [what, known] : waits) {
    known.what = what;
    result.waits.push_back(std::move(known));
  }
  std::stable_sort(result.waits.begin(), result.waits.end(),
                   [](const Wait& a, const Wait& b) { return a.seconds > b.seconds; });
  return result;
}

REEF_INLINE std::vector<LinkUse> links_of(std::span<const Recording> recordings, Seconds from,
                                          Seconds to) {
  std::map<std::uint64_t, std::pair<int, const Span*>> sent;  // by message
  for (const Recording& recording : recordings) {
    for (const Span& span : recording.spans) {
      if (span.role == Role::sends && span.message != 0) {
        sent.emplace(span.message, std::pair(recording.rank, &span));
      }
    }
  }
  std::map<std::pair<int, int>, std::pair<LinkUse, std::vector<Seconds>>> links;
  for (const Recording& recording : recordings) {
    for (const Span& span : recording.spans) {
      if (span.role != Role::receives || span.end < from || span.end >= to) continue;
      const auto found = sent.find(span.message);
      if (found == sent.end()) continue;
      const auto& [sender, leaves] = found->second;
      auto& [use, seconds] = links[{sender, recording.rank}];
      use.from = sender;
      use.to = recording.rank;
      ++use.messages;
      use.bytes += (std::max)(span.bytes, leaves->bytes);
      seconds.push_back(span.end - leaves->begin);
    }
  }
  std::vector<LinkUse> result;
  for (auto& [ends, link] : links) {
    auto& [use, seconds] = link;
    const auto middle = seconds.begin() + static_cast<std::ptrdiff_t>(seconds.size() / 2);
    std::nth_element(seconds.begin(), middle, seconds.end());
    use.median = *middle;
    result.push_back(use);
  }
  return result;
}

}  // namespace trace
}  // namespace v0
}  // namespace reef
