#pragma once

#include <array>
#include <span>
#include <string>
#include <vector>

#include <reef/core/units.hpp>
#include <reef/trace/span.hpp>

namespace reef {
inline namespace v0 {
namespace trace {

/// Disjoint intervals in ascending order: the union of any intervals.
class Intervals {
public:
  struct Interval {
    Seconds begin;
    Seconds end;
    friend bool operator==(const Interval&, const Interval&) = default;
  };

  Intervals() = default;

  /// Constructs the union of intervals that may overlap, nest or touch, in any order; drops empty ones.
  explicit Intervals(std::vector<Interval> parts);

  [[nodiscard]] std::span<const Interval> parts() const& { return parts_; }
  [[nodiscard]] std::vector<Interval> parts() const&& { return parts_; }

  [[nodiscard]] Seconds length() const;

  [[nodiscard]] Intervals united(const Intervals& other) const;

  /// Returns the seconds within [begin, end) that the union of intervals covers.
  [[nodiscard]] Seconds covered(Seconds begin, Seconds end) const;

private:
  std::vector<Interval> parts_;
};

/// The use of one rank's time in a window [from, to). Each figure is the length in seconds of a union, so that spans
/// that nest or run in several queues (lanes) count once.
///
///     exposed = |compute u communication| - |compute|
///     overlap = |compute| + |communication| - |compute u communication|
struct Overlap {
  Seconds compute = 0;
  Seconds communication = 0;
  Seconds copy = 0;          // between host and device
  Seconds union_ = 0;        // compute or communication
  Seconds exposed = 0;       // communication while compute is idle
  Seconds exposed_copy = 0;  // a copy while compute is idle
  Seconds wall = 0;

  [[nodiscard]] Seconds overlap() const { return compute + communication - union_; }
  [[nodiscard]] Seconds idle() const { return wall - union_; }
  /// Returns the fraction of the communication time in which computation runs, too; 1 if there is no communication.
  [[nodiscard]] double hidden() const {
    return communication > 0 ? 1 - exposed / communication : 1;
  }
  /// Returns the fraction of the wall time in which there is communication and no computation.
  [[nodiscard]] double exposed_share() const { return wall > 0 ? exposed / wall : 0; }
};

/// Returns the union of the trace spans with this activity, cut to [from, to).
Intervals busy(std::span<const Span> spans, Activity activity, Seconds from, Seconds to);

/// Computes the figures of one rank's spans in [from, to), in O(n log n) for n spans.
///
/// A span is recorded when it ends: the figures of a window that ends during a transfer do not include that transfer.
/// If steps overlap, analyse a step after the next one.
///
/// \code
/// // given: const trace::Recording& recording, Seconds begin, Seconds end
/// const trace::Overlap step = trace::analyze(recording.spans, begin, end);
/// const double hidden = step.hidden();  // share of the communication
/// \endcode
Overlap analyze(std::span<const Span> spans, Seconds from, Seconds to);

/// The members of Overlap that can be summed over windows.
inline constexpr std::array<Seconds Overlap::*, 7> overlap_figures{
    &Overlap::compute, &Overlap::communication, &Overlap::copy, &Overlap::union_,
    &Overlap::exposed, &Overlap::exposed_copy,  &Overlap::wall};

/// Adds the figures of another time window to `sum`.
Overlap& operator+=(Overlap& sum, const Overlap& other);

/// Returns the mean over ranks of each figure of time use; zeros for no ranks.
Overlap mean(std::span<const Overlap> ranks);

/// Formats the use of time of all ranks as a text table, a line for each rank and one for the mean.
std::string overlap_table(std::span<const Overlap> ranks);

/// Returns "" if compute hides at least `share` of the communication in [from, to), else a sentence with the
/// figures and the operations that are exposed longest. For tests: EXPECT_EQ(check_overlap(...), "").
std::string check_overlap(const Recording& recording, Seconds from, Seconds to, double share);

}  // namespace trace
}  // namespace v0
}  // namespace reef

#ifndef REEF_COMPILED
#include <reef/trace/overlap.ipp>
#endif
