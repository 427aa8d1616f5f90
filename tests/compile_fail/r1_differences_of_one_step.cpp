// expect: reef R1: this optimizer's reduction cannot combine what this compressor sends.

#include <reef/codec/dense.hpp>
#include <reef/compress/channels.hpp>
#include <reef/optim/acco.hpp>
#include <reef/optim/adamw.hpp>
#include <reef/optim/ddp.hpp>
#include <reef/optim/diloco.hpp>
#include <reef/optim/zero1.hpp>
#include <reef/trainer/trainer.hpp>

using Rule = reef::optim::AdamW;
using Compress = reef::compress::Channels<reef::compress::PseudoGradient<reef::codec::Dense>>;

#ifdef FIXED
using Optim = reef::optim::DiLoCo<Rule>;
#else
using Optim = reef::optim::Zero1<Rule>;
#endif

static_assert(!reef::composable<Compress, reef::optim::Ddp<Rule>>);
static_assert(!reef::composable<Compress, reef::optim::Acco<Rule>>);
static_assert(sizeof(reef::Trainer<Compress, Optim>) > 0);
