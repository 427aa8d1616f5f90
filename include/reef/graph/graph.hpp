#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <reef/core/error.hpp>
#include <reef/device/concept.hpp>
#include <reef/device/cores.hpp>
#include <reef/device/detail/thread_pool.hpp>
#include <reef/device/for_each.hpp>
#include <reef/graph/bindings.hpp>
#include <reef/graph/dag.hpp>
#include <reef/graph/operator.hpp>
#include <reef/graph/segment.hpp>

namespace reef {
inline namespace v0 {
namespace graph {

namespace detail {

/// target[i] += source[i].
template <real T>
struct AddTo {
  T* target;
  const T* source;
  REEF_HOST_DEVICE void operator()(std::int64_t i) const { target[i] += source[i]; }

  template <class Lane>
  static void run(Lane& lane, void* target, const AnyView& source) {
    const TensorView<const T> from = source.as<const T>();
    for_each_index(lane, from.size(), AddTo{static_cast<T*>(target), from.data()});
  }
};

/// An operator whose type is known only where it was added.
template <class Device, real T>
class AnyOperator {
public:
  virtual ~AnyOperator() = default;
  [[nodiscard]] virtual Signature signature(const SignatureCall<Device, T>& call) const = 0;
  virtual void forward(const ForwardCall<Device, T>& call) const = 0;
  virtual void backward(const BackwardCall<Device, T>& call) const = 0;
};

template <class Op, class Device, real T>
class StoredOperator final : public AnyOperator<Device, T> {
public:
  explicit StoredOperator(Op op) : op_(std::move(op)) {}
  [[nodiscard]] const Op& op() const { return op_; }
  [[nodiscard]] Signature signature(const SignatureCall<Device, T>& call) const override { return op_.signature(call); }
  void forward(const ForwardCall<Device, T>& call) const override { op_.forward(call); }
  void backward(const BackwardCall<Device, T>& call) const override { op_.backward(call); }

private:
  Op op_;
};

}  // namespace detail

/// What a forward is for.
///
/// | keeps      | training: the values that the backward reads are kept, in the saved storage |
/// | drops      | training: nothing is kept, and a forward that `recomputes` comes before the |
/// |            | backward                                                                    |
/// | recomputes | computes these values once more, with the same key, and keeps them          |
/// | infers     | nothing is kept, and dropout does not drop                                  |
enum class Forward : std::uint8_t { keeps, drops, recomputes, infers };

/// A model: the Dag that planners read, and the code of its operators on one kind of device.
///
///     backward: d(t) = sum over consumers c of t, in reverse topological order, of J_c^T d(outputs of c)
///
/// | build    | input, add, loss; a node reads only what exists, so there is no cycle                 |
/// | run      | forward and backward of a Segment, inside a function submitted to the lane            |
/// | state    | none: one Graph serves any number of lanes and micro-batches at once                  |
/// | bits     | depend on the segment's inputs and the key; not on cuts, threads, or places in memory |
/// | errors   | ShapeError from building, the graph unchanged; OptionError for bindings that lack     |
/// |          | something, before any operator has run; OperatorError for what an operator throws      |
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

  /// `threads`: the most that a kernel may use, for which scratch memory is planned. A Trainer whose device has more trains
  /// serving() of these.
  explicit Graph(int threads = device::available_cores()) : threads_(threads) {
    dag_.element = element_of<T>;
  }

  Ref input(std::string name, TensorSpec spec, bool differentiable = false) {
    return dag_.add_input(std::move(name), spec, differentiable);
  }

  /// Applies the operator after all others; returns its outputs. Names: see Dag::add_node.
  template <operator_for<Device, T> Op>
  std::vector<Ref> add(std::string name, Op op, std::vector<Ref> inputs,
                       std::vector<std::string> parameter_names = {}) {
    Signature signature = this->signature(name, op, inputs);
    auto stored = std::make_shared<detail::StoredOperator<Op, Device, T>>(std::move(op));
    if (operators_.size() == operators_.capacity()) operators_.reserve(2 * operators_.size() + 1);
    const int node = dag_.add_node(std::move(name), std::string(Op::kind), std::move(inputs),
                                   std::move(signature), std::move(parameter_names));
    operators_.push_back(std::move(stored));
    return dag_.node_at(node).outputs;
  }

  /// What the operator says of itself as a node of that name behind these tensors; the graph is as it was.
  template <operator_for<Device, T> Op>
  [[nodiscard]] Signature signature(std::string_view name, const Op& op, const std::vector<Ref>& inputs) const {
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
    const SignatureCall<Device, T> call{name, Op::kind, specs, names, threads_};
    return signature_of(op, call);
  }

  /// The scalar that backward starts from. Nobody reads it.
  void loss(Ref scalar) { dag_.set_loss(scalar); }

  void rename(Ref tensor, std::string name) { dag_.rename(tensor, std::move(name)); }

  /// Lets a parameter begin otherwise than its operator says. Throws ShapeError for one that is not there, and
  /// OptionError for a deviation below 0 or not finite.
  void initialise(std::string_view parameter, Init init) { dag_.initialise(parameter, std::move(init)); }

  [[nodiscard]] const Dag& dag() const& { return dag_; }
  [[nodiscard]] Dag dag() const&& { return dag_; }

  /// The operator of a node, or null where it is no Op.
  template <class Op>
  [[nodiscard]] const Op* operator_as(int node) const& {
    const auto* const stored = dynamic_cast<const detail::StoredOperator<Op, Device, T>*>(
        operators_[static_cast<std::size_t>(node)].get());
    return stored == nullptr ? nullptr : &stored->op();
  }
  template <class Op>
  void operator_as(int) const&& = delete;
  [[nodiscard]] int threads() const { return threads_; }

  /// The same graph for a device of so many threads: where they are more, with as much scratch memory as kernels then need.
  [[nodiscard]] Graph serving(int threads) const;

  /// The bytes of scratch memory that each node's forward, and then its backward, has: two a node.
  [[nodiscard]] std::vector<Bytes> workspaces() const {
    std::vector<Bytes> bytes;
    for (const Node& node : dag_.nodes) {
      bytes.push_back(node.signature.forward_workspace);
      bytes.push_back(node.signature.backward_workspace);
    }
    return bytes;
  }

  /// Enlarges the workspaces to at least these sizes, so that ranks with different numbers of threads plan the
  /// same memory. Throws OptionError, and changes nothing, unless there are two sizes for each node.
  void enlarge_workspaces(std::span<const Bytes> bytes);

  /// Enqueues nodes [first, last) in order.
  void forward(const Segment& segment, const SegmentBindings& bindings, Lane& lane, DrawKey key,
               Forward forward) const;

  /// Enqueues the backward of nodes [first, last), last node first, after a forward that kept with the
  /// same key. Gradients of uses are added to, or overwritten: the first micro-batch.
  ///
  /// A segment that splits has its input half first, its weight half any time later, with the same saved
  /// and pending memory, `weight_half_reads` and `weight_half_gradients`. The bits are those of one call.
  void backward(const Segment& segment, const SegmentBindings& bindings, Lane& lane, DrawKey key,
                bool accumulate_parameters, BackwardPart part = BackwardPart::all) const;

private:
  /// A shape that cannot be is told with the node that it is for.
  template <class Op>
  static Signature signature_of(const Op& op, const SignatureCall<Device, T>& call) {
    try {
      return op.signature(call);
    } catch (const ShapeError& error) {
      if (std::string_view(error.what()).rfind("reef::Shape", 0) != 0) throw;
      throw ShapeError("reef::graph: the node '", call.node, "' of kind ", call.kind,
                       " has no shape for a tensor or parameter: ", error.what(),
                       "\n  fix: numbers of the operator that fit its inputs.");
    }
  }

  /// What is thrown is told with the node that it is of.
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

  /// The address of a location; `bound` is the table that it may name.
  static void* at(const Location& location, const SegmentBindings& bindings,
                  const std::vector<void*>& bound) {
    switch (location.place) {
      case Location::Place::none: return nullptr;
      case Location::Place::bound: return bound[static_cast<std::size_t>(location.tensor)];
      case Location::Place::saved: return static_cast<std::byte*>(bindings.saved) + location.offset;
      case Location::Place::pending:
        return static_cast<std::byte*>(bindings.pending) + location.offset;
      case Location::Place::workspace:
        return static_cast<std::byte*>(bindings.workspace) + location.offset;
    }
    return nullptr;
  }

  /// The views of one node's operands. Kept over the nodes of a call, so that it allocates once.
  struct Views {
    std::vector<AnyView> inputs, outputs, parameters, saved;
    std::vector<AnyView> output_gradients, input_gradients, parameter_gradients;

    void gather(const Dag& dag, int n, const std::vector<Location>& locations,
                const std::vector<Location>& saved_locations, const SegmentBindings& bindings) {
      const Node& node = dag.node_at(n);
      const auto values = [&](std::vector<AnyView>& views, const std::vector<int>& ids) {
        views.clear();
        for (const int id : ids) {
          const Location& location = locations[static_cast<std::size_t>(id)];
          views.push_back(view(at(location, bindings, bindings.tensors), dag.tensor_at(id).spec));
        }
      };
      values(inputs, node.inputs);
      values(outputs, node.outputs);
      parameters.clear();
      for (const int use : node.uses) {
        const int id = dag.use_at(use).parameter;
        parameters.push_back(
            view(bindings.parameters[static_cast<std::size_t>(id)], dag.parameter_at(id).spec));
      }
      saved.clear();
      for (std::size_t i = 0; i < node.signature.saved.size(); ++i) {
        saved.push_back(
            view(at(saved_locations[i], bindings, bindings.tensors), node.signature.saved[i]));
      }
    }

    void gather_gradients(const Dag& dag, int n, const Segment& segment,
                          const SegmentBindings& bindings) {
      const Node& node = dag.node_at(n);
      const NodePlan& plan = segment.plan(n);
      const auto gradient = [&](int id) {
        const Location& location = segment.gradient[static_cast<std::size_t>(id)];
        return view(at(location, bindings, bindings.gradients), dag.tensor_at(id).spec);
      };
      output_gradients.clear();
      for (const int id : node.outputs) output_gradients.push_back(gradient(id));
      input_gradients.clear();
      for (std::size_t i = 0; i < node.inputs.size(); ++i) {
        const int id = node.inputs[i];
        switch (plan.input_gradient[i]) {
          case GradientWrite::none: input_gradients.emplace_back(); break;
          case GradientWrite::scratch:
          case GradientWrite::discard:
            input_gradients.push_back(
                view(at(plan.scratch[i], bindings, bindings.gradients), dag.tensor_at(id).spec));
            break;
          case GradientWrite::write:
          case GradientWrite::add: input_gradients.push_back(gradient(id)); break;
        }
      }
      parameter_gradients.clear();
      for (const int use : node.uses) {
        parameter_gradients.push_back(
            view(bindings.uses[static_cast<std::size_t>(use)],
                 dag.gradient_spec(dag.parameter_at(dag.use_at(use).parameter))));
      }
    }

    static AnyView view(void* data, const TensorSpec& spec) {
      return {data, spec.shape, spec.element};
    }
  };

  void add_scratch(int n, const NodePlan& plan, const Segment& segment,
                   const SegmentBindings& bindings, Lane& lane, const Views& views) const {
    const Node& node = dag_.node_at(n);
    for (std::size_t i = 0; i < node.inputs.size(); ++i) {
      if (plan.input_gradient[i] != GradientWrite::scratch) continue;
      const Location& target = segment.gradient[static_cast<std::size_t>(node.inputs[i])];
      void* const sum = at(target, bindings, bindings.gradients);
      const AnyView& source = views.input_gradients[i];
      if (source.element() == element_of<T>) {
        detail::AddTo<T>::run(lane, sum, source);
      } else {
        detail::AddTo<sum_t<T>>::run(lane, sum, source);
      }
    }
  }

  /// The gradients of a node that no result depends on.
  void clear_uses(int n, const SegmentBindings& bindings, Lane& lane) const {
    for (const int use : dag_.node_at(n).uses) {
      lane.fill_zero(bindings.uses[static_cast<std::size_t>(use)],
                     dag_.gradient_spec(dag_.parameter_at(dag_.use_at(use).parameter)).bytes());
    }
  }

  static OptionError missing(const std::string& what, const std::string& name) {
    return OptionError("reef::graph: the bindings have no memory for the ", what, " '", name,
                       "', which this segment needs.\n  fix: set its entry before the call.");
  }

  void check_bindings(const Segment& segment, const SegmentBindings& bindings, const Lane& lane,
                      Bytes saved, Bytes workspace) const {
    if (segment.forward.size() != dag_.tensors.size() || segment.last > dag_.node_count() ||
        bindings.tensors.size() != dag_.tensors.size() ||
        bindings.gradients.size() != dag_.tensors.size() ||
        bindings.parameters.size() != dag_.parameters.size() ||
        bindings.uses.size() != dag_.uses.size()) {
      throw OptionError(
          "reef::graph: the segment or its bindings were made for another graph.\n"
          "  fix: plan segments and make bindings after the last node is added.");
    }
    if (lane.threads() > threads_) {
      throw OptionError("reef::graph: the lane has ", lane.threads(),
                        " threads, but scratch memory was planned for ", threads_,
                        ".\n  fix: run graph.serving(device.threads()), or make the Graph with that number.");
    }
    if (saved != 0 && bindings.saved == nullptr)
      throw missing("saved activations of", format_bytes(saved));
    if (workspace != 0 && bindings.workspace == nullptr) {
      throw missing("workspace of", format_bytes(workspace));
    }
    for (const int id : segment.parameters) {
      if (bindings.parameters[static_cast<std::size_t>(id)] == nullptr) {
        throw missing("parameter", dag_.parameter_at(id).name);
      }
    }
  }

  void check_backward(const Segment& segment, const SegmentBindings& bindings, const Lane& lane,
                      BackwardPart part) const {
    const bool whole = part == BackwardPart::all;
    const bool weights = part == BackwardPart::weight;
    if (segment.splits == whole || part == BackwardPart::none) {
      throw OptionError("reef::graph: a backward of a segment that ",
                        segment.splits ? "splits is called whole" : "does not split is called by half",
                        ".\n  fix: plan_segment(dag, first, last, Halves::",
                        segment.splits ? "no" : "yes", "), or the other call.");
    }
    check_bindings(
        segment, bindings, lane, segment.saved_bytes,
        weights ? segment.weight_half_workspace_bytes : segment.backward_workspace_bytes);
    if (segment.pending_bytes != 0 && bindings.pending == nullptr) {
      throw missing("pending gradients of", format_bytes(segment.pending_bytes));
    }
    check_tensors("value",
                  whole     ? segment.backward_reads
                  : weights ? segment.weight_half_reads
                            : segment.input_half_reads,
                  bindings.tensors);
    check_tensors("gradient", weights ? segment.weight_half_gradients : segment.output_gradients,
                  bindings.gradients);
    if (!weights) check_tensors("gradient", segment.input_gradients, bindings.gradients);
    if (part == BackwardPart::input && !segment.input_half_has_parameters) return;
    for (const int use : segment.uses) {
      if (bindings.uses[static_cast<std::size_t>(use)] == nullptr) {
        throw missing("gradient of the parameter",
                      dag_.parameter_at(dag_.use_at(use).parameter).name);
      }
    }
  }

  void check_tensors(const char* what, const std::vector<int>& ids,
                     const std::vector<void*>& table) const {
    for (const int id : ids) {
      const Tensor& tensor = dag_.tensor_at(id);
      if (table[static_cast<std::size_t>(id)] == nullptr && tensor.spec.bytes() != 0) {
        throw missing(std::string(what) + " of the tensor", tensor.name);
      }
    }
  }

  int threads_;
  Dag dag_;
  std::vector<std::shared_ptr<const detail::AnyOperator<Device, T>>> operators_;
};

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
  check_bindings(segment, bindings, lane, keeps ? segment.saved_bytes : 0,
                 keeps ? segment.forward_workspace_bytes : segment.inference_workspace_bytes);
  check_tensors("value", recomputes ? segment.recompute_reads : segment.boundary_inputs,
                bindings.tensors);
  check_tensors("value", recomputes ? segment.recompute_writes : segment.boundary_outputs,
                bindings.tensors);
  Views views;
  for (int n = segment.first; n < segment.last; ++n) {
    const NodePlan& plan = segment.plan(n);
    if (recomputes && !plan.recomputed) continue;
    views.gather(dag_, n, locations, keeps ? plan.saved : plan.inference_saved, bindings);
    const Location& workspace = keeps ? plan.forward_workspace : plan.inference_workspace;
    key.op = static_cast<std::uint32_t>(n);
    const ForwardCall<Device, T> call{lane,          views.inputs,
                                      views.outputs, views.parameters,
                                      views.saved,   at(workspace, bindings, bindings.tensors),
                                      key,           training};
    run_node(n, "forward", [&](const auto& op) { op.forward(call); });
  }
}

template <device::device Device, real T>
void Graph<Device, T>::backward(const Segment& segment, const SegmentBindings& bindings, Lane& lane, DrawKey key,
              bool accumulate_parameters, BackwardPart part) const {
  check_backward(segment, bindings, lane, part);
  const bool weights = part == BackwardPart::weight;
  Views views;
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
                                       at(weights ? plan.weight_workspace : plan.backward_workspace,
                                          bindings, bindings.tensors),
                                       key,
                                       of_node};
    run_node(n, "backward", [&](const auto& op) { op.backward(call); });
    if (!weights) add_scratch(n, plan, segment, bindings, lane, views);
  }
}

}  // namespace graph
}  // namespace v0
}  // namespace reef
