#pragma once

#include <concepts>
#include <type_traits>

#include <reef/core/policy.hpp>
#include <reef/run/step_builder.hpp>

namespace reef {
inline namespace v0 {
namespace swap {

/// A policy that decides which parts of the model are in the device's memory, and when.
///
///     add(builder)               refines the instructions that the pipeline wrote, and adds loads and
///                                evictions
///     add_code(handlers, context)   if it writes instructions of its own: adds their code
///     schedules()                if offloads_to_host: each run::SwapSchedule that a plan may choose,
///                                ascending where only slots differ; without a plan the first is used
///     allows_resident_segments   optional: a plan may choose that first segments stay on the device
///     Planner                    if offloads_to_host: the type that plans for a device's memory: swap::Planner
///
/// | facts  | `updates_in_backward`: weights change before the last backward has ended       |
/// |        | `offloads_to_host`: weights, gradients and optimizer state live in host memory |
/// | laws   | the weights and losses of a step are those of `Resident`, bit for bit          |
/// | models | Resident, Atom, PaperAtom, LayerStreaming                                      |
///
/// \code
/// struct Kept {
///   using policy_tag = SwapTag;
///   static constexpr bool updates_in_backward = false;
///   static constexpr bool offloads_to_host = false;
///   static void add(run::StepBuilder&) {}  // what the pipeline wrote stays as it is
/// };
/// static_assert(swap::SwapPolicy<Kept>);
/// \endcode
template <class S>
concept SwapPolicy = std::is_same_v<policy_tag_of<S>, SwapTag> &&
    requires(run::StepBuilder& builder) {
  { S::updates_in_backward } -> std::convertible_to<bool>;
  { S::offloads_to_host } -> std::convertible_to<bool>;
  S::add(builder);
} &&(!S::offloads_to_host || requires {
  S::schedules().front();
  typename S::Planner;
});

}  // namespace swap
}  // namespace v0
}  // namespace reef
