#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include <reef/swarm/core/job_state.hpp>

namespace reef {
inline namespace v0 {
namespace swarm {
namespace core {

/// The most bytes of a summary, so that a checkpoint's entry fits into the log.
inline constexpr std::size_t max_summary_bytes = 40 * 1024;

/// Returns the summary (JSON) of a job's state whose first `rounds` rounds are settled: all that later entries depend
/// on, with the records of the rounds from `rounds` on. Readers of the same entries have the same bytes. Empty where
/// the summary would have more than max_summary_bytes.
std::string summary_of(const JobState& state, std::int64_t rounds);

/// Returns the state of a job that a summary says. Throws DecodeError for a text that is no summary.
///
/// \code
/// // given: const swarm::core::JobState& state
/// const std::string summary = swarm::core::summary_of(state, state.round());
/// const swarm::core::JobState same = swarm::core::state_of(summary);  // but for the records of rounds
/// \endcode
JobState state_of(std::string_view summary);

/// Sets `state` to what the summary of a checkpoint's entry says of the job: the first entry of a log whose entries
/// before were dropped, which is to be applied next. Returns why that cannot be, and then changes nothing; empty if
/// done. `index`: that of the entry.
///
/// \code
/// // given: swarm::core::JobState& state, std::int64_t index, const swarm::Entry& entry
/// std::string why;
/// if (index != state.entries) why = swarm::core::begin_with(state, index, entry);
/// if (why.empty()) why = swarm::core::apply(state, entry);
/// \endcode
std::string begin_with(JobState& state, std::int64_t index, const Entry& entry);

}  // namespace core
}  // namespace swarm
}  // namespace v0
}  // namespace reef

#ifndef REEF_COMPILED
#include <reef/swarm/core/job_summary.ipp>
#endif
