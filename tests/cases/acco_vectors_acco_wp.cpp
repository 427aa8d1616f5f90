#include <reef/optim/acco_wp.hpp>

#include "acco_vectors.hpp"

namespace reef::test {

void follow_acco_wp(const Vectors& vectors, const io::Json& test) {
  follow_with<optim::AccoWp>(vectors, test);
}

}  // namespace reef::test
