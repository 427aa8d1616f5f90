// Purpose  Step 2 of docs/tutorial.md: the backward of an operator of one's own is held against differences of its forward.
// Command  build/release/examples/tutorial-gradients
// links: reef::reef
// prints: of the operator: 35 gradients are right
// prints: of a model with it: 1664 gradients are right
#include <cstdio>
#include <exception>

#include <reef/graph/check_gradients.hpp>

#include "support/tutorial.hpp"

using namespace reef;

int main() try {
  device::Host host;
  const auto check = [&](const char* what, const graph::Graph<device::Host, double>& g) {
    const graph::GradientCheck worst = graph::check_gradients(host, g);
    std::printf("of %s: %lld gradients are %s\n", what, static_cast<long long>(worst.compared),
                worst ? "right" : worst.text().c_str());
    return worst.passed();
  };
  graph::Graph<device::Host, double> alone;
  alone.add("norm", tutorial::RmsNorm{}, {alone.input("x", {{4, 7}, Element::float64}, true)});
  return check("the operator", alone) &
                 check("a model with it", tutorial::model<double>(1, 8, 1, 4))
             ? 0
             : 1;
} catch (const std::exception& error) {
  std::fprintf(stderr, "tutorial-gradients: %s\n", error.what());
  return 1;
}
