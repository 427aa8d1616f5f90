#pragma once

#include <reef/core/policy.hpp>
#include <reef/run/step_builder.hpp>

namespace reef {
inline namespace v0 {
namespace pipeline {

/// A policy that decides which rank runs which segment of the model (consecutive operators) for which micro-batch,
/// when, and what ranks send each other.
///
///     add(builder)   appends Batch, Forward, Backward and the folds of this rank, for every
///                    micro-batch that this rank runs in the phase
///
/// | laws   | every segment of every micro-batch runs once; gradients are folded in ascending                    |
/// |        | micro-batch order; a pure function of plan, rank and purpose                                       |
/// | facts  | `spans_stages`, if it exists and is true: a rank runs the segments of its stage alone              |
/// |        | (run::Topology), and add() writes what goes from stage to stage; else each runs all                |
/// | models | Single, which runs the whole model on every rank; Scheduled policies, with an order for each stage |
///
/// \code
/// struct Whole {
///   using policy_tag = PipelineTag;
///   static void add(run::StepBuilder& builder) { pipeline::Single::add(builder); }
/// };
/// static_assert(pipeline::PipelinePolicy<Whole>);
/// \endcode
template <class P>
concept PipelinePolicy = std::is_same_v<policy_tag_of<P>, PipelineTag> &&
                          requires(run::StepBuilder& builder) {
                            P::add(builder);
                          };

}  // namespace pipeline
}  // namespace v0
}  // namespace reef
