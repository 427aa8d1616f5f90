#include <reef/core/element.hpp>

#include <gtest/gtest.h>

#include <cstdint>

namespace {

using namespace reef;

static_assert(element_of<float> == Element::float32);
static_assert(element_of<double> == Element::float64);
static_assert(element_of<std::int32_t> == Element::int32);
static_assert(element_of<std::uint8_t> == Element::uint8);
static_assert(real<float> && real<double> && !real<std::int32_t> && !real<std::uint8_t>);

TEST(Element, has_the_size_of_its_type) {
  EXPECT_EQ(size_of(element_of<float>), sizeof(float));
  EXPECT_EQ(size_of(element_of<double>), sizeof(double));
  EXPECT_EQ(size_of(element_of<std::int32_t>), sizeof(std::int32_t));
  EXPECT_EQ(size_of(element_of<std::uint8_t>), sizeof(std::uint8_t));
}

TEST(Element, has_a_name_of_its_own) {
  EXPECT_EQ(name_of(Element::float32), "fp32");
  EXPECT_EQ(name_of(Element::float64), "fp64");
  EXPECT_EQ(name_of(Element::int32), "int32");
  EXPECT_EQ(name_of(Element::uint8), "uint8");
}

}  // namespace
