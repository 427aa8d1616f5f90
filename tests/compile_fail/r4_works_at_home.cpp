// expect: reef R4: this swap policy keeps weights in host memory, but this optimizer has buffers

#include <reef/optim/acco.hpp>
#include <reef/optim/zero1.hpp>
#include <reef/swap/atom.hpp>
#include <reef/trainer/trainer.hpp>

#ifdef FIXED
using Optim = reef::optim::Zero1<reef::optim::Sgd>;
#else
using Optim = reef::optim::Acco<reef::optim::Sgd>;
#endif

static_assert(!reef::composable<reef::optim::Acco<reef::optim::Sgd>, reef::swap::Atom<>>);
static_assert(reef::composable<reef::optim::Zero1<reef::optim::Sgd>, reef::swap::Atom<>>);
static_assert(sizeof(reef::Trainer<Optim, reef::swap::Atom<>>) > 0);
