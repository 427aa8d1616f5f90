// expect: reef R1: this optimizer's reduction cannot combine what this compressor sends.

#include <reef/compress/dense.hpp>
#include <reef/optim/adamw.hpp>
#include <reef/optim/zero1.hpp>
#include <reef/trainer/trainer.hpp>

/// A compressor whose messages name the entries that they carry.
struct Sparse : reef::compress::Dense {
  static constexpr reef::Payload payload = reef::Payload::sparse;
};

#ifdef FIXED
using Compress = reef::compress::Dense;
#else
using Compress = Sparse;
#endif

using Optim = reef::optim::Zero1<reef::optim::AdamW>;
static_assert(!reef::composable<Sparse, Optim>);
static_assert(reef::composable<reef::compress::Dense, Optim>);
static_assert(sizeof(reef::Trainer<Compress, Optim>) > 0);
