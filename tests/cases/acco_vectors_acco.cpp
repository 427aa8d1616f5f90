#include <reef/optim/acco.hpp>

#include "acco_vectors.hpp"

namespace reef::test {

void follow_acco(const Vectors& vectors, const io::Json& test) {
  follow_with<optim::Acco>(vectors, test);
}

}  // namespace reef::test
