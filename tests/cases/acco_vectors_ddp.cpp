#include <reef/optim/ddp.hpp>

#include "acco_vectors.hpp"

namespace reef::test {

void follow_ddp(const Vectors& vectors, const io::Json& test) {
  follow_with<optim::Ddp>(vectors, test);
}

}  // namespace reef::test
