// A model as a file: what is read is a graph, and is the same again when it is written and read.

#include <cstdint>

#include <reef/graph/graph_json.hpp>
#include <reef/graph/hash.hpp>
#include <reef/nn/host.hpp>
#include <reef/nn/registry.hpp>

#include "target.hpp"

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace reef;
  static const auto registry = nn::registry<device::Host, float>();
  fuzz::reads([&] {
    const io::Json json = io::parse_json(fuzz::text_of(data, size), "file.json");
    const auto model = graph::from_json(json, "file.json", registry, 1);
    const graph::Dag& dag = model.graph.dag();
    for (const graph::Tensor& tensor : dag.tensors) {
      fuzz::demand(tensor.spec.shape.size() <= graph::max_model_elements, "no tensor is larger than a file may have");
    }
    const std::string text = graph::text_of_model(graph::to_json(model.graph, registry, model.optimizers));
    const auto again = graph::from_json(io::parse_json(text, "again.json"), "again.json", registry, 1);
    fuzz::demand(graph::hash_of(again.graph.dag()) == graph::hash_of(dag), "what is written is read again");
    fuzz::demand(again.optimizers == model.optimizers, "and how it is trained");
  });
  return 0;
}
