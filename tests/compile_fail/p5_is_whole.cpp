// expect: reef P5: a type says that it is a policy of this axis, and lacks what one has.

#include <reef/optim/adamw.hpp>
#include <reef/optim/ddp.hpp>
#include <reef/trainer/trainer.hpp>

/// An optimizer policy of which nothing but its axis is there.
struct Begun {
  using policy_tag = reef::OptimTag;
};

#ifdef FIXED
using Optim = reef::optim::Ddp<reef::optim::AdamW>;
#else
using Optim = Begun;
#endif

static_assert(!reef::optim::OptimizerPolicy<Begun>);
template class reef::Trainer<Optim>;
