#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <set>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include <reef/core/element.hpp>
#include <reef/core/error.hpp>
#include <reef/device/concept.hpp>
#include <reef/graph/graph.hpp>
#include <reef/graph/row_model.hpp>
#include <reef/nn/class_head.hpp>

namespace reef {
inline namespace v0 {
namespace nn::detail {

/// A row of a pass: its place, its token, and whether logits behind it are wanted.
struct RowToRun {
  graph::Row row;
  std::int32_t token = 0;
  bool wanted = false;
};

/// A language model on a device: its weights in the form that rows read, and the memory of one pass. The nodes before
/// the one that makes logits run on all rows, that one on those whose logits are wanted.
template <device::device Device, real T>
class ServedModel {
public:
  using Graph = graph::Graph<Device, T>;

  /// Allocates the memory of passes of at most `rows` rows, and of weights, which are zeros.
  template <class... Ops>
  ServedModel(Device& device, const Graph& model, const graph::RowOptions& options, std::int64_t rows,
              graph::RowOperators<Ops...> operators)
      : device_(device),
        head_(head_of(model)),
        lane_(device, "session"),
        body_(model.serving(device.threads()), 0, head_, operators, options),
        last_(model.serving(device.threads()), head_, head_ + 1, operators, options) {
    const graph::Dag& dag = this->dag();
    tokens_ = dag.tensor("tokens");
    logits_ = dag.tensor("logits");
    hidden_ = dag.node_at(head_).inputs[0];
    token_count_ = tokens_of(dag, tokens_, vocabulary());
    prepared_.resize(static_cast<std::size_t>(head_) + 1);
    parameters_.resize(dag.parameters.size());
    std::vector<Piece> pieces;
    for (std::size_t id = 0; id < parameters_.size(); ++id) {
      add_prepared(static_cast<int>(id), pieces);
      if (!body_.reads(static_cast<int>(id)) && !last_.reads(static_cast<int>(id))) continue;
      pieces.push_back({dag.parameters[id].spec.bytes(), {&parameters_[id]}});
    }
    allocate_weights(pieces);
    const auto most = static_cast<Bytes>(rows);
    body_input_ = device_.allocate(most * sizeof(std::int32_t), "tokens");
    body_output_ = device_.allocate(most * row_bytes(hidden_), "activations");
    head_input_ = device_.allocate(most * row_bytes(hidden_), "activations");
    head_output_ = device_.allocate(most * row_bytes(logits_), "logits");
    body_workspace_ = device_.allocate(body_.plan(rows).workspace_bytes, "workspace");
    head_workspace_ = device_.allocate(last_.plan(rows).workspace_bytes, "workspace");
  }

  [[nodiscard]] std::int64_t vocabulary() const { return dag().tensor_at(logits_).spec.shape.last(); }

  /// Returns Session::tokens().
  [[nodiscard]] std::int64_t tokens() const { return token_count_; }

  /// Returns the bytes of a page, a multiple of 64.
  [[nodiscard]] Bytes page_bytes() const { return round_up(body_.page_bytes(), 64); }

  void copy(void* to, const void* from, Bytes bytes) {
    run([&](Lane& lane) { lane.copy(to, from, bytes, device::Copy::on_device); });
  }

  /// As Session::set_parameter.
  void set_parameter(std::string_view name, std::span<const sum_t<T>> values, std::span<const float> magnitudes) {
    const int id = dag().parameter(name);
    const Shape& shape = dag().parameter_at(id).spec.shape;
    if (std::ssize(values) != shape.size()) {
      throw ShapeError("reef::nn::Session: the parameter '", name, "' has ", shape.size(), " elements, ", values.size(),
                       " were given.\n  fix: give all of them.");
    }
    const std::vector<int> nodes = prepares(id);
    void* to = parameters_[static_cast<std::size_t>(id)];
    if (to == nullptr && nodes.empty()) return;  // no node up to the logits reads it
    const std::vector<T> rounded(values.begin(), values.end());
    const Bytes bytes = rounded.size() * sizeof(T);
    typename Device::Buffer staged;
    if (to == nullptr) {
      staged = device_.allocate(bytes, "parameter to pack");
      to = staged.data();
    }
    run([&](Lane& lane) {
      lane.copy(to, rounded.data(), bytes, device::Copy::to_device);
      const TensorView<const T> view(static_cast<const T*>(to), shape);
      std::set<void*> written;
      for (const int n : nodes) {
        void* const prepared = prepared_[static_cast<std::size_t>(n)];
        if (written.insert(prepared).second) part_of(n).prepare(n, lane, view, prepared, magnitudes);
      }
    });
  }

  /// Runs rows through the model, and appends the logits that are wanted.
  void run_rows(std::span<const RowToRun> places, std::span<const graph::Pages> tables, std::vector<float>& logits) {
    std::vector<graph::Row> rows;
    std::vector<std::int32_t> tokens;
    std::vector<std::int64_t> wanted;
    for (const RowToRun& place : places) {
      if (place.wanted) wanted.push_back(std::ssize(rows));
      rows.push_back(place.row);
      tokens.push_back(place.token);
    }
    const auto& plan = body_.plan(std::ssize(rows));
    graph::SegmentBindings bindings = bindings_of(plan, body_workspace_);
    bindings.tensor(tokens_) = body_input_.data();
    bindings.tensor(hidden_) = body_output_.data();
    run([&](Lane& lane) {
      lane.copy(body_input_.data(), tokens.data(), tokens.size() * sizeof(std::int32_t), device::Copy::to_device);
      body_.run(plan, bindings, std::span<void* const>(prepared_).first(static_cast<std::size_t>(head_)), lane, rows,
                tables);
    });
    if (!wanted.empty()) run_head(wanted, logits);
  }

private:
  using Lane = typename Device::Lane;
  using Rows = graph::RowModel<Device, T>;

  /// Returns the node that makes the logits.
  static int head_of(const Graph& model) {
    const graph::Dag& dag = model.dag();
    const graph::TensorSpec& tokens = dag.tensor_at(dag.tensor("tokens")).spec;
    const graph::Tensor& logits = dag.tensor_at(dag.tensor("logits"));
    if (tokens.element != Element::int32 || tokens.shape.rank() != 2 || logits.spec.element != element_of<T> ||
        logits.spec.shape.rank() != 3 || logits.spec.shape.rows() != tokens.shape.size() || logits.producer < 0 ||
        dag.node_at(logits.producer).inputs.size() != 1) {
      throw ShapeError("reef::nn::Session: tokens are ", tokens.text(), ", logits ", logits.spec.text(),
                       ", expected (B, T) int32 and (B, T, V) ", name_of(element_of<T>),
                       ", which one node makes of one tensor.\n  fix: a language model, such as nn::gpt.");
    }
    return logits.producer;
  }

  /// Returns the rows of the table that a model with a class head reads its tokens from; V of another model.
  static std::int64_t tokens_of(const graph::Dag& dag, int tokens, std::int64_t V) {
    const bool classifies =
        std::any_of(dag.parameters.begin(), dag.parameters.end(),
                    [](const graph::Parameter& parameter) { return is_of_class_head(parameter.name); });
    for (const graph::Node& node : dag.nodes) {
      if (!classifies || node.uses.empty() || node.inputs.empty() || node.inputs[0] != tokens) continue;
      return dag.parameter_at(dag.use_at(node.uses[0]).parameter).spec.shape[0];
    }
    return V;
  }

  [[nodiscard]] const graph::Dag& dag() const { return body_.model().dag(); }
  [[nodiscard]] Bytes row_bytes(int tensor) const {
    const graph::TensorSpec& spec = dag().tensor_at(tensor).spec;
    return static_cast<Bytes>(spec.shape.last()) * size_of(spec.element);
  }

  /// Returns the part of the model that has a node.
  [[nodiscard]] const Rows& part_of(int node) const { return node == head_ ? last_ : body_; }
  [[nodiscard]] std::vector<int> prepares(int parameter) const {
    std::vector<int> nodes = body_.prepares(parameter);
    const std::vector<int> heads = last_.prepares(parameter);
    nodes.insert(nodes.end(), heads.begin(), heads.end());
    return nodes;
  }

  /// A part of the weights' memory, and who is to point to it.
  struct Piece {
    Bytes bytes = 0;
    std::vector<void**> pointers;
  };

  /// Adds the pieces that nodes prepare of a parameter: one for those of one layout.
  void add_prepared(int parameter, std::vector<Piece>& pieces) {
    std::map<std::pair<std::string_view, Bytes>, std::vector<void**>> layouts;
    for (const int n : prepares(parameter)) {
      const Rows& part = part_of(n);
      layouts[{part.prepared_layout(n), part.prepared_bytes(n)}].push_back(&prepared_[static_cast<std::size_t>(n)]);
    }
    for (auto& [layout, pointers] : layouts) pieces.push_back({layout.second, std::move(pointers)});
  }

  /// Allocates all weights at once, as zeros: a matrix by itself may be too small for the host's huge pages.
  void allocate_weights(const std::vector<Piece>& pieces) {
    Bytes all = 0;
    for (const Piece& piece : pieces) all += round_up(piece.bytes, 64);
    weights_ = device_.allocate(all, "weights");
    run([&](Lane& lane) { lane.fill_zero(weights_.data(), all); });
    auto* at = static_cast<std::byte*>(weights_.data());
    for (const Piece& piece : pieces) {
      for (void** const pointer : piece.pointers) *pointer = at;
      at += round_up(piece.bytes, 64);
    }
  }

  template <class F>
  void run(const F& work) {
    lane_.submit([&work](Lane& lane) { work(lane); });
    lane_.synchronize();
  }

  /// Returns bindings of a pass; the workspace grows if a plan of fewer rows wants more than that of the most.
  graph::SegmentBindings bindings_of(const typename Rows::Plan& plan, typename Device::Buffer& workspace) {
    if (workspace.bytes() < plan.workspace_bytes) workspace = device_.allocate(plan.workspace_bytes, "workspace");
    graph::SegmentBindings bindings(plan.model.dag());
    bindings.parameters = parameters_;
    bindings.workspace = workspace.data();
    return bindings;
  }

  /// Computes the logits of rows of the body's output, and appends them.
  void run_head(const std::vector<std::int64_t>& wanted, std::vector<float>& logits) {
    const Bytes row = row_bytes(hidden_);
    const auto& plan = last_.plan(std::ssize(wanted));
    graph::SegmentBindings bindings = bindings_of(plan, head_workspace_);
    bindings.tensor(hidden_) = head_input_.data();
    bindings.tensor(logits_) = head_output_.data();
    const std::vector<graph::Row> rows(wanted.size());
    std::vector<T> values(wanted.size() * static_cast<std::size_t>(vocabulary()));
    run([&](Lane& lane) {
      for (std::size_t i = 0; i < wanted.size(); ++i) {
        lane.copy(static_cast<std::byte*>(head_input_.data()) + i * row,
                  static_cast<std::byte*>(body_output_.data()) + static_cast<Bytes>(wanted[i]) * row, row,
                  device::Copy::on_device);
      }
      last_.run(plan, bindings, std::span<void* const>(prepared_).subspan(static_cast<std::size_t>(head_), 1), lane,
                rows, {});
      lane.copy(values.data(), head_output_.data(), values.size() * sizeof(T), device::Copy::to_host);
    });
    logits.insert(logits.end(), values.begin(), values.end());
  }

  Device& device_;
  int head_;
  typename Device::Buffer weights_;
  typename Device::Buffer body_input_, body_output_, head_input_, head_output_, body_workspace_, head_workspace_;
  Lane lane_;
  Rows body_;
  Rows last_;
  std::vector<void*> prepared_;    // by node
  std::vector<void*> parameters_;  // by id; null where no node reads it as it is
  int tokens_ = -1;
  int logits_ = -1;
  int hidden_ = -1;
  std::int64_t token_count_ = 0;
};

}  // namespace nn::detail
}  // namespace v0
}  // namespace reef
