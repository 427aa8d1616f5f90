// expect: reef R1: this optimizer's reduction cannot combine what this compressor sends.

#include <reef/codec/dense.hpp>
#include <reef/compress/channels.hpp>
#include <reef/optim/adamw.hpp>
#include <reef/optim/diloco.hpp>
#include <reef/trainer/trainer.hpp>

using reef::compress::Channels, reef::compress::Gradient, reef::compress::PseudoGradient;

#ifdef FIXED
using Compress = Channels<PseudoGradient<reef::codec::Dense>>;
#else
using Compress = Channels<Gradient<reef::codec::Dense>>;
#endif

using Optim = reef::optim::DiLoCo<reef::optim::AdamW>;
static_assert(!reef::composable<Channels<Gradient<reef::codec::Dense>>, Optim>);
static_assert(
    !reef::composable<Channels<Gradient<reef::codec::Dense>, PseudoGradient<reef::codec::Dense>>, Optim>);
static_assert(sizeof(reef::Trainer<Compress, Optim>) > 0);
