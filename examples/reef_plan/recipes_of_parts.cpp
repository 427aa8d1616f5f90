#include <reef/optim/acco.hpp>
#include <reef/optim/adamw.hpp>
#include <reef/optim/ddp.hpp>
#include <reef/optim/zero1.hpp>
#include <reef/pipeline/ordered.hpp>
#include <reef/swap/atom.hpp>

#include "recipe.hpp"

namespace reef_examples {

using namespace reef;

const Recipe recipe_atom = recipe_of<swap::Atom<>, optim::Ddp<optim::AdamW>>;
const Recipe recipe_dtfm = recipe_of<pipeline::Ordered, optim::Zero1<optim::AdamW>, AnyCodec>;
const Recipe recipe_reef = recipe_of<swap::Atom<>, pipeline::Ordered, AnyCodec, optim::Acco<optim::AdamW>>;

}  // namespace reef_examples
