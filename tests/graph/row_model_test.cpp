// Nodes of a model that run by rows: parts of it, each with the pages of its own states, have the bits of the whole.

#include <reef/graph/row_model.hpp>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <list>
#include <map>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <reef/device/host.hpp>
#include <reef/nn/gelu.hpp>
#include <reef/nn/gpt.hpp>
#include <reef/nn/host.hpp>
#include <reef/nn/session.hpp>

#include "../laws/graph_runner.hpp"
#include "../support/gpt_config.hpp"

namespace {

using namespace reef;
using namespace reef::test;
using device::Host;
using Rows = graph::RowModel<Host, float>;

graph::Graph<Host, float> model() {
  nn::GptConfig config = small_config();
  config.batch = 1;
  return nn::gpt<Host, float>(config, 1);
}

/// Nodes [first, last) of the model as a server holds them: their weights, and the pages of one sequence.
class Part {
public:
  Part(Host& host, const graph::Graph<Host, float>& whole, int first, int last)
      : rows_(whole, first, last, nn::RowOperators(), {}), lane_(host, "part"), values_(whole.dag().parameters.size()),
        prepared_(static_cast<std::size_t>(last - first)), page_(host.allocate(rows_.page_bytes() + 64, "page")) {
    const graph::Dag& dag = whole.dag();
    for (const auto& [id, values] : Point<float>::make(dag, 37).parameters) {
      values_[static_cast<std::size_t>(id)] = values;
      for (const int n : rows_.prepares(id)) {
        memory_.push_back(host.allocate(rows_.prepared_bytes(n), "weights"));
        prepared_[static_cast<std::size_t>(n - first)] = memory_.back().data();
        lane_.submit([&, n = n, id = id](Host::Lane& own) {
          const auto& from = values_[static_cast<std::size_t>(id)];
          rows_.prepare(n, own, {from.data(), dag.parameter_at(id).spec.shape}, memory_.back().data());
        });
        lane_.synchronize();
      }
    }
    page_address_ = static_cast<std::byte*>(page_.data());
    workspace_ = host.allocate(rows_.plan(3).workspace_bytes, "workspace");
  }

  /// Runs a row at a position; tensors of the boundary lie at these places.
  void run(std::int64_t position, const std::map<int, void*>& boundary) {
    const auto& plan = rows_.plan(1);
    graph::SegmentBindings bindings(plan.model.dag());
    for (std::size_t id = 0; id < values_.size(); ++id) bindings.parameters[id] = values_[id].data();
    for (const auto& [id, place] : boundary) bindings.tensor(id) = place;
    bindings.workspace = workspace_.data();
    const std::vector<graph::Row> rows{{0, position}};
    const std::vector<graph::Pages> pages{graph::Pages(&page_address_, 1)};
    lane_.submit([&](Host::Lane& own) { rows_.run(plan, bindings, prepared_, own, rows, pages); });
    lane_.synchronize();
  }

private:
  Rows rows_;
  Host::Lane lane_;
  std::vector<std::vector<float>> values_;
  std::vector<Host::Buffer> memory_;
  std::vector<void*> prepared_;
  Host::Buffer page_;
  Host::Buffer workspace_;
  std::byte* page_address_ = nullptr;
};

TEST(RowModel, of_parts_of_a_model_has_the_bits_of_the_whole_wherever_it_is_cut) {
  Host host({.threads = 1});
  const auto whole = model();
  const graph::Dag& dag = whole.dag();
  const int tokens = dag.tensor("tokens");
  const int logits = dag.tensor("logits");
  const int last = dag.tensor_at(logits).producer + 1;
  const std::vector<std::int32_t> text{3, 14, 15, 9, 26};
  const auto logits_of = [&](const std::vector<int>& cuts) {
    std::list<Part> parts;
    for (std::size_t i = 0; i <= cuts.size(); ++i) {
      parts.emplace_back(host, whole, i == 0 ? 0 : cuts[i - 1], i == cuts.size() ? last : cuts[i]);
    }
    std::vector<Host::Buffer> tensors;  // all, so that each part finds those of its boundary
    const Rows shapes(whole, 0, last, nn::RowOperators());
    for (std::size_t id = 0; id < dag.tensors.size(); ++id) {
      tensors.push_back(host.allocate(shapes.plan(1).model.dag().tensors[id].spec.bytes(), "tensor"));
    }
    std::map<int, void*> boundary;
    for (std::size_t id = 0; id < tensors.size(); ++id) boundary[static_cast<int>(id)] = tensors[id].data();
    std::vector<float> all;
    for (std::size_t t = 0; t < text.size(); ++t) {
      std::memcpy(boundary[tokens], &text[t], sizeof text[t]);
      for (Part& part : parts) part.run(static_cast<std::int64_t>(t), boundary);
      const auto* const row = static_cast<const float*>(boundary[logits]);
      all.insert(all.end(), row, row + dag.tensor_at(logits).spec.shape.last());
    }
    return all;
  };
  const auto wanted = logits_of({});
  for (int cut = 1; cut < last; ++cut) EXPECT_EQ(logits_of({cut}), wanted) << "cut " << cut;
  EXPECT_EQ(logits_of({2, 5, last - 1}), wanted);
}

TEST(RowModel, refuses_a_model_whose_inputs_have_no_positions) {
  graph::Graph<Host, float> flat(1);
  const int x = flat.input("x", {{4}, Element::float32});
  flat.add("act", nn::Gelu{}, {x});
  try {
    const Rows rows(flat, 0, 1, nn::RowOperators());
    ADD_FAILURE() << "nothing was thrown";
  } catch (const ShapeError& error) {
    EXPECT_THAT(error.what(), testing::HasSubstr("the input 'x' is (4) fp32, expected (B, T, ...)"));
  }
}

}  // namespace
