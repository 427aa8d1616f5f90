#include <reef/optim/dpu.hpp>

#include "acco_vectors.hpp"

namespace reef::test {

template <class Rule>
struct DpuFromTheStart : optim::Dpu<Rule, 0> {};

void follow_dpu_w0(const Vectors& vectors, const io::Json& test) {
  follow_with<DpuFromTheStart>(vectors, test);
}

}  // namespace reef::test
