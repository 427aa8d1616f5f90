// expect: reef R2: this swap policy updates weights during the backward

#include <reef/optim/ddp.hpp>
#include <reef/swap/resident.hpp>
#include <reef/trainer/trainer.hpp>

/// A swap policy that updates a segment as soon as its gradients are there.
struct Streaming : reef::swap::Resident {
  static constexpr bool updates_in_backward = true;
};

#ifdef FIXED
using Swap = reef::swap::Resident;
#else
using Swap = Streaming;
#endif

using Optim = reef::optim::Ddp<reef::optim::Sgd>;
static_assert(!reef::composable<Streaming, Optim>);
static_assert(reef::composable<reef::swap::Resident, Optim>);
static_assert(sizeof(reef::Trainer<Swap, Optim>) > 0);
