#include <reef/codec/chain.hpp>
#include <reef/codec/chunk_top_k.hpp>
#include <reef/codec/error_feedback.hpp>
#include <reef/codec/two_bit.hpp>
#include <reef/compress/channels.hpp>
#include <reef/optim/diloco.hpp>
#include <reef/optim/sgd.hpp>

#include "optim/recipe.hpp"

// An outer step of every weight once in 20 steps, as diloco: plain, of 64 of 4096 differences in two bits each, by the number of
// ranks that have sent one; the residual is in the place of the momentum. Or as papers write it: by the number of all ranks.

namespace {

using SparseCodec =
    reef::codec::ErrorFeedback<reef::codec::Chain<reef::codec::ChunkTopK, reef::codec::TwoBit>>;
using SparseChannels = reef::compress::Channels<reef::compress::PseudoGradient<SparseCodec>>;
using SparseLoCo = reef::optim::DiLoCo<reef::optim::AdamW, reef::optim::Sgd>;

std::unique_ptr<reef_bench::Training> make_sparse_of(reef_bench::Setting setting, const reef::comm::Communicator& ranks,
                                           SparseLoCo::Divisor divisor, float decay) {
  SparseLoCo::Options own;
  own.every = 20;
  own.outer_learning_rate = 1;
  own.divisor = divisor;
  SparseChannels::Options compress;
  compress.pseudo_gradient.decay = decay;
  return reef_bench::make_training<SparseLoCo, SparseChannels>(std::move(setting), ranks, own, compress);
}

}  // namespace

std::unique_ptr<reef_bench::Training> reef_bench::make_sparse(Setting setting, const reef::comm::Communicator& ranks) {
  return make_sparse_of(std::move(setting), ranks, SparseLoCo::Divisor::senders, 0.9F);
}

std::unique_ptr<reef_bench::Training> reef_bench::make_sparse_peers(Setting setting, const reef::comm::Communicator& ranks) {
  return make_sparse_of(std::move(setting), ranks, SparseLoCo::Divisor::peers, 0.95F);
}
