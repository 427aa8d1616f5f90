#include <reef/optim/acco.hpp>
#include <reef/optim/acco_wp.hpp>
#include <reef/optim/adamw.hpp>
#include <reef/optim/ddp.hpp>
#include <reef/optim/dpu.hpp>
#include <reef/optim/zero1.hpp>

#include "recipe.hpp"

namespace reef_examples {

using namespace reef;

const Recipe recipe_ddp = recipe_of<optim::Ddp<optim::AdamW>, AnyCodec>;
const Recipe recipe_zero1 = recipe_of<optim::Zero1<optim::AdamW>, AnyCodec>;
const Recipe recipe_dpu = recipe_of<optim::Dpu<optim::AdamW>>;
const Recipe recipe_acco_wp = recipe_of<optim::AccoWp<optim::AdamW>>;
const Recipe recipe_acco = recipe_of<optim::Acco<optim::AdamW>, AnyCodec>;

}  // namespace reef_examples
