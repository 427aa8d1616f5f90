#include <reef/core/tensor_view.hpp>

#include <array>
#include <string>
#include <type_traits>

#include <gtest/gtest.h>

namespace {

using reef::AnyView;
using reef::Element;
using reef::Shape;
using reef::ShapeError;
using reef::TensorView;

TEST(TensorView, an_empty_view_is_false_and_a_view_of_memory_is_true) {
  std::array<float, 6> memory{};
  EXPECT_FALSE(TensorView<float>{});
  EXPECT_TRUE((TensorView<float>{memory.data(), {2, 3}}));
}

TEST(TensorView, copies_name_the_same_elements) {
  std::array<float, 6> memory{};
  const TensorView<float> view(memory.data(), {2, 3});
  const TensorView<float> copy = view;
  copy.span()[4] = 7.0f;
  EXPECT_EQ(memory[4], 7.0f);
  EXPECT_EQ(view.span()[4], 7.0f);
  EXPECT_EQ(view.span().size(), 6u);
}

TEST(TensorView, a_view_to_read_is_made_of_a_view_to_write_but_not_the_reverse) {
  static_assert(std::is_convertible_v<TensorView<float>, TensorView<const float>>);
  static_assert(!std::is_convertible_v<TensorView<const float>, TensorView<float>>);
  static_assert(!std::is_convertible_v<TensorView<double>, TensorView<const float>>);
  std::array<float, 2> memory{1.0f, 2.0f};
  const TensorView<const float> view = TensorView<float>(memory.data(), {2});
  EXPECT_EQ(view.data(), memory.data());
  EXPECT_EQ(view.shape(), Shape{2});
}

TEST(AnyView, remembers_element_type_shape_and_bytes) {
  std::array<double, 6> memory{};
  const AnyView any = TensorView<double>(memory.data(), {2, 3});
  EXPECT_EQ(any.element(), Element::float64);
  EXPECT_EQ(any.shape(), (Shape{2, 3}));
  EXPECT_EQ(any.bytes(), 48u);
  EXPECT_EQ(any.as<double>().data(), memory.data());
  EXPECT_EQ(any.as<const double>().data(), memory.data());
}

TEST(AnyView, another_element_type_is_refused_and_both_types_are_named) {
  std::array<float, 1> memory{};
  const AnyView any = TensorView<float>(memory.data(), {1});
  try {
    (void)any.as<double>();
    FAIL() << "an fp32 tensor was read as fp64";
  } catch (const ShapeError& error) {
    const std::string text = error.what();
    EXPECT_NE(text.find("fp32"), std::string::npos) << text;
    EXPECT_NE(text.find("fp64"), std::string::npos) << text;
  }
}

TEST(Element, sizes_are_those_of_the_cpp_types) {
  EXPECT_EQ(reef::size_of(reef::element_of<float>), sizeof(float));
  EXPECT_EQ(reef::size_of(reef::element_of<double>), sizeof(double));
  EXPECT_EQ(reef::size_of(reef::element_of<std::int32_t>), sizeof(std::int32_t));
  EXPECT_EQ(reef::size_of(reef::element_of<std::uint8_t>), sizeof(std::uint8_t));
}

}  // namespace
