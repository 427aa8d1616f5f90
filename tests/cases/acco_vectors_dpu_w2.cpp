#include <reef/optim/dpu.hpp>

#include "acco_vectors.hpp"

namespace reef::test {

template <class Rule>
struct DpuAfterTwoSteps : optim::Dpu<Rule, 2> {};

void follow_dpu_w2(const Vectors& vectors, const io::Json& test) {
  follow_with<DpuAfterTwoSteps>(vectors, test);
}

}  // namespace reef::test
