#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include <reef/core/language.hpp>
#include <reef/run/fragment.hpp>
#include <reef/run/step_plan.hpp>
#include <reef/schedule/program.hpp>

namespace reef {
inline namespace v0 {
namespace compress {

/// The messages of an edge between stages, of a gradient bucket (parameters that are reduced together) or of a piece of
/// a fragment (weights that DiLoCo averages together), which a codec encodes: the argument of a RatioFunction.
///
/// \code
/// #include <optional>
/// // given: const compress::CodedMessages& messages
/// const bool near_the_loss = messages.to_segment > 8;  // the last layers stay as they are
/// const std::optional<double> ratio = near_the_loss ? std::optional(1.0) : std::nullopt;
/// \endcode
struct CodedMessages {
  schedule::Traffic traffic{};
  int index = 0;  ///< number of the edge between stages, the bucket, or the piece among the pieces of its stage
  std::int64_t numbers = 0;
  /// Name of the tensor that crosses the edge, or of the parameters in the bucket or piece.
  std::vector<std::string_view> names{};
  /// The segment (consecutive operators) that sends; for a bucket or a piece, the segment of its parameters.
  int from_segment = 0;
  int to_segment = 0;
  int from_stage = 0;
  int to_stage = 0;
};

namespace detail {

inline std::vector<CodedMessages> coded_messages_of(const run::StepPlan& plan, schedule::Traffic traffic) {
  std::vector<CodedMessages> all;
  const auto stage_of = [&](int segment) { return plan.stage_of_segment[static_cast<std::size_t>(segment)]; };
  if (schedule::is_between_stages(traffic)) {
    for (std::size_t e = 0; e < plan.remote_edges.size(); ++e) {
      const graph::RemoteEdge& edge = plan.remote_edges[e];
      if (edge.gradient != (traffic == schedule::Traffic::activation_gradient)) continue;
      const graph::Tensor& tensor = plan.dag->tensor_at(edge.tensor);
      all.push_back({traffic, static_cast<int>(e), tensor.spec.shape.size(), {tensor.name}, edge.from, edge.to,
                     stage_of(edge.from), stage_of(edge.to)});
    }
    return all;
  }
  for (std::size_t b = 0; b < plan.buckets.size(); ++b) {
    const run::Bucket& bucket = plan.buckets[b];
    all.push_back(
        {traffic, static_cast<int>(b), bucket.size(), {}, bucket.segment, bucket.segment, bucket.stage, bucket.stage});
    for (std::size_t p = 0; p < plan.dag->parameters.size(); ++p) {
      if (plan.bucket_of_parameter[p] == static_cast<int>(b)) all.back().names.push_back(plan.dag->parameters[p].name);
    }
  }
  return all;
}

/// Returns the pieces of pseudo-gradients that a rank's stage sends in outer steps of DiLoCo: one for each part of a
/// fragment that lies in one bucket.
inline std::vector<CodedMessages> coded_pieces_of(const run::StepPlan& plan, int rank) {
  const std::vector<run::FragmentPiece> pieces = run::fragment_pieces(plan, rank);
  std::vector<CodedMessages> all;
  for (std::size_t i = 0; i < pieces.size(); ++i) {
    const run::FragmentPiece& piece = pieces[i];
    const run::Bucket& bucket = plan.buckets[piece.bucket];
    all.push_back({schedule::Traffic::pseudo_gradient,
                   static_cast<int>(i),
                   piece.size(),
                   {},
                   bucket.segment,
                   bucket.segment,
                   bucket.stage,
                   bucket.stage});
    for (std::size_t p = 0; p < plan.dag->parameters.size(); ++p) {
      const std::int64_t begin = plan.layout.parameters[p] - bucket.begin;
      const bool is_in = begin < piece.end && begin + plan.dag->parameters[p].spec.shape.size() > piece.begin;
      if (is_in && plan.bucket_of_parameter[p] == static_cast<int>(piece.bucket)) {
        all.back().names.push_back(plan.dag->parameters[p].name);
      }
    }
  }
  return all;
}

}  // namespace detail

}  // namespace compress
}  // namespace v0
}  // namespace reef
