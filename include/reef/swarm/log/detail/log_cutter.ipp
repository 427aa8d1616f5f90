#pragma once

#include <reef/core/inline.hpp>
#include <reef/swarm/core/entry_json.hpp>
#include <reef/swarm/core/job_summary.hpp>
#include <reef/swarm/log/detail/log_cutter.hpp>

namespace reef {
inline namespace v0 {
namespace swarm {
namespace detail {

REEF_INLINE LogCutter::LogCutter(DecisionLog& log)
    : log_(log), chained_(log, {.tls = {}, .audit = 1e9, .archive = {}}) {
  watch_ = chained_.watch(0, [this](LogIndex at, std::string_view text) { read(at, text); });
}

REEF_INLINE void LogCutter::read(LogIndex at, std::string_view text) {
  const Entry entry = entry_from_text(text);
  const auto index = static_cast<std::int64_t>(at);
  if (index != state_.entries) lost_ = lost_ || !core::begin_with(state_, index, entry).empty();
  if (lost_) return;
  const std::string why = core::apply(state_, entry);
  const auto* const checkpoint = std::get_if<LogCheckpoint>(&entry.what);
  if (checkpoint == nullptr || !why.empty()) return;
  state_.forget(checkpoint->rounds);
  if (checkpoint->summary.empty()) return;
  if (last_) log_.drop(*last_);
  last_ = at;
}

}  // namespace detail
}  // namespace swarm
}  // namespace v0
}  // namespace reef
