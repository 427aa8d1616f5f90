// A graph with one libtorch module, of an installed copy: that needs no MPI.

#include <cstdio>

#include <reef/core/version.hpp>
#include <reef/graph/graph.hpp>
#include <reef/torch/module.hpp>

int main() {
  reef::graph::Graph<reef::device::Host, float> g(1);
  const int x = g.input("x", {{2, 3, 7}, reef::Element::float32});
  const int y = g.add("linear", reef::torch::Module(torch::nn::Linear(7, 4)), {x})[0];
  const reef::Shape shape = g.dag().tensor_at(y).spec.shape;
  std::printf("reef %s: %s holds %lld elements\n", reef::version, shape.text().c_str(), static_cast<long long>(shape.size()));
}
