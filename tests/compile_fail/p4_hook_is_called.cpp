// expect: reef P4: a policy has a hook of that name which cannot be called as hooks are.

#include <reef/optim/ddp.hpp>
#include <reef/optim/sgd.hpp>
#include <reef/trainer/trainer.hpp>

/// A compressor that would like to see the plan.
struct Curious {
  using policy_tag = reef::CompressTag;
  static constexpr bool lossless = true;
  static constexpr reef::Payload payload = reef::Payload::dense;

  static void add(reef::run::StepBuilder& /*builder*/) {}
#ifdef FIXED
  static void plan(reef::run::StepPlan& /*plan*/, const reef::NoOptions& /*options*/) {}
#else
  static void plan(reef::run::StepPlan& /*plan*/) {}
#endif
};

template class reef::Trainer<Curious>;
