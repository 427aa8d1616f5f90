#pragma once

#include <cmath>
#include <cstddef>
#include <string>
#include <vector>

#include <reef/core/shape.hpp>
#include <reef/device/host.hpp>
#include <reef/graph/graph.hpp>

#include "../laws/graph_runner.hpp"

/// An operator alone in a graph of doubles, for tests that compare it with its formula.
namespace reef::test {

using Numbers = std::vector<double>;

inline graph::TensorSpec fp64(Shape shape) { return {shape, Element::float64}; }

/// The output of an operator alone, of inputs made by a formula.
struct Outputs {
  Numbers out;
  std::vector<Numbers> in;
};
inline Outputs run_alone(const auto& op, const std::vector<Shape>& shapes, int threads = 2) {
  device::Host device({.threads = threads});
  graph::Graph<device::Host, double> g(threads);
  std::vector<int> refs;
  for (const Shape& shape : shapes)
    refs.push_back(g.input("in" + std::to_string(refs.size()), fp64(shape), true));
  const int out = g.add("op", op, refs)[0];
  GraphRunner<device::Host, double> runner(device, g);
  Outputs run;
  for (std::size_t i = 0; i < refs.size(); ++i) {
    Numbers values(static_cast<std::size_t>(shapes[i].size()));
    for (std::size_t j = 0; j < values.size(); ++j)
      values[j] = std::sin(0.7 * static_cast<double>(j * (i + 2)) + static_cast<double>(i));
    runner.set(refs[i], values);
    run.in.push_back(values);
  }
  for (const graph::Parameter& parameter : g.dag().parameters) {
    Numbers values(static_cast<std::size_t>(parameter.spec.shape.size()));
    for (std::size_t j = 0; j < values.size(); ++j) values[j] = 1 + 0.1 * static_cast<double>(j);
    runner.set_parameter(g.dag().parameter(parameter.name), values);
  }
  runner.forward();
  run.out = runner.value(out);
  return run;
}

}  // namespace reef::test
