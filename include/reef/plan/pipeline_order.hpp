#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include <reef/core/error.hpp>

/// \file
/// Orders of pipelines: the tasks (forward or backward of a chunk with a micro-batch) that each rank runs, one after
/// another. Times (pipeline_model.hpp), messages and memory are computed from an order.
///
/// \code
/// const plan::PipelineOrder order = plan::parse_pipeline_order("F0 F1 B0 B1");
/// const std::string text = plan::text_of(order);  // the same, and a line break
/// \endcode

namespace reef {
inline namespace v0 {
namespace plan {

/// The kind of a pipeline task, which runs one chunk of the model for one micro-batch: F, B, or the halves of B, I and
/// W.
///
/// | forward         | F: the forward of the chunk, which reads the outputs of chunks before it        |
/// | backward        | B: both gradients in one piece; the chunk before gets its gradient when B ends  |
/// | input_backward  | I: the gradient of the chunk's input (papers on zero bubble call it B)          |
/// | weight_backward | W: the gradient of the chunk's weights, from the tensors that F and I have kept |
enum class PipelineTaskKind : std::uint8_t { forward, backward, input_backward, weight_backward };

struct PipelineTask {
  PipelineTaskKind kind = PipelineTaskKind::forward;
  int chunk = 0;
  int micro_batch = 0;

  friend constexpr bool operator==(const PipelineTask&, const PipelineTask&) = default;
};

/// The most tasks of a pipeline's order, on all ranks together: a longer order is refused before memory is allocated.
inline constexpr std::int64_t max_pipeline_tasks = std::int64_t{1} << 25;

/// A schedule of one pipeline: the order in which each rank runs its tasks.
///
/// A model is cut into S chunks, numbered in its order. A rank holds one or several chunks, which are its stage.
///
/// | tasks | every F once, every backward once, as B or as I and W                                           |
/// | order | B and I run after their F, W after its I; within a chunk micro-batches ascend in F, in I and B  |
/// |       | together, and in W and B together, so that gradients are added in ascending order               |
/// | waits | not checked: whether ranks wait for each other in a cycle depends on edges (pipeline_model.hpp) |
struct PipelineOrder {
  int micro_batches = 0;
  std::vector<int> rank_of_chunk{};  ///< rank of each chunk (part of the model); ranks of one pipeline, from 0
  std::vector<std::vector<PipelineTask>> tasks{};  ///< the tasks of each rank, in order

  [[nodiscard]] int ranks() const { return static_cast<int>(tasks.size()); }
  [[nodiscard]] int chunks() const { return static_cast<int>(rank_of_chunk.size()); }

  /// Throws OptionError, naming rank and task, unless the order of tasks is valid by the table of PipelineOrder.
  /// O(tasks).
  void validate() const;

  friend bool operator==(const PipelineOrder&, const PipelineOrder&) = default;
};

/// Returns a pipeline task as text: "F3" is the forward of micro-batch 3; with `names_chunk` "5F3", for chunk 5.
std::string text_of(const PipelineTask& task, bool names_chunk);

/// Returns true if the text of an order of tasks names chunks, which it omits if each rank r has chunk r alone.
bool names_chunks(const PipelineOrder& order);

/// Returns an order of pipeline tasks as text, those of each rank on a line: "F0 F1 B0 B1". parse_pipeline_order()
/// reads the text.
std::string text_of(const PipelineOrder& order);

/// Reads an order of pipeline tasks: a line for each rank, with tasks such as F0 (forward of micro-batch 0) separated
/// by blanks. A task that names no chunk belongs to the chunk with the rank's number. Empty lines, and text from # on,
/// are ignored. Errors name `source`.
///
/// | errors | DecodeError, naming line and task; the errors of PipelineOrder::validate() |
PipelineOrder parse_pipeline_order(std::string_view text, std::string_view source = "the order");

}  // namespace plan
}  // namespace v0
}  // namespace reef

#ifndef REEF_COMPILED
#include <reef/plan/pipeline_order.ipp>
#endif
