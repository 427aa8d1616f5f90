#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include <reef/core/element.hpp>
#include <reef/core/error.hpp>
#include <reef/core/units.hpp>
#include <reef/device/concept.hpp>
#include <reef/graph/graph.hpp>
#include <reef/graph/row_model.hpp>
#include <reef/nn/session.hpp>

namespace reef {
inline namespace v0 {
namespace nn {

/// Some nodes of a language model, one behind the other, that are run by rows alone: such as one block of it, its
/// embedding or its head. Weights of other nodes take no memory.
///
/// | rows   | go in as the bytes of tokens (int32) or of hidden states, and come out as bytes of states or logits |
/// | bits   | a row's bytes depend on its own, on those before it in its sequence, and on the weights alone: they |
/// |        | are those of nn::Session                                                                            |
/// | memory | on the device: the nodes' parameters, one pass' activations. Pages are the caller's                 |
/// | errors | ShapeError for nodes that read or give more than one tensor; those of graph::RowModel               |
///
/// The device and the lane must outlive the segment, which one thread may use at a time.
///
/// \code
/// #include <reef/nn/block_cuts.hpp>
/// // given: device::Host& host, device::Host::Lane& lane, const graph::Graph<device::Host, float>& model
/// const nn::BlockCuts cuts = nn::block_cuts(model.dag());
/// nn::RowSegment<device::Host, float> block(host, lane, model, cuts.nodes[0], cuts.nodes[1], {}, 256);
/// const Bytes row = block.input_row();  // C * 4
/// \endcode
template <device::device Device, real T>
class RowSegment {
public:
  using Graph = graph::Graph<Device, T>;
  using Lane = typename Device::Lane;

  /// Allocates nodes [first, last) of a model, for passes of at most `rows` rows. Parameters are zeros until set.
  RowSegment(Device& device, Lane& lane, const Graph& model, int first, int last, const graph::RowOptions& options,
             std::int64_t rows)
      : device_(device),
        lane_(lane),
        most_(rows),
        first_(first),
        rows_(model.serving(device.threads()), first, last, RowOperators(), options) {
    const graph::Dag& dag = rows_.model().dag();
    const graph::Segment& segment = rows_.plan(1).segment;
    if (segment.boundary_inputs.size() != 1 || segment.boundary_outputs.size() != 1) {
      throw ShapeError("reef::nn::RowSegment: the nodes from '", dag.node_at(first).name, "' on read ",
                       segment.boundary_inputs.size(), " tensors of others, and give ",
                       segment.boundary_outputs.size(), " to others.\n  fix: nodes that read one and give one.");
    }
    input_ = segment.boundary_inputs[0];
    output_ = segment.boundary_outputs[0];
    parameters_.resize(dag.parameters.size());
    prepared_.resize(static_cast<std::size_t>(last - first));
    for (std::size_t id = 0; id < dag.parameters.size(); ++id) allocate(static_cast<int>(id));
    in_ = device_.allocate(static_cast<Bytes>(rows) * input_row(), "rows");
    out_ = device_.allocate(static_cast<Bytes>(rows) * output_row(), "rows");
    workspace_ = device_.allocate(rows_.plan(rows).workspace_bytes, "workspace");
  }
  RowSegment(const RowSegment&) = delete;
  RowSegment& operator=(const RowSegment&) = delete;

  /// Returns the bytes of a row that goes in: of a token's number, or of C hidden numbers.
  [[nodiscard]] Bytes input_row() const { return row_bytes(input_); }
  [[nodiscard]] Bytes output_row() const { return row_bytes(output_); }
  /// Returns the bytes of a page of 64 positions of one sequence, a multiple of 64; 0 where no node has a cache.
  [[nodiscard]] Bytes page_bytes() const { return round_up(rows_.page_bytes(), 64); }

  /// Returns true if a node of the segment has the parameter.
  [[nodiscard]] bool reads(std::string_view name) const { return !places_of(name).empty(); }

  /// Copies a parameter's values to the device, as Session::set_parameter does; none of another node's parameter.
  void set_parameter(std::string_view name, std::span<const sum_t<T>> values) {
    const std::vector<int> places = places_of(name);
    if (places.empty()) return;
    const int id = places.front();
    const Shape& shape = rows_.model().dag().parameter_at(id).spec.shape;
    if (std::ssize(values) != shape.size()) {
      throw ShapeError("reef::nn::RowSegment: the parameter '", name, "' has ", shape.size(), " elements, ",
                       values.size(), " were given.\n  fix: give all of them.");
    }
    const std::vector<T> rounded(values.begin(), values.end());
    const Bytes bytes = rounded.size() * sizeof(T);
    void* to = parameters_[static_cast<std::size_t>(id)];
    typename Device::Buffer staged;
    if (to == nullptr) {
      staged = device_.allocate(bytes, "parameter to pack");
      to = staged.data();
    }
    run([&](Lane& lane) {
      lane.copy(to, rounded.data(), bytes, device::Copy::to_device);
      const TensorView<const T> view(static_cast<const T*>(to), shape);
      for (const int n : rows_.prepares(id)) rows_.prepare(n, lane, view, prepared_[place_of(n)]);
    });
  }

  /// Runs rows through the nodes. `input`: input_row() bytes of each, `output`: output_row(); `rows`: their sequences,
  /// numbers of `pages`, and positions. More rows than a pass has are run in several.
  void run(std::span<const std::byte> input, std::span<const graph::Row> rows, std::span<const graph::Pages> pages,
           std::span<std::byte> output) {
    for (std::size_t done = 0; done < rows.size();) {
      const std::size_t count = (std::min)(static_cast<std::size_t>(most_), rows.size() - done);
      pass(input.subspan(done * input_row(), count * input_row()), rows.subspan(done, count), pages,
           output.subspan(done * output_row(), count * output_row()));
      done += count;
    }
  }

private:
  using Rows = graph::RowModel<Device, T>;

  [[nodiscard]] Bytes row_bytes(int tensor) const {
    const graph::TensorSpec& spec = rows_.model().dag().tensor_at(tensor).spec;
    const Bytes numbers = spec.shape.rank() == 2 ? 1 : static_cast<Bytes>(spec.shape.last());
    return numbers * size_of(spec.element);
  }
  [[nodiscard]] std::size_t place_of(int node) const { return static_cast<std::size_t>(node - first_); }

  /// Returns the number of the parameter of this name, if a node of the segment reads it.
  [[nodiscard]] std::vector<int> places_of(std::string_view name) const {
    const graph::Dag& dag = rows_.model().dag();
    for (std::size_t id = 0; id < dag.parameters.size(); ++id) {
      const int number = static_cast<int>(id);
      if (dag.parameters[id].name == name && (rows_.reads(number) || !rows_.prepares(number).empty())) return {number};
    }
    return {};
  }

  /// Allocates what the segment reads of a parameter: as it is, and as its nodes prepare it, once for each layout.
  void allocate(int id) {
    const auto zeros = [&](Bytes bytes) {
      weights_.push_back(device_.allocate(bytes, "weights"));
      void* const to = weights_.back().data();
      run([&](Lane& lane) { lane.fill_zero(to, bytes); });
      return to;
    };
    if (rows_.reads(id)) {
      parameters_[static_cast<std::size_t>(id)] = zeros(rows_.model().dag().parameter_at(id).spec.bytes());
    }
    std::map<std::pair<std::string_view, Bytes>, void*> layouts;
    for (const int n : rows_.prepares(id)) {
      void*& to = layouts[{rows_.prepared_layout(n), rows_.prepared_bytes(n)}];
      if (to == nullptr) to = zeros(rows_.prepared_bytes(n));
      prepared_[place_of(n)] = to;
    }
  }

  template <class F>
  void run(const F& work) {
    lane_.submit([&work](Lane& lane) { work(lane); });
    lane_.synchronize();
  }

  void pass(std::span<const std::byte> input, std::span<const graph::Row> rows, std::span<const graph::Pages> pages,
            std::span<std::byte> output) {
    const typename Rows::Plan& plan = rows_.plan(std::ssize(rows));
    // Fewer rows may want more than the most do.
    if (workspace_.bytes() < plan.workspace_bytes) workspace_ = device_.allocate(plan.workspace_bytes, "workspace");
    graph::SegmentBindings bindings(plan.model.dag());
    bindings.parameters = parameters_;
    bindings.workspace = workspace_.data();
    bindings.tensor(input_) = in_.data();
    bindings.tensor(output_) = out_.data();
    run([&](Lane& lane) {
      lane.copy(in_.data(), input.data(), input.size(), device::Copy::to_device);
      rows_.run(plan, bindings, prepared_, lane, rows, pages);
      lane.copy(output.data(), out_.data(), output.size(), device::Copy::to_host);
    });
  }

  Device& device_;
  Lane& lane_;
  std::int64_t most_;
  int first_;
  std::vector<typename Device::Buffer> weights_;
  typename Device::Buffer in_, out_, workspace_;
  Rows rows_;
  int input_ = -1;
  int output_ = -1;
  std::vector<void*> prepared_;    // by node of the segment
  std::vector<void*> parameters_;  // by id; null where no node reads it as it is
};

}  // namespace nn
}  // namespace v0
}  // namespace reef
