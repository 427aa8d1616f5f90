#include <reef/optim/zero1.hpp>

#include "acco_vectors.hpp"

namespace reef::test {

void follow_zero1(const Vectors& vectors, const io::Json& test) {
  follow_with<optim::Zero1>(vectors, test);
}

}  // namespace reef::test
