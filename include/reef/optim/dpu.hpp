#pragma once

#include <cstdint>
#include <string_view>

#include <reef/optim/detail/overlapping_policy.hpp>
#include <reef/optim/sgd.hpp>

namespace reef {
inline namespace v0 {
namespace optim {

/// Delayed parameter update: the communication of a step runs beside the gradients of the next, which
/// are therefore taken at weights that are one step old.
///
///     G(t) = sum over ranks and micro-batches of weight * g(t) / sum of weights, g(t) taken at w(t)
///     w(t+1) = rule(w(t), G(t-1))   ||   g(t)
///
/// | state    | per weight: gradient and communication buffer, whole; 1 / P of the rule's states |
/// |          | and master weights, with P ranks                                                 |
/// | wire     | per rank and step, for n weights of type T, about (P-1)/P n numbers of sum_t<T>, |
/// |          | or of bf16 with Bf16Gradients, as many of T, and the scalars                     |
/// | hides    | all communication, if it takes no longer than the micro-batches of a step        |
/// | order    | as Ddp; the first `WarmUp` steps are those of Ddp, bit for bit, and nothing      |
/// |          | overlaps                                                                         |
/// | prologue | one gradient at w(WarmUp), computed before the first step that overlaps: applied |
/// |          | without delay                                                                    |
///
/// Source: Ren et al., ZeRO-Offload, arXiv 2101.06840, section 5.2; in the form of Nabli et al., ACCO,
/// arXiv 2406.02613, section 3. Deviation: the prologue takes as many micro-batches as a step, not
/// one.
///
/// \code
/// using MyTrainer = Trainer<optim::Dpu<optim::AdamW, 100>>;  // 100 steps without overlap first
/// \endcode
template <update_rule UpdateRule, std::int64_t WarmUp = 0>
struct Dpu : detail::OverlappingPolicy<UpdateRule, 1, WarmUp, detail::Prediction::none> {
  static constexpr std::string_view name = "dpu";
};

static_assert(overlapping_policy<Dpu<Sgd>>);

}  // namespace optim
}  // namespace v0
}  // namespace reef
