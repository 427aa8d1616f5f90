// A model cut into segments of nodes has the bits of an nn::Session, however its rows are cut into passes.

#include <reef/nn/row_segment.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <reef/device/host.hpp>
#include <reef/nn/block_cuts.hpp>
#include <reef/nn/host.hpp>
#include <reef/nn/session.hpp>
#include <support/small_language_models.hpp>

namespace {

using namespace reef;
using device::Host;
using Segment = nn::RowSegment<Host, float>;

constexpr std::int64_t positions = 130;  // three pages

constexpr test::SmallLanguageModel segmented{.layers = 3, .context = positions};

/// The embedding, the blocks and the head of a model, each with the pages of one sequence.
class SegmentedModel {
public:
  SegmentedModel(const graph::Graph<Host, float>& model, std::int64_t rows, graph::WeightForm form)
      : host_({.threads = 2}), lane_(host_, "segments") {
    const graph::Dag& dag = model.dag();
    const nn::BlockCuts cuts = nn::block_cuts(dag);
    std::vector<int> bounds{0};
    bounds.insert(bounds.end(), cuts.nodes.begin(), cuts.nodes.end());
    bounds.push_back(dag.tensor_at(dag.tensor("logits")).producer + 1);
    for (std::size_t i = 0; i + 1 < bounds.size(); ++i) {
      segments_.push_back(std::make_unique<Segment>(host_, lane_, model, bounds[i], bounds[i + 1],
                                                    graph::RowOptions{form, positions}, rows));
      test::set_drawn_weights(*segments_.back(), dag);
      const Bytes page = segments_.back()->page_bytes();
      memory_.push_back(host_.allocate(3 * page + 64, "pages"));
      for (Bytes p = 0; p < 3; ++p) pages_.push_back(static_cast<std::byte*>(memory_.back().data()) + p * page);
    }
  }

  /// Returns the logits behind each token of a text, given in calls of `each` tokens.
  std::vector<float> logits(const std::vector<std::int32_t>& text, std::size_t each) {
    std::vector<float> all;
    for (std::size_t first = 0; first < text.size(); first += each) {
      const auto part = std::span(text).subspan(first, (std::min)(each, text.size() - first));
      std::vector<graph::Row> rows;
      for (std::size_t k = 0; k < part.size(); ++k) rows.push_back({0, static_cast<std::int64_t>(first + k)});
      const auto bytes = std::as_bytes(part);
      std::vector<std::byte> between(bytes.begin(), bytes.end());
      for (std::size_t s = 0; s < segments_.size(); ++s) {
        const std::vector<graph::Pages> tables{std::span(pages_).subspan(3 * s, 3)};
        std::vector<std::byte> out(part.size() * segments_[s]->output_row());
        segments_[s]->run(between, rows, tables, out);
        between = std::move(out);
      }
      const auto* const values = reinterpret_cast<const float*>(between.data());
      all.insert(all.end(), values, values + between.size() / sizeof(float));
    }
    return all;
  }

  [[nodiscard]] const Segment& segment(std::size_t i) const { return *segments_[i]; }

private:
  Host host_;
  Host::Lane lane_;
  std::vector<std::unique_ptr<Segment>> segments_;
  std::vector<Host::Buffer> memory_;
  std::vector<std::byte*> pages_;
};

TEST(RowSegment, one_behind_the_other_have_the_bits_of_a_session_in_any_passes) {
  const auto model = segmented.gpt();
  std::vector<std::int32_t> text;
  for (std::int32_t i = 0; i < positions; ++i) text.push_back((7 * i * i + 3) % 37);
  for (const graph::WeightForm form : {graph::WeightForm::as_given, graph::WeightForm::bf16, graph::WeightForm::nf4}) {
    SCOPED_TRACE(static_cast<int>(form));
    Host host({.threads = 1});
    nn::Session<Host, float> session(host, model, {.positions = positions, .rows = 64, .weights = form});
    test::set_drawn_weights(session, model.dag());
    const nn::Logits whole = session.append({{session.open(), text, true}});
    const std::vector<float> expected(whole.values.begin(), whole.values.end());
    for (const std::int64_t rows : {3, 64}) {
      SegmentedModel segments(model, rows, form);
      for (const std::size_t each : {std::size_t{1}, std::size_t{50}, text.size()}) {
        EXPECT_EQ(segments.logits(text, each), expected) << rows << " rows a pass, " << each << " tokens a call";
      }
    }
  }
}

TEST(RowSegment, reads_the_parameters_of_its_own_nodes_and_refuses_others_sizes) {
  const auto model = segmented.gpt();
  Host host({.threads = 1});
  Host::Lane lane(host, "segment");
  const nn::BlockCuts cuts = nn::block_cuts(model.dag());
  Segment block(host, lane, model, cuts.nodes[1], cuts.nodes[2], {graph::WeightForm::as_given, positions}, 4);
  EXPECT_EQ(block.input_row(), 21 * sizeof(float));
  EXPECT_EQ(block.output_row(), block.input_row());
  EXPECT_EQ(block.page_bytes() % 64, 0U);
  for (const graph::Parameter& parameter : model.dag().parameters) {
    EXPECT_EQ(block.reads(parameter.name), parameter.name.find(".h.1.") != std::string::npos) << parameter.name;
    const std::vector<float> short_of(1);
    if (block.reads(parameter.name)) {
      EXPECT_THROW(block.set_parameter(parameter.name, short_of), ShapeError) << parameter.name;
    } else {
      EXPECT_NO_THROW(block.set_parameter(parameter.name, short_of)) << parameter.name;
    }
  }
}

TEST(RowSegment, of_nodes_that_read_more_than_one_tensor_is_refused_by_name) {
  const auto model = segmented.gpt();
  Host host({.threads = 1});
  Host::Lane lane(host, "segment");
  const nn::BlockCuts cuts = nn::block_cuts(model.dag());
  try {  // from the middle of a block: what was added to comes from before
    Segment part(host, lane, model, cuts.nodes[0] + 2, cuts.nodes[1], {graph::WeightForm::as_given, positions}, 4);
    ADD_FAILURE() << "two tensors go in";
  } catch (const ShapeError& error) {
    EXPECT_THAT(error.what(), testing::HasSubstr("fix: nodes that read one and give one"));
    EXPECT_THAT(error.what(), testing::HasSubstr(model.dag().node_at(cuts.nodes[0] + 2).name));
  }
}

}  // namespace
