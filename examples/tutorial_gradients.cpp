// Purpose  Step 2 of docs/tutorial.md: the backward of an operator of one's own is held against differences of its forward.
// Command  build/release/examples/tutorial-gradients
// links: reef::reef
// prints: of the operator: 77 gradients are right
// prints: of a model with it: 1664 gradients are right
#include <cstdio>
#include <exception>

#include <reef/graph/check_gradients.hpp>

#include "support/tutorial.hpp"

using namespace reef;

int main() try {
  const auto report = [](const char* what, const graph::GradientCheck& worst) {
    std::printf("of %s: %lld gradients are %s\n", what, static_cast<long long>(worst.compared),
                worst ? "right" : worst.text().c_str());
    return worst.passed();
  };
  device::Host host;
  const bool alone = report("the operator", graph::check_gradients(tutorial::RmsNorm{}, {{{4, 7}, Element::float64}}));
  const bool among = report("a model with it", graph::check_gradients(host, tutorial::model<double>(1, 8, 1, 4)));
  return alone && among ? 0 : 1;
} catch (const std::exception& error) {
  std::fprintf(stderr, "tutorial-gradients: %s\n", error.what());
  return 1;
}
