#include <reef/codec/chain.hpp>
#include <reef/codec/chunk_top_k.hpp>
#include <reef/codec/error_feedback.hpp>
#include <reef/codec/two_bit.hpp>
#include <reef/optim/adamw.hpp>
#include <reef/optim/diloco.hpp>
#include <reef/optim/sgd.hpp>

#include "recipe.hpp"

namespace reef_examples {

using namespace reef;

using Differences = compress::PseudoGradient<codec::ErrorFeedback<codec::Chain<codec::ChunkTopK, codec::TwoBit>>>;

const Recipe recipe_diloco = recipe_of<optim::DiLoCo<optim::AdamW>>;
const Recipe recipe_sparse = recipe_of<optim::DiLoCo<optim::AdamW, optim::Sgd>, compress::Channels<Differences>>;

}  // namespace reef_examples
