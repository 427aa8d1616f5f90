// Rows of any number in a pass, and positions of any number in a sequence, have the bits of a token at a time.

#include <reef/nn/session.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <random>
#include <span>
#include <vector>

#include <gtest/gtest.h>

#include <reef/device/host.hpp>
#include <reef/nn/host.hpp>
#include <reef/nn/llama.hpp>

#include "../laws/graph_runner.hpp"

namespace {

using namespace reef;
using namespace reef::test;
using device::Host;
using graph::StateForm;
using graph::WeightForm;

class SessionLengths : public testing::TestWithParam<WeightForm> {
protected:
  static graph::Graph<Host, float> model() {
    return nn::llama<Host, float>({.layers = 2, .heads = 2, .kv_heads = 1, .channels = 16, .hidden = 24, .vocabulary = 29,
                                   .context = 2048, .sequence = 1, .window = 700, .window_from = 1}, 2);
  }
  static void draw_weights(nn::Session<Host, float>& session, const graph::Graph<Host, float>& model) {
    for (const auto& [id, values] : Point<float>::make(model.dag(), 37).parameters)
      session.set_parameter(model.dag().parameter_at(id).name, values);
  }
  static std::vector<std::int32_t> tokens(std::size_t count) {
    std::mt19937 random(3);
    std::vector<std::int32_t> result(count);
    for (auto& token : result) token = static_cast<std::int32_t>(random() % 29);
    return result;
  }
  static std::vector<float> one_by_one(nn::Session<Host, float>& session, std::span<const std::int32_t> text) {
    const int sequence = session.open();
    std::vector<float> rows;
    for (std::size_t i = 0; i < text.size(); ++i) {
      const nn::Logits logits = session.append({{sequence, text.subspan(i, 1)}});
      rows.insert(rows.end(), logits.values.begin(), logits.values.end());
    }
    session.close(sequence);
    return rows;
  }
  static bool are_equal(std::span<const float> found, std::span<const float> wanted) {
    return std::equal(found.begin(), found.end(), wanted.begin(), wanted.end());
  }
};

TEST_P(SessionLengths, have_the_same_bits_in_passes_of_1_to_300_rows) {
  Host host({.threads = 2});
  const auto graph = model();
  nn::Session<Host, float> session(host, graph, {.positions = 300, .rows = 300, .weights = GetParam()});
  draw_weights(session, graph);
  const auto text = tokens(300);
  const std::vector<float> wanted = one_by_one(session, text);
  for (std::size_t rows = 1; rows <= 300; ++rows) {
    const int sequence = session.open();
    const nn::Logits logits = session.append({{sequence, std::span(text).first(rows), true}});
    ASSERT_TRUE(are_equal(logits.values, std::span(wanted).first(rows * 29))) << rows << " rows";
    session.close(sequence);
  }
}

TEST_P(SessionLengths, have_the_same_bits_at_positions_to_2048_in_any_form_of_states) {
  const auto text = tokens(2048);
  for (const StateForm states : {StateForm::as_given, StateForm::bf16, StateForm::int8}) {
    Host host({.threads = 2});
    const auto graph = model();
    nn::Session<Host, float> session(host, graph, {.positions = 2048, .rows = 256, .weights = GetParam(), .states = states});
    draw_weights(session, graph);
    const std::vector<float> wanted = one_by_one(session, text);
    std::mt19937 random(5);
    for (const std::size_t most : {std::size_t{2048}, std::size_t{300}}) {
      const int sequence = session.open();
      for (std::size_t begin = 0; begin < text.size();) {
        const std::size_t count = std::min(text.size() - begin, most == 2048 ? most : 1 + random() % most);
        const nn::Logits logits = session.append({{sequence, std::span(text).subspan(begin, count), true}});
        ASSERT_TRUE(are_equal(logits.values, std::span(wanted).subspan(begin * 29, count * 29)))
            << "tokens from " << begin << ", states " << static_cast<int>(states);
        begin += count;
      }
      session.close(sequence);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(AllForms, SessionLengths,
                         testing::Values(WeightForm::as_given, WeightForm::bf16, WeightForm::int8, WeightForm::blockwise8,
                                         WeightForm::nf4));

}  // namespace
