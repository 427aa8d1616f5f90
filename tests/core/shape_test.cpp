#include <reef/core/shape.hpp>

#include <gtest/gtest.h>

#include <cstdint>

namespace {

using reef::Shape;
using reef::ShapeError;

TEST(Shape, a_scalar_has_no_extents_and_one_element) {
  const Shape scalar;
  EXPECT_EQ(scalar.rank(), 0u);
  EXPECT_EQ(scalar.size(), 1);
  EXPECT_EQ(scalar.rows(), 1);
  EXPECT_EQ(scalar.last(), 1);
  EXPECT_EQ(scalar.text(), "()");
}

TEST(Shape, size_is_the_product_of_the_extents_and_rows_leaves_out_the_last) {
  const Shape shape{3, 5, 7};
  EXPECT_EQ(shape.rank(), 3u);
  EXPECT_EQ(shape[0], 3);
  EXPECT_EQ(shape[2], 7);
  EXPECT_EQ(shape.size(), 105);
  EXPECT_EQ(shape.rows(), 15);
  EXPECT_EQ(shape.last(), 7);
  EXPECT_EQ(shape.rows() * shape.last(), shape.size());
}

TEST(Shape, a_vector_has_one_row) {
  EXPECT_EQ(Shape{9}.rows(), 1);
  EXPECT_EQ(Shape{9}.last(), 9);
}

TEST(Shape, a_zero_extent_is_an_empty_tensor) {
  EXPECT_EQ((Shape{4, 0, 2}).size(), 0);
  EXPECT_EQ((Shape{4, 0, 2}).rows(), 0);
  EXPECT_EQ((Shape{4, 0}).rows(), 4);
}

TEST(Shape, sizes_beyond_32_bits_are_exact) {
  EXPECT_EQ((Shape{1 << 20, 1 << 20}).size(), std::int64_t{1} << 40);
}

TEST(Shape, with_last_changes_the_last_extent_alone) {
  const Shape shape{2, 3};
  EXPECT_EQ(shape.with_last(8), (Shape{2, 8}));
  EXPECT_EQ(shape, (Shape{2, 3}));
  EXPECT_EQ(Shape{}.with_last(8), Shape{8});
}

TEST(Shape, shapes_of_different_rank_are_different) {
  EXPECT_NE((Shape{2, 3}), (Shape{2, 3, 1}));
  EXPECT_NE((Shape{2, 3}), (Shape{3, 2}));
  EXPECT_NE(Shape{}, Shape{1});
}

TEST(Shape, a_fifth_extent_is_refused) {
  EXPECT_NO_THROW((Shape{1, 2, 3, 4}));
  EXPECT_THROW((Shape{1, 2, 3, 4, 5}), ShapeError);
}

TEST(Shape, a_negative_extent_is_refused) { EXPECT_THROW((Shape{2, -1}), ShapeError); }

TEST(Shape, more_elements_than_any_memory_holds_are_refused_and_no_product_overflows) {
  constexpr std::int64_t large = std::int64_t{1} << 40;
  EXPECT_THROW((Shape{large, large}), ShapeError);
  EXPECT_THROW((Shape{large, 0, large}), ShapeError);  // its rows would overflow
  EXPECT_THROW((void)Shape({large, 2}).with_last(large), ShapeError);
  EXPECT_THROW((void)Shape({large, 2}).with_last(-1), ShapeError);
  EXPECT_THROW(Shape{INT64_MAX}, ShapeError);
  EXPECT_EQ((Shape{Shape::max_size}).size(), Shape::max_size);
}

TEST(Shape, text_reads_like_the_comments_in_the_code) {
  EXPECT_EQ((Shape{8, 64, 128}).text(), "(8, 64, 128)");
}

static_assert(Shape{2, 3, 4}.size() == 24, "shapes are usable in constant expressions");

}  // namespace
