// Texts of samples stand behind a soft prompt, and nothing of them is lost.

#include <reef/data/behind_prompt.hpp>

#include <cstdint>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <reef/data/sampler.hpp>

namespace reef {
namespace {

using testing::ElementsAre;

struct Batch {
  std::vector<std::int32_t> tokens, targets;
  std::vector<AnyView> inputs;

  Batch(std::int64_t B, std::int64_t T)
      : tokens(static_cast<std::size_t>(B * T), 99), targets(tokens) {
    inputs = {{tokens.data(), {B, T}, Element::int32}, {targets.data(), {B, T}, Element::int32}};
  }
};

TEST(BehindPrompt, texts_stand_whole_behind_positions_that_do_not_count) {
  const std::vector<std::int32_t> text{0, 1, 2, 3, 4, 5, 6, 7, 8};
  const data::Sampler sampler(text, 2, 1);
  const auto fill = [&](std::uint64_t first, std::span<const AnyView> inputs) {
    sampler.fill(first, inputs);
    return 7.0;
  };
  Batch alone(2, 2);
  fill(3, alone.inputs);
  Batch behind(2, 5);
  EXPECT_EQ(data::behind_prompt(3, fill)(3, behind.inputs), 7.0);
  const auto& a = alone.tokens;
  const auto& b = alone.targets;
  EXPECT_THAT(behind.tokens, ElementsAre(0, 0, 0, a[0], a[1], 0, 0, 0, a[2], a[3]));
  EXPECT_THAT(behind.targets, ElementsAre(-1, -1, -1, b[0], b[1], -1, -1, -1, b[2], b[3]));
  Batch without(2, 2);
  EXPECT_EQ(data::behind_prompt(0, fill)(3, without.inputs), 7.0);
  EXPECT_EQ(without.tokens, alone.tokens);
  EXPECT_EQ(without.targets, alone.targets);
}

TEST(BehindPrompt, inputs_without_room_for_text_are_refused) {
  const auto source = data::behind_prompt(3, [](std::uint64_t, std::span<const AnyView>) {
    ADD_FAILURE() << "the source is asked";
    return 1.0;
  });
  Batch narrow(2, 3);
  EXPECT_THROW(source(0, narrow.inputs), ShapeError);
  Batch wide(2, 4);
  EXPECT_THROW(source(0, std::span<const AnyView>(wide.inputs).first(1)), ShapeError);
  wide.inputs[1] = narrow.inputs[1];
  EXPECT_THROW(source(0, wide.inputs), ShapeError);
}

}  // namespace
}  // namespace reef
