#pragma once

#include <cstdint>
#include <string_view>

#include <reef/optim/detail/overlapping_policy.hpp>
#include <reef/optim/momentum.hpp>

namespace reef {
inline namespace v0 {
namespace optim {

/// Delayed parameter update (Dpu) whose gradients are computed at predicted weights: those to which the rule's state
/// alone leads by the time the gradients are applied.
///
///     w~(t+1) = predict(w(t), state(t), lr(t))         another step of momentum, without a gradient
///     w(t+1) = rule(w(t), G~(t))   ||   g~(t+1) at w~(t+1)
///
/// | state | as Dpu                                                          |
/// | wire  | as Dpu: only w~ is gathered; w stays on its owners until        |
/// |       | Trainer::gather_committed_weights                               |
/// | cost  | nothing more than Dpu; a rule without momentum predicts no move |
///
/// Source: Chen et al., SpecTrain, arXiv 1809.02839, equation 4, for a delay of one step. Deviation: a
/// rule's own step is used, so that AdamW moves by m / sqrt(v) and decays.
///
/// \code
/// using MyTrainer = Trainer<optim::DpuPredicted<optim::AdamW>>;
/// \endcode
template <predicting_rule UpdateRule, std::int64_t WarmUp = 0>
struct DpuPredicted
    : detail::OverlappingPolicy<UpdateRule, 1, WarmUp, detail::Prediction::momentum> {
  static constexpr std::string_view name = "dpu-predicted";
};

static_assert(overlapping_policy<DpuPredicted<Momentum>>);

}  // namespace optim
}  // namespace v0
}  // namespace reef
