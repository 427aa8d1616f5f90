#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <reef/core/error.hpp>
#include <reef/device/concept.hpp>
#include <reef/graph/bindings.hpp>
#include <reef/graph/detail/node_views.hpp>
#include <reef/graph/detail/stored_row_operator.hpp>
#include <reef/graph/graph.hpp>
#include <reef/graph/rows.hpp>
#include <reef/graph/segment.hpp>

namespace reef {
inline namespace v0 {
namespace graph {

/// A list of operators that have code of their own for single tokens (row_operator_for), by which a RowModel runs them.
template <class... Ops>
struct RowOperators {};

/// Returns the first node of [first, last) whose operator can process rows (tokens) neither independently (row_wise)
/// nor by code of its own (one of Ops), or `last`.
template <class... Ops, device::device Device, real T>
int first_not_by_rows(const Graph<Device, T>& model, int first, int last, RowOperators<Ops...> /*with_code*/) {
  for (int n = first; n < last; ++n) {
    if (!model.by_rows(n) && ((model.template operator_as<Ops>(n) == nullptr) && ...)) return n;
  }
  return last;
}

/// Nodes [first, last) of a graph that process rows: new positions of sequences, whose earlier positions are in pages
/// (a key-value cache).
///
/// | rows   | any number: the shapes of the graph's inputs, (B, T, ...), become (rows, 1, ...)          |
/// | bits   | a row's results have the same bits alone and beside any other rows                        |
/// | memory | the caller's: pages, prepared parameters, boundary tensors, workspace; RowModel owns none |
/// | nodes  | each has an operator that is row_wise, or one of the constructor's RowOperators           |
/// | errors | OptionError from construction for a node of another operator, by name                     |
///
/// \code
/// #include <reef/nn/session.hpp>
/// // given: const graph::Graph<device::Host, float>& model
/// const graph::RowModel<device::Host, float> rows(model, 0, model.dag().node("lm_head") + 1, nn::RowOperators());
/// const Bytes page = rows.page_bytes();  // 64 positions of one sequence
/// \endcode
template <device::device Device, real T>
class RowModel {
public:
  using Lane = typename Device::Lane;

  template <class... Ops>
  RowModel(const Graph<Device, T>& model, int first, int last, RowOperators<Ops...> /*with_code*/,
           RowOptions options = {})
      : model_(model), first_(first), last_(last), options_(options) {
    static_assert((row_operator_for<Ops, Device, T> && ...));
    if (const int n = first_not_by_rows(model_, first, last, RowOperators<Ops...>()); n < last) {
      const Node& node = model_.dag().node_at(n);
      throw OptionError("reef::graph::RowModel: the node '", node.name, "' of kind ", node.kind,
                        " cannot run by rows.\n  why: it is not said to be row-wise, and there is no code of its own.\n"
                        "  fix: `static constexpr bool by_rows = true` in an operator whose rows know nothing of "
                        "each other, or forward_rows, and the operator among the RowOperators.");
    }
    for (int n = first; n < last; ++n) {
      std::unique_ptr<detail::AnyRowOperator<Device, T>> code;
      (void)((code = detail::row_code_of<Ops>(model_, n), code != nullptr) || ...);
      code_.push_back(std::move(code));
    }
    const Plan& one = plan(1);
    for (std::size_t i = 0; i < code_.size(); ++i) {
      state_offsets_.push_back(page_bytes_);
      page_bytes_ += round_up(static_cast<Bytes>(page_positions) * one.rows[i].state, 64);
    }
  }

  [[nodiscard]] const Graph<Device, T>& model() const& { return model_; }
  const Graph<Device, T>& model() const&& = delete;

  /// Returns the bytes of a page of the cache: 64 positions of one sequence, with the states (such as keys and values)
  /// that all nodes keep for them.
  [[nodiscard]] Bytes page_bytes() const { return page_bytes_; }

  /// Returns the bytes of a node's parameter in the packed form that its code for rows reads; 0 if rows read the
  /// parameter unchanged.
  [[nodiscard]] Bytes prepared_bytes(int node) const { return plan(1).rows[place_of(node)].prepared; }

  /// Returns the name of the packed form of a node's parameter (RowsSignature::layout).
  [[nodiscard]] std::string_view prepared_layout(int node) const { return plan(1).rows[place_of(node)].layout; }

  /// Returns true if a node of [first, last) reads the parameter unchanged, not in a packed form.
  [[nodiscard]] bool reads(int parameter) const {
    const Dag& dag = model_.dag();
    return std::any_of(dag.parameter_at(parameter).uses.begin(), dag.parameter_at(parameter).uses.end(),
                       [&](int use) { return within(dag.use_at(use).node) && !is_prepared(dag.use_at(use)); });
  }

  /// Returns the nodes of [first, last) that read the parameter in a packed form.
  [[nodiscard]] std::vector<int> prepares(int parameter) const {
    const Dag& dag = model_.dag();
    std::vector<int> nodes;
    for (const int use : dag.parameter_at(parameter).uses) {
      if (within(dag.use_at(use).node) && is_prepared(dag.use_at(use))) nodes.push_back(dag.use_at(use).node);
    }
    return nodes;
  }

  /// Enqueues the packing of a node's parameter from `values` into the form that its code for rows reads, written to
  /// `prepared`; `magnitudes` as PrepareRowsCall has them.
  void prepare(int node, Lane& lane, TensorView<const T> values, void* prepared,
               std::span<const float> magnitudes = {}) const {
    code_[place_of(node)]->prepare({lane, values, prepared, options_, magnitudes});
  }

  /// The plan of a fixed number of rows: shapes, memory locations, and the sizes of scratch memory.
  struct Plan {
    explicit Plan(Graph<Device, T> graph) : model(std::move(graph)) {}
    Graph<Device, T> model;  ///< the model whose inputs have the shape (rows, 1, ...)
    Segment segment;
    std::vector<RowsSignature> rows;  ///< memory needs of operators with code for rows, by node of [first, last)
    /// Offset in bytes of those operators' scratch memory in the workspace, behind the segment's.
    Bytes own_workspace = 0;
    Bytes workspace_bytes = 0;
  };

  /// Returns the shapes and memory plan for that many rows (tokens) in a call. The plan stays valid until plans of
  /// `max_plans` other numbers have been requested.
  [[nodiscard]] const Plan& plan(std::int64_t rows) const& {
    auto& found = plans_[rows];
    if (found != nullptr) return *found;
    std::unique_ptr<Plan> made = make_plan(rows);
    if (plans_.size() > max_plans) {
      plans_.clear();
      return *(plans_[rows] = std::move(made));
    }
    return *(found = std::move(made));
  }

  const Plan& plan(std::int64_t rows) const&& = delete;

  /// Enqueues the forward of all nodes on rows (tokens of sequences). `bindings` hold the boundary tensors, the
  /// parameters that are read unchanged, and a workspace of plan.workspace_bytes; `prepared`, by node of [first, last),
  /// what prepare() wrote.
  void run(const Plan& plan, const SegmentBindings& bindings, std::span<void* const> prepared, Lane& lane,
           std::span<const Row> rows, std::span<const Pages> pages) const {
    detail::NodeViews views;
    const Dag& dag = plan.model.dag();
    for (int n = first_; n < last_; ++n) {
      const std::size_t i = place_of(n);
      const NodePlan& node = plan.segment.plan(n);
      views.gather(dag, n, plan.segment.inference, node.inference_saved, bindings);
      if (code_[i] == nullptr) {
        plan.model.run_forward(n, {lane, views.inputs, views.outputs, views.parameters, views.saved,
                                   detail::address_of(node.inference_workspace, bindings, bindings.tensors),
                                   {}, false});
        continue;
      }
      void* const own = static_cast<std::byte*>(bindings.workspace) + plan.own_workspace;
      code_[i]->forward({lane, views.inputs, views.outputs, views.parameters, prepared[i], options_, own, rows, pages,
                         state_offsets_[i]});
    }
  }

private:
  static constexpr std::size_t max_plans = 64;

  [[nodiscard]] std::size_t place_of(int node) const { return static_cast<std::size_t>(node - first_); }
  [[nodiscard]] bool within(int node) const { return first_ <= node && node < last_; }
  [[nodiscard]] bool is_prepared(const Use& use) const { return use.slot == 0 && prepared_bytes(use.node) > 0; }

  static Shape of_rows(const Shape& shape, std::int64_t rows) {
    switch (shape.rank()) {
      case 2: return {rows, 1};
      case 3: return {rows, 1, shape[2]};
      default: return {rows, 1, shape[2], shape[3]};
    }
  }

  [[nodiscard]] std::unique_ptr<Plan> make_plan(std::int64_t rows) const {
    std::vector<TensorSpec> inputs;
    for (const int id : model_.dag().inputs) {
      const TensorSpec& spec = model_.dag().tensor_at(id).spec;
      if (spec.shape.rank() < 2) {
        throw ShapeError("reef::graph::RowModel: the input '", model_.dag().tensor_at(id).name, "' is ", spec.text(),
                         ", expected (B, T, ...).\n  fix: a model whose inputs have samples and positions.");
      }
      inputs.push_back({of_rows(spec.shape, rows), spec.element});
    }
    auto plan = std::make_unique<Plan>(model_.with_inputs(inputs));
    const Dag& dag = plan->model.dag();
    plan->segment = plan_segment(dag, first_, last_);
    for (int n = first_; n < last_; ++n) {
      std::vector<TensorSpec> specs;
      for (const int id : dag.node_at(n).inputs) specs.push_back(dag.tensor_at(id).spec);
      const auto& code = code_[place_of(n)];
      plan->rows.push_back(code == nullptr ? RowsSignature()
                                           : code->signature({specs, options_, model_.threads()}));
    }
    plan->own_workspace = plan->segment.inference_workspace_bytes;
    Bytes most = 0;
    for (const RowsSignature& signature : plan->rows) most = (std::max)(most, signature.workspace);
    plan->workspace_bytes = plan->own_workspace + round_up(most, 64);
    return plan;
  }

  Graph<Device, T> model_;
  int first_;
  int last_;
  RowOptions options_;
  // The code of each node for rows; null for a row_wise operator.
  std::vector<std::unique_ptr<detail::AnyRowOperator<Device, T>>> code_;
  std::vector<Bytes> state_offsets_;
  Bytes page_bytes_ = 0;
  mutable std::map<std::int64_t, std::unique_ptr<Plan>> plans_;
};

}  // namespace graph
}  // namespace v0
}  // namespace reef
