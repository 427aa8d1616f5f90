#pragma once

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>

#include <reef/core/units.hpp>
#include <reef/io/atomic_file.hpp>
#include <reef/trace/span.hpp>

namespace reef {
inline namespace v0 {
namespace trace {

namespace detail {

using Nanoseconds = std::int64_t;

/// A span of time as a Chrome trace file states it: its rank, its row, and its begin and end.
struct Slice {
  int pid = 0;
  int tid = 0;
  Nanoseconds begin = 0;
  Nanoseconds end = 0;

  /// Returns the last nanosecond of the slice: an arrow (flow) that is tied to its end must be inside it.
  [[nodiscard]] Nanoseconds last() const { return (std::max)(begin, end - 1); }
};

}  // namespace detail

/// Returns the time in seconds at which the first span of any recording begins; 0 if there are no spans.
Seconds first_begin(std::span<const Recording> recordings);

/// Returns the recordings as JSON in Chrome's trace format, which Perfetto and chrome://tracing open.
///
/// | pid    | the rank                                                                                |
/// | tid    | the lane; spans that overlap in part get rows "lane (2)", ..., since rows must nest     |
/// | ts,dur | us with three decimals, from the begin of the first of all spans                        |
/// | flows  | pairs of events "s" and "f" with a number, each inside the slice that it ties:          |
/// |        | "dependency" from the end of the last span that a lane waited for to the span after it; |
/// |        | "message" from a send to the end of its receive, and in a collective from the rank      |
/// |        | that came last to the end of the others                                                 |
std::string chrome_json(std::span<const Recording> recordings);

/// Writes chrome_json to a file, atomically. Throws FileError.
///
/// \code
/// // given: trace::Sink& sink
/// std::vector<trace::Recording> recordings(1);  // one for each rank
/// sink.collect(recordings[0]);
/// trace::write_chrome("trace.json", recordings);
/// \endcode
inline void write_chrome(const std::filesystem::path& path, std::span<const Recording> recordings) {
  io::write_atomically(path, chrome_json(recordings));
}

}  // namespace trace
}  // namespace v0
}  // namespace reef

#ifndef REEF_COMPILED
#include <reef/trace/chrome.ipp>
#endif
