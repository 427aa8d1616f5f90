// Purpose  A model as data: a file that names operators, one of them one's own, becomes a graph; on two
//          ranks, what each holds, receives and sends; and the graph as a file again.
// Command  build/release/examples/graph-file
// Output   rank 1: 2 operators, 0 B of parameters
//            receives squares (4, 3) fp32 from rank 0, 48 B
// links: reef::core
// prints: rank 1: 2 operators, 0 B of parameters
// prints: receives squares (4, 3) fp32 from rank 0, 48 B
// prints: {"name":"squares","kind":"Power","inputs":["scores"],"attributes":{"exponent":2}}
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <exception>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

#include <reef/graph/graph_json.hpp>
#include <reef/graph/sub_dags.hpp>
#include <reef/nn/host.hpp>
#include <reef/nn/registry.hpp>

/// out = in^exponent.
struct Power {
  static constexpr std::string_view kind = "Power";
  std::int64_t exponent = 1;

  static constexpr auto attributes() {  // what a file gives
    return std::tuple(reef::graph::required_attribute("exponent", &Power::exponent, "of each element"));
  }

  reef::graph::Signature signature(const auto& call) const {
    call.expect_inputs(1);
    reef::graph::Signature result;
    result.attributes = reef::concat("exponent ", exponent);  // what ranks and checkpoints compare
    result.outputs = {call.inputs[0]};
    return result;
  }
  void forward(const auto& call) const {
    const auto x = call.input(0).span();
    const auto y = call.output(0).span();
    for (std::size_t i = 0; i < x.size(); ++i) y[i] = std::pow(x[i], static_cast<float>(exponent));
  }
  void backward(const auto& call) const {
    const auto x = call.input(0).span(), dy = call.output_gradient(0).span();
    const auto dx = call.input_gradient(0).span();
    const auto n = static_cast<float>(exponent);
    for (std::size_t i = 0; i < x.size(); ++i) {
      dx[i] = (call.accumulates(0) ? dx[i] : 0) + dy[i] * n * std::pow(x[i], n - 1);
    }
  }
};

constexpr std::string_view file = R"({
  "inputs": [{"name": "x", "shape": [4, 8]}, {"name": "labels", "shape": [4], "element": "int32"}],
  "nodes": [
    {"name": "scores", "kind": "Linear", "inputs": ["x"], "attributes": {"features": 3}},
    {"name": "squares", "kind": "Power", "inputs": ["scores"], "attributes": {"exponent": 2}},
    {"name": "act", "kind": "Gelu", "inputs": ["squares"]},
    {"name": "loss", "kind": "CrossEntropy", "inputs": ["act", "labels"]}],
  "loss": "loss"})";

int main() try {
  using namespace reef;
  auto registry = nn::registry<device::Host, float>();
  registry.add<Power>();
  const auto model = graph::from_json(io::parse_json(file, "the example"), "the example", registry);
  const graph::Dag& dag = model.graph.dag();
  std::printf("%s", graph::text_of_sub_dags(dag, graph::sub_dags(dag, std::vector<int>{0, 0, 1, 1}, 2)).c_str());
  std::printf("%s", graph::text_of_model(graph::to_json(model.graph, registry)).c_str());
} catch (const std::exception& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return 1;
}
