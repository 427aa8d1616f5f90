#pragma once

#include <string_view>

#include <reef/optim/detail/overlapping_policy.hpp>
#include <reef/optim/sgd.hpp>

namespace reef {
inline namespace v0 {
namespace optim {

/// ACCO by weight prediction: gradients are computed at predicted weights, those that would result if the last gradient
/// were applied twice.
///
///     w(t+1)  = rule(w(t), G~(t))                         committed
///     w~(t+2) = rule(w(t+1), G~(t)), lr(t+1)              commits neither weights nor state
///     g~(t+1) at w~(t+1), beside both; w~(1) = w(0)
///
/// | state | as Dpu                                                  |
/// | wire  | as Dpu: only w~ is gathered; w stays on its owners till |
/// |       | Trainer::gather_committed_weights                       |
/// | hides | as Dpu                                                  |
///
/// Source: Nabli et al., ACCO, arXiv 2406.02613, section 3. The paper leaves open what w~(1) is, whether
/// the second call keeps its state, and which rate it has.
///
/// \code
/// using MyTrainer = Trainer<optim::AccoWp<optim::AdamW>>;
/// \endcode
template <update_rule UpdateRule>
struct AccoWp : detail::OverlappingPolicy<UpdateRule, 1, 0, detail::Prediction::repeated_update> {
  static constexpr std::string_view name = "acco-wp";
};

static_assert(overlapping_policy<AccoWp<Sgd>>);

}  // namespace optim
}  // namespace v0
}  // namespace reef
