// expect: reef R4: this swap policy keeps weights in host memory, but this optimizer does not say

#include <reef/optim/zero1.hpp>
#include <reef/swap/atom.hpp>
#include <reef/trainer/trainer.hpp>

struct Own : reef::optim::Zero1<reef::optim::Sgd> {
  static constexpr bool supports_offload =
      false;  // reserves a copy of the weights on the device, say
};

#ifdef FIXED
using Optim = reef::optim::Zero1<reef::optim::Sgd>;
#else
using Optim = Own;
#endif

static_assert(!reef::composable<Own, reef::swap::Atom<>>);
static_assert(reef::composable<Own>);
static_assert(reef::composable<reef::optim::Zero1<reef::optim::Sgd>, reef::swap::Atom<>>);
static_assert(sizeof(reef::Trainer<Optim, reef::swap::Atom<>>) > 0);
