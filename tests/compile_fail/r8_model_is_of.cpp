// expect: reef R8: this model is of other elements, or of another device, than the Trainer.

#include <reef/optim/adamw.hpp>
#include <reef/optim/ddp.hpp>
#include <reef/trainer/trainer.hpp>

using namespace reef;

#ifdef FIXED
using Trained = Trainer<optim::Ddp<optim::AdamW>, precision::Fp64>;
#else
using Trained = Trainer<optim::Ddp<optim::AdamW>>;
#endif

void train(const graph::Graph<device::Host, double>& model, const run::Source& source) {
  Trained trainer(model, source);
  trainer.step();
}
