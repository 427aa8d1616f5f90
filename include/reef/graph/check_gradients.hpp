#pragma once

#include <algorithm>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <reef/core/text.hpp>
#include <reef/device/host.hpp>
#include <reef/graph/detail/gradient_checker.hpp>
#include <reef/graph/gradient_check.hpp>
#include <reef/graph/graph.hpp>

namespace reef {
inline namespace v0 {
namespace graph {

namespace detail {

/// An operator that copies its input to its output: check_operator() adds it, so that the input's tensor has one more
/// reader.
struct PassedOn {
  static constexpr std::string_view kind = "PassedOn";

  static Signature signature(const auto& call) {
    Signature result;
    result.outputs = {call.inputs[0]};
    result.backward_reads_inputs = false;
    return result;
  }
  static void forward(const auto& call) { std::ranges::copy(call.input(0).span(), call.output(0).data()); }
  static void backward(const auto& call) {
    if (!call.wants(0)) return;
    const auto from = call.output_gradient(0).span(), to = call.input_gradient(0).span();
    for (std::size_t i = 0; i < to.size(); ++i) to[i] = call.accumulates(0) ? to[i] + from[i] : from[i];
  }
};

/// Checks an operator's gradients in a graph in which the gradient of the input `unwanted` is not wanted; if `shared`,
/// each of the other inputs has one more reader. Returns a check without entries if no gradient is left to compare.
template <class Op>
GradientCheck check_operator(const Op& op, const std::vector<TensorSpec>& inputs, const GradientCheckOptions& options,
                             std::size_t unwanted, bool shared) {
  Graph<device::Host, double> graph(1);
  std::vector<int> given;
  bool has_gradients = false;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    const bool wanted = i != unwanted && inputs[i].element != Element::int32;
    given.push_back(graph.input(concat("input ", i), inputs[i], wanted));
    has_gradients = has_gradients || wanted;
  }
  graph.add(std::string(Op::kind), op, given);
  for (std::size_t i = 0; shared && i < inputs.size(); ++i) {
    if (inputs[i].element != Element::int32) graph.add(concat("reader ", i), PassedOn{}, {given[i]});
  }
  if (unwanted < inputs.size() && !has_gradients && graph.dag().parameters.empty()) return {};
  device::Host host({.threads = 1});
  options.validate();
  return GradientChecker<device::Host, double>(host, graph, options).run();
}

}  // namespace detail

/// Checks that a graph's backward is the derivative of its forward: compares the gradients of all parameters, and of
/// differentiable inputs, with central differences of a random sum of the results, at a random point.
///
///     error = |backward - differences| / greatest |differences| of the tensor
///
/// | tolerance | fp64: 1e-6 (a correct backward has an error near 1e-9). fp32: 5e-3, since differences have 2 to 3 |
/// |           | digits: if the operators are templates, check a graph of double instead. A graph of bf16 does not |
/// |           | compile                                                                                           |
/// | finds     | also elements not written, and values read that the signature does not ask for, both NaN; writes  |
/// |           | behind a tensor                                                                                   |
/// | adds      | the gradients of parameters are compared once more after a second micro-batch, which adds to them |
/// | kinks     | an entry within 2 h of a kink (ReLU at 0) shows an error: set another seed, or a smaller step     |
/// | dropout   | all forwards use the same random draws                                                            |
/// | cost      | 4 forwards for each entry                                                                         |
/// | errors    | OptionError for invalid options, or a graph without gradients; ShapeError for a write within 256  |
/// |           | bytes behind a tensor; the errors that operators throw                                            |
///
/// \code
/// #include <cstdio>
/// #include <reef/nn/linear.hpp>
/// const auto found = graph::check_gradients(nn::Linear{.features = 7}, {{{3, 5}, Element::float64}});
/// if (!found) std::printf("%s\n", found.text().c_str());
/// \endcode
template <device::device Device, std::floating_point T>
GradientCheck check_gradients(Device& device, const Graph<Device, T>& graph,
                              const GradientCheckOptions& options = {}) {
  options.validate();
  return detail::GradientChecker<Device, T>(device, graph, options).run();
}

/// Checks the gradients of a single operator, on the host in fp64, with inputs of the given specs (fp64 or int32).
///
/// The operator is checked alone, then in a graph with other readers of its inputs, to whose gradients it adds, and
/// then once for each input without the gradient of that input. Returns the first check that fails, or else the one
/// with the greatest error.
template <operator_for<device::Host, double> Op>
GradientCheck check_gradients(const Op& op, const std::vector<TensorSpec>& inputs,
                              const GradientCheckOptions& options = {}) {
  GradientCheck worst = detail::check_operator(op, inputs, options, inputs.size(), false);
  std::int64_t compared = worst.compared;
  const auto check_where = [&](std::size_t unwanted, bool shared, const std::string& where) {
    if (!worst.passed()) return;
    GradientCheck found = detail::check_operator(op, inputs, options, unwanted, shared);
    compared += found.compared;
    found.where = where;
    if (found.error > worst.error) worst = std::move(found);
  };
  check_where(inputs.size(), true, "where others read its inputs too");
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    if (inputs[i].element != Element::int32)
      check_where(i, false, concat("where nobody wants the gradient of 'input ", i, "'"));
  }
  worst.compared = compared;
  return worst;
}

}  // namespace graph
}  // namespace v0
}  // namespace reef
