#pragma once

#include <string_view>

#include <reef/optim/detail/overlapping_policy.hpp>
#include <reef/optim/sgd.hpp>

namespace reef {
inline namespace v0 {
namespace optim {

/// Accumulate while communicating: a step has two accumulation phases, and the communication of each
/// runs beside the gradients of the other. One half of a step's gradients is exact, the other is computed at
/// estimated weights.
///
///     phase 1:  g(t) at w(t)          ||   w~(t+1) = rule(w(t), mean of g~(t))            an estimate
///     phase 2:  g~(t+1) at w~(t+1)    ||   w(t+1)  = rule(w(t), mean of g(t) and g~(t))   committed
///
/// Both updates start from w(t) and from the state after step t, with the rate of step t. The estimate
/// commits nothing: it reads weights, state and gradient, and writes w~ to the buffer that is sent.
///
/// | state  | as for Dpu; g~ has no buffer of its own: g is added to it while its copy is sent |
/// | wire   | twice that of Dpu                                                                |
/// | hides  | all communication, if that of a phase takes no longer than its micro-batches     |
/// | order  | as Ddp; w(1) has Ddp's bits, since g~(0) and g(0) are both taken at w(0)         |
/// | counts | micro-batches are counted per phase: a step has twice as many                    |
///
/// Source: Nabli et al., ACCO, arXiv 2406.02613, algorithm 1. Deviation: g~(0) has as many micro-batches
/// as any phase, not one.
///
/// \code
/// using MyTrainer = Trainer<optim::Acco<optim::AdamW>>;
/// MyTrainer::Options options;
/// options.accumulation = Accumulation::adaptive();
/// \endcode
template <update_rule UpdateRule>
struct Acco : detail::OverlappingPolicy<UpdateRule, 2, 0, detail::Prediction::none> {
  static constexpr std::string_view name = "acco";
};

static_assert(overlapping_policy<Acco<Sgd>>);

}  // namespace optim
}  // namespace v0
}  // namespace reef
