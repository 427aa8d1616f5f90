// expect: reef R5: this pipeline updates within a step, but this optimizer updates behind or beside its micro-batches

#include <reef/optim/ddp.hpp>
#include <reef/optim/dpu.hpp>
#include <reef/pipeline/asynchronous.hpp>
#include <reef/trainer/trainer.hpp>

#ifdef FIXED
using Optim = reef::optim::Ddp<reef::optim::Sgd>;
#else
using Optim = reef::optim::Dpu<reef::optim::Sgd>;
#endif

static_assert(!reef::composable<reef::pipeline::TwoBw, reef::optim::Dpu<reef::optim::Sgd>>);
static_assert(reef::composable<reef::pipeline::TwoBw, reef::optim::Ddp<reef::optim::Sgd>>);
static_assert(sizeof(reef::Trainer<Optim, reef::pipeline::PipeDream>) > 0);
