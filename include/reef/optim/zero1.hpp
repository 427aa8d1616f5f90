#pragma once

#include <string_view>

#include <reef/optim/concept.hpp>
#include <reef/optim/detail/synchronous_policy.hpp>
#include <reef/optim/sgd.hpp>

namespace reef {
inline namespace v0 {
namespace optim {

/// Data parallelism with sharded optimizer state: a rank updates its shard of the weights and sends it
/// to the others.
///
///     shard r of w(t+1) = rule(shard r of w(t), shard r of the reduced gradient);  all-gather w(t+1)
///
/// | state  | per weight: 1 / P of the rule's states, and for bf16 of a master weight, with P ranks  |
/// | wire   | per rank and step, for n weights of type T, about (P-1)/P n numbers of sum_t<T>, as    |
/// |        | many of T, and the scalars: as Ddp, and in bf16 three quarters of its bytes            |
/// | bits   | those of Ddp, whatever the rule: an update is element by element, or of whole matrices |
///
/// Source: Rajbhandari et al., ZeRO, arXiv 1910.02054, section 5.1 (P_os).
///
/// \code
/// using MyTrainer = Trainer<optim::Zero1<optim::AdamW>>;
/// \endcode
template <update_rule UpdateRule>
struct Zero1 : detail::SynchronousPolicy<UpdateRule, true> {
  static constexpr std::string_view name = "zero1";
};

static_assert(OptimizerPolicy<Zero1<Sgd>>);

}  // namespace optim
}  // namespace v0
}  // namespace reef
