// expect: reef R6: this rule needs whole matrices, but this optimizer updates element by element

#include <reef/optim/acco.hpp>
#include <reef/optim/muon.hpp>
#include <reef/optim/zero1.hpp>
#include <reef/trainer/trainer.hpp>

#ifdef FIXED
using Optim = reef::optim::Zero1<reef::optim::Muon>;
#else
using Optim = reef::optim::Acco<reef::optim::Muon>;
#endif

static_assert(!reef::composable<reef::optim::Acco<reef::optim::Muon>>);
static_assert(reef::composable<reef::optim::Zero1<reef::optim::Muon>>);
static_assert(sizeof(reef::Trainer<Optim>) > 0);
