// expect: reef P3: this optimizer policy has no add_code(handlers, context, options).

#include <reef/optim/decision.hpp>
#include <reef/optim/sgd.hpp>
#include <reef/optim/update.hpp>
#include <reef/trainer/trainer.hpp>

/// Every rank for itself: a whole optimizer policy, but for the code.
struct Alone {
  using policy_tag = reef::OptimTag;
  using Rule = reef::optim::Sgd;
  static constexpr std::string_view name = "alone";
  static constexpr bool sharded = false;
  static constexpr reef::Payload accepts = reef::Payload::dense;
  static constexpr bool needs_scalars = true;

  static void reserve(reef::run::StepBuilder& builder) {
    reef::optim::reserve_states(builder, Rule::states, sharded);
  }
  static std::vector<reef::optim::StateRange> state(const reef::run::StepBuilder& builder) {
    return reef::optim::state_ranges(builder, Rule::states, sharded);
  }
  static void add(reef::run::StepBuilder& builder, const reef::run::Pass& model) {
    model(builder);
    reef::optim::add_decision(builder, reef::run::first_optimizer_channel, builder.reduced);
    if (builder.purpose == reef::run::Purpose::evaluation) return;
    for (std::size_t b = 0; b < builder.plan.buckets.size(); ++b) {
      reef::optim::add_update(builder, b, {builder.reduced[b], 0}, builder.weights[b],
                              Rule::states);
    }
  }
};

struct AloneWithCode : Alone {
  template <class Handlers, class RankContext>
  static void add_code(Handlers& handlers, const RankContext& context,
                       const auto& options) {
    reef::optim::add_decision_code(handlers, context, options.update);
    reef::optim::add_update_code(handlers, context, options.rule);
  }
};

#ifdef FIXED
using Optim = AloneWithCode;
#else
using Optim = Alone;
#endif

static_assert(reef::optim::OptimizerPolicy<Alone> && !reef::composable<Alone>);
static_assert(reef::composable<AloneWithCode>);
template class reef::Trainer<Optim>;
