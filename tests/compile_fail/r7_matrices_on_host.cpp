// expect: reef R7: this rule needs whole matrices, but this device is not on the host

#include <reef/optim/adamw.hpp>
#include <reef/optim/ddp.hpp>
#include <reef/optim/muon.hpp>
#include <reef/trainer/rules.hpp>

struct Far {  // such a device needs nvcc
  static constexpr bool on_host = false;
};

#ifdef FIXED
using Rule = reef::optim::AdamW;
#else
using Rule = reef::optim::Muon;
#endif

static_assert(reef::rules::matrices_on_host<Far, reef::optim::Ddp<Rule>>, REEF_R7_MATRICES_ON_HOST);
