// What the programs take for numbers of a model.

#include <gtest/gtest.h>

#include "../../examples/support/model_shape.hpp"

namespace reef_examples {
namespace {

TEST(Numbers, make_the_shape_of_a_model) {
  const auto shape = parse_model_shape("04x4x0128");
  ASSERT_TRUE(shape.has_value());
  EXPECT_EQ(shape->layers, 4);
  EXPECT_EQ(shape->channels, 128);
  for (const char* text : {"", "4x4", "4x4x", "4x4x128x", "4x4x128 ", " 4x4x128", "0x4x128",
                           "4x-4x8", "4x4x99999999999999999999", "0x10x4x8", "4X4X128"}) {
    EXPECT_FALSE(parse_model_shape(text).has_value()) << text;
  }
}

}  // namespace
}  // namespace reef_examples
