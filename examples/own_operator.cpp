// Purpose  An operator of one's own in a graph: Swish with a learned slope, y = x sigmoid(b x): one
//          struct that says its shapes, forward and backward, for any element type.
// Command  build/release/examples/own-operator
// Output   y[3] = 1.762
//          d y[3] / d slope: backward 0.41997, differences 0.41997
// links: reef::core
// prints: y[3] = 1.762
// prints: backward 0.41997, differences 0.41997
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <exception>
#include <string_view>
#include <type_traits>
#include <vector>

#include <reef/device/host.hpp>
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
  const int in = g.input("x", {{1, 4}, Element::float64});
  const int out = g.add("swish", Swish{}, {in})[0];

  const graph::Segment all = graph::plan_segment(g.dag());
  std::vector<double> x = {-1, -0.5, 0.5, 2}, y(4), dy(4, 1.0), slope(4, 1.0), d_slope(4);
  graph::SegmentBindings memory(g.dag());
  memory.tensor(in) = x.data();
  memory.tensor(out) = y.data();
  memory.gradient(out) = dy.data();
  memory.parameter(0) = slope.data();
  memory.use(0) = d_slope.data();

  device::Host::Lane lane(host, "compute");
  const auto run = [&](auto step) { return lane.submit(step), lane.synchronize(), y[3]; };
  const auto forward = [&](auto& own) { g.forward(all, memory, own, {}, graph::Forward::keeps); };
  std::printf("y[3] = %.3f\n", run(forward));
  run([&](auto& own) { g.backward(all, memory, own, {}, false); });
  const auto moved = [&](double to) { return slope[3] = to, run(forward); };
  const double numeric = (moved(1 + 1e-5) - moved(1 - 1e-5)) / 2e-5;
  std::printf("d y[3] / d slope: backward %.5f, differences %.5f\n", d_slope[3], numeric);
  return std::abs(d_slope[3] - numeric) < 1e-8 ? 0 : 1;
} catch (const std::exception& error) {
  std::fprintf(stderr, "own-operator: %s\n", error.what());
  return 1;
}
