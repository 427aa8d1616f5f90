#include <reef/codec/chain.hpp>
#include <reef/codec/chunk_top_k.hpp>
#include <reef/codec/error_feedback.hpp>
#include <reef/codec/two_bit.hpp>
#include <reef/compress/channels.hpp>
#include <reef/optim/adamw.hpp>
#include <reef/optim/diloco.hpp>
#include <reef/optim/sgd.hpp>

#include "run.hpp"

namespace reef_examples {

/// SparseLoCo: 64 of 4096 differences, in two bits each; what is left out comes with the next.
int run_sparse(const TrainOptions& options, const reef::comm::StopRequest& stop) {
  using namespace reef;
  using Codec = codec::ErrorFeedback<codec::Chain<codec::ChunkTopK, codec::TwoBit>>;
  using Compress = compress::Channels<compress::PseudoGradient<Codec>>;
  return run<Compress, optim::DiLoCo<optim::AdamW, optim::Sgd>>(options, stop);
}

}  // namespace reef_examples
