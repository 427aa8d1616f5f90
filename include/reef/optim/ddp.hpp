#pragma once

#include <string_view>

#include <reef/optim/concept.hpp>
#include <reef/optim/detail/synchronous_policy.hpp>
#include <reef/optim/sgd.hpp>

namespace reef {
inline namespace v0 {
namespace optim {

/// Data parallelism: every rank reduces all gradients and updates all weights.
///
///     w(t+1) = rule(w(t), sum over ranks and micro-batches of weight * g / sum of weights)
///
/// | state  | per weight: the rule's states, and for bf16 a master weight, on every rank             |
/// | wire   | with P ranks and n weights of type T, per rank and step about 2 (P-1)/P n numbers of   |
/// |        | sum_t<T>, and the scalars; once a step, for any number of micro-batches                |
/// | order  | micro-batches ascending, then ranks ascending: the same bits from run to run           |
/// | hides  | a bucket's reduction runs under the backward of the segments before it                 |
///
/// Source: Li et al., PyTorch distributed, arXiv 2006.15704, section 3.2.
///
/// \code
/// using MyTrainer = Trainer<optim::Ddp<optim::AdamW>>;
/// \endcode
template <update_rule UpdateRule>
struct Ddp : detail::SynchronousPolicy<UpdateRule, false> {
  static constexpr std::string_view name = "ddp";
};

static_assert(OptimizerPolicy<Ddp<Sgd>>);

}  // namespace optim
}  // namespace v0
}  // namespace reef
