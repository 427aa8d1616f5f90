// Purpose  An operator of one's own in a graph: Swish with a learned slope, y = x sigmoid(b x): one
//          struct that says its shapes, forward and backward, for any element type; and the proof that
//          backward is the derivative of forward.
// Command  build/release/examples/own-operator
// Output   16 gradients are those of differences: yes
// links: reef::core
// prints: 16 gradients are those of differences: yes
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <exception>
#include <string_view>
#include <type_traits>

#include <reef/device/host.hpp>
#include <reef/graph/check_gradients.hpp>
#include <reef/graph/graph.hpp>

struct Swish {
  static constexpr std::string_view kind = "Swish";

  reef::graph::Signature signature(const auto& call) const {
    call.expect_inputs(1);
    reef::graph::Signature result;
    result.outputs = {call.inputs[0]};
    const reef::Shape slope{call.inputs[0].shape.last()};
    result.parameters = {{"slope", slope, reef::graph::Init::ones(), false}};
    return result;
  }

  void forward(const auto& call) const {
    const auto x = call.input(0).span(), b = call.parameter(0).span();
    const auto y = call.output(0).span();
    using T = typename std::remove_cvref_t<decltype(call)>::element_type;
    for (std::size_t i = 0; i < x.size(); ++i) y[i] = T(x[i] * sigmoid(b[i % b.size()] * x[i]));
  }

  void backward(const auto& call) const {
    const auto x = call.input(0).span(), b = call.parameter(0).span();
    const auto dy = call.output_gradient(0).span();
    const auto db = call.parameter_gradient(0).span();
    using T = typename std::remove_cvref_t<decltype(call)>::element_type;
    if (!call.accumulate_parameters) std::fill(db.begin(), db.end(), 0);
    for (std::size_t i = 0; i < x.size(); ++i) {
      const std::size_t c = i % b.size();
      const auto s = sigmoid(b[c] * x[i]);
      db[c] += dy[i] * x[i] * x[i] * s * (1 - s);
      if (!call.wants(0)) continue;
      auto& dx = call.input_gradient(0).data()[i];
      const auto d = dy[i] * (s + b[c] * x[i] * s * (1 - s));
      dx = T(call.accumulates(0) ? dx + d : d);
    }
  }

  static auto sigmoid(auto x) { return 1 / (1 + std::exp(-x)); }
};

int main() try {
  using namespace reef;
  device::Host host;
  graph::Graph<device::Host, double> g;
  const int in = g.input("x", {{3, 4}, Element::float64}, true);
  g.add("swish", Swish{}, {in});

  const graph::GradientCheck worst = graph::check_gradients(host, g);
  std::printf("%lld gradients are those of differences: %s\n", static_cast<long long>(worst.compared), worst ? "yes" : "no");
  if (!worst) std::printf("%s\n", worst.text().c_str());
  return worst ? 0 : 1;
} catch (const std::exception& error) {
  std::fprintf(stderr, "own-operator: %s\n", error.what());
  return 1;
}
