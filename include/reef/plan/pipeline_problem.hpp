#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include <reef/core/error.hpp>
#include <reef/core/units.hpp>
#include <reef/plan/pipeline_time.hpp>
#include <reef/profile/network.hpp>

namespace reef {
inline namespace v0 {
namespace plan {

/// A pipeline stage: the consecutive operators [first, end) on one device.
struct Stage {
  int device = 0;
  int first = 0;
  int end = 0;

  friend bool operator==(const Stage&, const Stage&) = default;
};

/// The most operators and the most devices of a PipelineProblem.
inline constexpr int max_pipeline_operators = 4096;
inline constexpr int max_pipeline_devices = 1024;

/// A chain of operators, and devices that may run it. A graph of operators becomes a chain in any topological order,
/// with crossing_bytes() as `cut`.
struct PipelineProblem {
  std::vector<double> flops{};     ///< operations of each operator for one micro-batch
  std::vector<Bytes> memory{};     ///< bytes of memory that each operator needs on its device
  std::vector<double> cut{};  ///< bytes of a micro-batch that cross each boundary; one more boundary than operators
  std::vector<double> speed{};     ///< operations per second of each device, as measured
  std::vector<Bytes> capacity{};   ///< bytes of memory of each device
  profile::Network links{};        ///< links between the devices: a message takes links.time(from, to, bytes) seconds
  std::int64_t micro_batches = 1;  ///< n_b, the number of micro-batches in a batch

  [[nodiscard]] int operators() const { return static_cast<int>(flops.size()); }
  [[nodiscard]] int devices() const { return static_cast<int>(speed.size()); }

  /// Returns the times of a plan with these stages by pipeline_time(), for micro-batches of `samples`. The first stage
  /// receives nothing.
  [[nodiscard]] PipelineTime time(const std::vector<Stage>& stages, double samples = 1) const;

  /// Returns true if each stage's operators fit the memory of its device.
  [[nodiscard]] bool fits(const std::vector<Stage>& stages) const;

  /// Throws OptionError, naming the figure, unless there are operators and devices, sizes agree, speeds and rates of
  /// links are at least 1, and figures are small enough for their sums.
  void validate() const;
};

/// Returns the bytes that cross each boundary of operators in a topological order: an operator's output counts once at
/// each boundary up to its last reader. There is one more boundary than operators; nothing crosses the first and the
/// last.
///
/// | outputs | the bytes of each operator's output                                           |
/// | edges   | pairs of an operator and a later one that reads its output                    |
/// | cost    | O(edges + operators^2): each boundary is summed anew, so no rounding error is |
/// |         | carried over from one boundary to the next                                    |
/// | errors  | OptionError for an edge that does not lead forward                            |
///
/// \code
/// const std::vector<double> outputs{1e6, 1e6, 4e6};
/// const auto cut = plan::crossing_bytes(outputs, {{0, 1}, {0, 2}, {1, 2}});  // 0, 1e6, 2e6, 0
/// \endcode
std::vector<double> crossing_bytes(const std::vector<double>& outputs,
                                   const std::vector<std::pair<int, int>>& edges);

}  // namespace plan
}  // namespace v0
}  // namespace reef

#ifndef REEF_COMPILED
#include <reef/plan/pipeline_problem.ipp>
#endif
