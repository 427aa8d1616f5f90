#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <reef/core/error.hpp>
#include <reef/device/concept.hpp>
#include <reef/device/cores.hpp>
#include <reef/graph/bindings.hpp>
#include <reef/graph/dag.hpp>
#include <reef/graph/detail/add_to.hpp>
#include <reef/graph/detail/binding_checks.hpp>
#include <reef/graph/detail/node_views.hpp>
#include <reef/graph/detail/stored_operator.hpp>
#include <reef/graph/operator.hpp>
#include <reef/graph/segment.hpp>

namespace reef {
inline namespace v0 {
namespace graph {

/// A model: the graph of operators and tensors that planners read (Dag), and the code of the operators on one kind of
/// device.
///
///     backward: d(t) = sum over consumers c of t, in reverse topological order, of J_c^T d(outputs of c); J: Jacobian
///
/// | build    | by input(), add() and loss(); a node reads only tensors that exist, so no cycle       |
/// | run      | forward() and backward() of a Segment, inside a function submitted to the queue       |
/// | state    | none: one Graph serves any number of queues and micro-batches at once                 |
/// | bits     | depend on the segment's inputs and the key; not on cuts, threads, or memory addresses |
/// | errors   | ShapeError while building, with the graph unchanged; OptionError for incomplete       |
/// |          | bindings, before any operator runs; OperatorError for what an operator throws         |
///
/// \code
/// #include <reef/nn/cross_entropy.hpp>
/// #include <reef/nn/linear.hpp>
/// graph::Graph<device::Host, float> g;
/// const int x = g.input("x", {{32, 784}, Element::float32});
/// const int labels = g.input("labels", {{32}, Element::int32});
/// const int logits = g.add("fc", nn::Linear{.features = 10}, {x})[0];
/// g.loss(g.add("loss", nn::CrossEntropy{}, {logits, labels})[0]);
/// \endcode
template <device::device Device, real T>
class Graph {
public:
  using device_type = Device;
  using element_type = T;
  using Lane = typename Device::Lane;
  using Ref = int;

  /// Constructs an empty graph. `threads` is the largest number of threads that a kernel may use; scratch memory is
  /// planned for it. A Trainer on a device with more threads trains the graph that serving(threads) returns.
  explicit Graph(int threads = device::available_cores()) : threads_(threads) {
    dag_.element = element_of<T>;
  }

  Ref input(std::string name, TensorSpec spec, bool differentiable = false) {
    return dag_.add_input(std::move(name), spec, differentiable);
  }

  /// Adds a node that applies the operator, after all others; returns the ids of its outputs. Names: see Dag::add_node.
  template <operator_for<Device, T> Op>
  std::vector<Ref> add(std::string name, Op op, std::vector<Ref> inputs,
                       std::vector<std::string> parameter_names = {}) {
    return add_stored(std::move(name), std::make_shared<const detail::StoredOperator<Op, Device, T>>(std::move(op)),
                      std::move(inputs), std::move(parameter_names));
  }

  /// Adds a node with the operator of another graph's node, and the names of that node, its outputs and its parameters;
  /// returns the ids of its outputs. Throws ShapeError if the operator does not accept these inputs.
  std::vector<Ref> add_copy(const Graph& other, int node, std::vector<Ref> inputs);

  /// Returns the signature (outputs, saved tensors, ...) that the operator would have as a node of that name, applied
  /// to these tensors; the graph is unchanged.
  template <operator_for<Device, T> Op>
  [[nodiscard]] Signature signature(std::string_view name, const Op& op, const std::vector<Ref>& inputs) const {
    return signature_of(name, Op::kind, inputs,
                        [&op](const SignatureCall<Device, T>& call) { return op.signature(call); });
  }

  /// Declares that a scalar tensor, which no node may read, is the loss, from which backward starts.
  void loss(Ref scalar) { dag_.set_loss(scalar); }

  void rename(Ref tensor, std::string name) { dag_.rename(tensor, std::move(name)); }

  /// Sets a parameter's initialisation, in place of what its operator declares. Throws ShapeError for a parameter that
  /// does not exist, and OptionError for a negative or infinite standard deviation.
  void initialise(std::string_view parameter, Init init) { dag_.initialise(parameter, std::move(init)); }

  /// Freezes the parameters whose names match the pattern (* for any characters, ? for one): they have no gradient, and
  /// no optimizer updates them. Throws OptionError if no name matches.
  void freeze(std::string_view pattern) { dag_.freeze(pattern); }
  /// Freezes the parameters with these ids: they keep their values in training.
  void freeze(std::span<const int> parameters) { dag_.freeze(parameters); }

  [[nodiscard]] const Dag& dag() const& { return dag_; }
  [[nodiscard]] Dag dag() const&& { return dag_; }

  /// Returns the operator of a node, or null if its type is not Op.
  template <class Op>
  [[nodiscard]] const Op* operator_as(int node) const& {
    const auto* const stored = dynamic_cast<const detail::StoredOperator<Op, Device, T>*>(
        operators_[static_cast<std::size_t>(node)].get());
    return stored == nullptr ? nullptr : &stored->op();
  }
  template <class Op>
  void operator_as(int) const&& = delete;
  [[nodiscard]] int threads() const { return threads_; }

  /// Returns a copy of the graph for a device of `threads` threads. If these are more than threads(), the copy plans
  /// the scratch memory that kernels then need.
  [[nodiscard]] Graph serving(int threads) const;

  /// Returns a copy of the model with inputs of other shapes, one spec for each input in order; nodes, names and
  /// parameters stay the same, and keep their ids. Throws ShapeError if an operator does not accept its new inputs, or
  /// a parameter's shape would change.
  [[nodiscard]] Graph with_inputs(std::span<const TensorSpec> inputs) const;

  /// Returns a copy of the model with other operators at some nodes, by node id: inputs, names and ids of nodes and
  /// tensors stay the same, and so do parameters that both operators call by one name. Throws ShapeError if a new
  /// operator does not accept the node's inputs or has another number of outputs.
  template <operator_for<Device, T> Op>
  [[nodiscard]] Graph with_operators(const std::map<int, Op>& others) const;

  /// Returns true if a node's operator is row_wise, computing each row independently of all others.
  [[nodiscard]] bool by_rows(int node) const { return operators_[static_cast<std::size_t>(node)]->by_rows(); }

  /// Enqueues the forward of one node. Throws an OperatorError that contains the error which the operator throws.
  void run_forward(int node, const ForwardCall<Device, T>& call) const {
    run_node(node, "forward", [&](const auto& op) { op.forward(call); });
  }

  /// Returns the bytes of scratch memory of each node's forward, and then of its backward: two entries for each node.
  [[nodiscard]] std::vector<Bytes> workspaces() const {
    std::vector<Bytes> bytes;
    for (const Node& node : dag_.nodes) {
      bytes.push_back(node.signature.forward_workspace);
      bytes.push_back(node.signature.backward_workspace);
    }
    return bytes;
  }

  /// Enlarges the workspaces to at least these sizes, in the order of workspaces(), so that ranks with different
  /// numbers of threads plan the same memory. Throws OptionError, and changes nothing, unless there are two sizes for
  /// each node.
  void enlarge_workspaces(std::span<const Bytes> bytes);

  /// Enqueues the forward of the nodes of a segment, in order.
  void forward(const Segment& segment, const SegmentBindings& bindings, Lane& lane, DrawKey key,
               Forward forward) const;

  /// Enqueues the backward of the nodes of a segment, last node first, after a forward with the same key that kept its
  /// values (Forward::keeps). Adds to the gradients of parameters if `accumulate_parameters`; else overwrites them, as
  /// for a first micro-batch.
  ///
  /// If the segment splits, call the input half of its backward first and its weight half any time later, with the same
  /// saved and pending memory, `weight_half_reads` and `weight_half_gradients`. Both together give the same bits as one
  /// call.
  void backward(const Segment& segment, const SegmentBindings& bindings, Lane& lane, DrawKey key,
                bool accumulate_parameters, BackwardPart part = BackwardPart::all) const;

private:
  using Operators = std::vector<std::shared_ptr<const detail::AnyOperator<Device, T>>>;

  /// Builds the model's graph again with inputs of these shapes and these operators.
  [[nodiscard]] Graph made_of(std::span<const TensorSpec> inputs, Operators operators) const;

  /// Adds a node as add() does. The code that does not depend on the operator's type is here, so that it is compiled
  /// once.
  std::vector<Ref> add_stored(std::string name, std::shared_ptr<const detail::AnyOperator<Device, T>> stored,
                              std::vector<Ref> inputs, std::vector<std::string> parameter_names);

  using AskSignature = std::function<Signature(const SignatureCall<Device, T>&)>;

  /// Returns the signature (outputs, saved tensors, ...) that `ask` gives for a node with this name; an error about
  /// shapes names the node.
  [[nodiscard]] Signature signature_of(std::string_view name, std::string_view kind, const std::vector<Ref>& inputs,
                                       const AskSignature& ask) const;

  /// Calls an operator's function, and rethrows an error from it as an OperatorError that names the node.
  template <class F>
  void run_node(int n, std::string_view what, const F& function) const {
    const auto failed = [&](const std::exception_ptr& cause, const char* said) {
      const Node& node = dag_.node_at(n);
      return OperatorError(cause, "reef::graph: the ", what, " of the node '", node.name, "' of kind ",
                           node.kind, " has failed: ", said);
    };
    try {
      function(*operators_[static_cast<std::size_t>(n)]);
    } catch (const OperatorError& error) {
      throw failed(error.cause(), error.what());
    } catch (const std::exception& error) {
      throw failed(std::current_exception(), error.what());
    } catch (...) {
      throw failed(std::current_exception(), "it has thrown what is no std::exception.");
    }
  }

  void add_scratch(int n, const NodePlan& plan, const Segment& segment,
                   const SegmentBindings& bindings, Lane& lane, const detail::NodeViews& views) const {
    const Node& node = dag_.node_at(n);
    for (std::size_t i = 0; i < node.inputs.size(); ++i) {
      if (plan.input_gradient[i] != GradientWrite::scratch) continue;
      const Location& target = segment.gradient[static_cast<std::size_t>(node.inputs[i])];
      void* const sum = detail::address_of(target, bindings, bindings.gradients);
      const AnyView& source = views.input_gradients[i];
      if (source.element() == element_of<T>) {
        detail::AddTo<T>::run(lane, sum, source);
      } else {
        detail::AddTo<sum_t<T>>::run(lane, sum, source);
      }
    }
  }

  /// Sets the gradients of the parameters of a node to zero; called for a node on which no result depends.
  void clear_uses(int n, const SegmentBindings& bindings, Lane& lane) const {
    for (const int use : dag_.node_at(n).uses) {
      if (!dag_.trains_use(use)) continue;
      lane.fill_zero(bindings.uses[static_cast<std::size_t>(use)],
                     dag_.gradient_spec(dag_.parameter_at(dag_.use_at(use).parameter)).bytes());
    }
  }

  int threads_;
  Dag dag_;
  Operators operators_;
};

template <device::device Device, real T>
auto Graph<Device, T>::add_stored(std::string name, std::shared_ptr<const detail::AnyOperator<Device, T>> stored,
                                  std::vector<Ref> inputs, std::vector<std::string> parameter_names)
    -> std::vector<Ref> {
  Signature signature = signature_of(name, stored->kind(), inputs, [&stored](const SignatureCall<Device, T>& call) {
    return stored->signature(call);
  });
  if (operators_.size() == operators_.capacity()) operators_.reserve(2 * operators_.size() + 1);
  const int node = dag_.add_node(std::move(name), std::string(stored->kind()), std::move(inputs),
                                 std::move(signature), std::move(parameter_names));
  operators_.push_back(std::move(stored));
  return dag_.node_at(node).outputs;
}

template <device::device Device, real T>
Signature Graph<Device, T>::signature_of(std::string_view name, std::string_view kind, const std::vector<Ref>& inputs,
                                         const AskSignature& ask) const {
  std::vector<TensorSpec> specs;
  std::vector<std::string_view> names;
  for (const Ref input : inputs) {
    if (input < 0 || input >= static_cast<Ref>(dag_.tensors.size())) {
      throw ShapeError("reef::graph: the node '", name, "' reads the tensor ", input,
                       ", but the graph has ", dag_.tensors.size(),
                       ".\n  fix: what input() or add() of this graph gave.");
    }
    specs.push_back(dag_.tensor_at(input).spec);
    names.emplace_back(dag_.tensor_at(input).name);
  }
  const SignatureCall<Device, T> call{name, kind, specs, names, threads_};
  try {
    return ask(call);
  } catch (const ShapeError& error) {
    if (std::string_view(error.what()).rfind("reef::Shape", 0) != 0) throw;
    throw ShapeError("reef::graph: the node '", call.node, "' of kind ", call.kind,
                     " has no shape for a tensor or parameter: ", error.what(),
                     "\n  fix: numbers of the operator that fit its inputs.");
  }
}

template <device::device Device, real T>
Graph<Device, T> Graph<Device, T>::serving(int threads) const {
  Graph result = *this;
  if (threads <= threads_) return result;
  result.threads_ = threads;
  for (std::size_t n = 0; n < dag_.nodes.size(); ++n) {
    const Node& node = dag_.nodes[n];
    std::vector<TensorSpec> specs;
    std::vector<std::string_view> names;
    for (const int input : node.inputs) {
      specs.push_back(dag_.tensor_at(input).spec);
      names.emplace_back(dag_.tensor_at(input).name);
    }
    const Signature more = operators_[n]->signature({node.name, node.kind, specs, names, threads});
    Signature& own = result.dag_.nodes[n].signature;
    own.forward_workspace = (std::max)(own.forward_workspace, more.forward_workspace);
    own.backward_workspace = (std::max)(own.backward_workspace, more.backward_workspace);
  }
  return result;
}

template <device::device Device, real T>
void Graph<Device, T>::enlarge_workspaces(std::span<const Bytes> bytes) {
  if (bytes.size() != 2 * dag_.nodes.size()) {
    throw OptionError("reef::graph: ", bytes.size(), " sizes of workspaces for ",
                      dag_.nodes.size(),
                      " nodes.\n  fix: two a node, as workspaces() gives them.");
  }
  for (std::size_t n = 0; n < dag_.nodes.size(); ++n) {
    Signature& signature = dag_.nodes[n].signature;
    signature.forward_workspace = (std::max)(signature.forward_workspace, bytes[2 * n]);
    signature.backward_workspace = (std::max)(signature.backward_workspace, bytes[2 * n + 1]);
  }
}

template <device::device Device, real T>
void Graph<Device, T>::forward(const Segment& segment, const SegmentBindings& bindings, Lane& lane, DrawKey key,
             Forward forward) const {
  const bool keeps = forward == Forward::keeps || forward == Forward::recomputes;
  const bool recomputes = forward == Forward::recomputes;
  const bool training = forward != Forward::infers;
  const auto& locations = keeps ? segment.forward : segment.inference;
  detail::BindingChecks(dag_, segment, bindings, lane.threads(), threads_).forward(forward);
  detail::NodeViews views;
  for (int n = segment.first; n < segment.last; ++n) {
    const NodePlan& plan = segment.plan(n);
    if (recomputes && !plan.recomputed) continue;
    views.gather(dag_, n, locations, keeps ? plan.saved : plan.inference_saved, bindings);
    const Location& workspace = keeps ? plan.forward_workspace : plan.inference_workspace;
    key.op = static_cast<std::uint32_t>(n);
    const ForwardCall<Device, T> call{lane,
                                      views.inputs,
                                      views.outputs,
                                      views.parameters,
                                      views.saved,
                                      detail::address_of(workspace, bindings, bindings.tensors),
                                      key,
                                      training};
    run_forward(n, call);
  }
}

template <device::device Device, real T>
void Graph<Device, T>::backward(const Segment& segment, const SegmentBindings& bindings, Lane& lane, DrawKey key,
              bool accumulate_parameters, BackwardPart part) const {
  detail::BindingChecks(dag_, segment, bindings, lane.threads(), threads_).backward(part);
  const bool weights = part == BackwardPart::weight;
  detail::NodeViews views;
  for (int n = segment.last - 1; n >= segment.first; --n) {
    const NodePlan& plan = segment.plan(n);
    if (!plan.active) {
      if (!accumulate_parameters && part != BackwardPart::input) clear_uses(n, bindings, lane);
      continue;
    }
    const BackwardPart of_node = !segment.splits ? BackwardPart::all
                                 : weights       ? plan.in_weight_half
                                                 : plan.in_input_half;
    if (of_node == BackwardPart::none) continue;
    views.gather(dag_, n, segment.forward, plan.saved, bindings);
    views.gather_gradients(dag_, n, segment, bindings);
    for (std::size_t i = 0; i < plan.zero_gradient.size() && of_node != BackwardPart::weight; ++i) {
      const AnyView& gradient = views.output_gradients[i];
      if (plan.zero_gradient[i] && gradient) lane.fill_zero(gradient.data(), gradient.bytes());
    }
    key.op = static_cast<std::uint32_t>(n);
    const BackwardCall<Device, T> call{lane,
                                       views.inputs,
                                       views.outputs,
                                       views.parameters,
                                       views.saved,
                                       views.output_gradients,
                                       views.input_gradients,
                                       plan.input_gradient,
                                       views.parameter_gradients,
                                       accumulate_parameters,
                                       detail::address_of(weights ? plan.weight_workspace : plan.backward_workspace,
                                                          bindings, bindings.tensors),
                                       key,
                                       of_node,
                                       dag_.trains(dag_.node_at(n))};
    run_node(n, "backward", [&](const auto& op) { op.backward(call); });
    if (!weights) add_scratch(n, plan, segment, bindings, lane, views);
  }
}

}  // namespace graph
}  // namespace v0
}  // namespace reef

#include <reef/graph/detail/graph_made_anew.hpp>
