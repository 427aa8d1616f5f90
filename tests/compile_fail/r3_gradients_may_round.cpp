// expect: reef R3: this precision rounds gradients to fewer bytes

#include <reef/optim/acco.hpp>
#include <reef/optim/zero1.hpp>
#include <reef/trainer/trainer.hpp>

#ifdef FIXED
using Optim = reef::optim::Acco<reef::optim::Sgd>;
#else
using Optim = reef::optim::Zero1<reef::optim::Sgd>;
#endif

using Precision = reef::precision::Bf16Gradients<>;
static_assert(!reef::composable<reef::optim::Zero1<reef::optim::Sgd>, Precision>);
static_assert(reef::composable<reef::optim::Acco<reef::optim::Sgd>, Precision>);
static_assert(sizeof(reef::Trainer<Optim, Precision>) > 0);
