#pragma once

#include <concepts>
#include <type_traits>

#include <reef/core/policy.hpp>
#include <reef/run/step_builder.hpp>

namespace reef::inline v0::swap {

/// Says what of the model is in the device's memory when.
///
///     add(builder)   refines the instructions that the pipeline wrote, and adds loads and evictions
///     add_code(handlers, site)   where it writes instructions of its own: adds their code
///     manners()      where home_is_host: each run::Swapping that a plan may choose, those that differ in slots
///                    alone behind each other, ascending; the first without a plan
///     may_stay       optional: a plan may choose that the first segments live on the device
///     Planner        where home_is_host: what chooses, of what a device allows: swap::Planner
///
/// | facts  | `updates_in_backward`: weights change before the last backward has ended |
/// |        | `home_is_host`: weights, gradients and optimizer state live in host memory |
/// | laws   | the weights and losses of a step are those of `Resident`, bit for bit |
/// | models | Resident, Atom, PaperAtom, LayerStreaming                              |
template <class S>
concept swap_policy = std::is_same_v<policy_tag_of<S>, SwapTag> &&
    requires(run::StepBuilder& builder) {
  { S::updates_in_backward } -> std::convertible_to<bool>;
  { S::home_is_host } -> std::convertible_to<bool>;
  S::add(builder);
} &&(!S::home_is_host || requires {
  S::manners().front();
  typename S::Planner;
});

}  // namespace reef::inline v0::swap
