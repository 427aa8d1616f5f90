#include <reef/data/token_view.hpp>

#include <gtest/gtest.h>

#include <array>
#include <cstdint>
#include <vector>

namespace {

using namespace reef;

/// Three arrays of 1, 2 and 4 bytes a token, and what they are as one sequence.
struct Mixed {
  std::array<std::uint8_t, 5> bytes{1, 2, 255, 0, 7};
  std::vector<std::uint16_t> shorts{65535, 256, 3};
  std::vector<std::uint32_t> words{70000, 5};
  std::vector<std::int32_t> all{1, 2, 255, 0, 7, 65535, 256, 3, 70000, 5};

  [[nodiscard]] data::TokenView view() const {
    data::TokenView view = bytes;
    view.append(data::TokenView(shorts));
    view.append(std::span<const std::uint32_t>(words));
    return view;
  }
};

std::vector<std::int32_t> copy_of(const data::TokenView& view) {
  std::vector<std::int32_t> tokens(view.size());
  view.copy(0, tokens);
  return tokens;
}

TEST(TokenView, takes_arrays_of_any_width_as_one_sequence) {
  const Mixed mixed;
  const data::TokenView view = mixed.view();
  EXPECT_EQ(view.size(), 10U);
  EXPECT_EQ(copy_of(view), mixed.all);
  for (std::size_t i = 0; i < 10; ++i) EXPECT_EQ(view[i], mixed.all[i]);
  EXPECT_EQ(copy_of(data::TokenView(mixed.all)), mixed.all);
}

TEST(TokenView, every_part_and_every_copy_is_what_the_whole_has_there) {
  const Mixed mixed;
  const data::TokenView view = mixed.view();
  for (std::size_t first = 0; first <= 10; ++first) {
    for (std::size_t count = 0; first + count <= 10; ++count) {
      const auto from = mixed.all.begin() + static_cast<std::ptrdiff_t>(first);
      const std::vector<std::int32_t> expected(from, from + static_cast<std::ptrdiff_t>(count));
      std::vector<std::int32_t> copied(count);
      view.copy(first, copied);
      EXPECT_EQ(copied, expected);
      EXPECT_EQ(copy_of(view.part(first, count)), expected);
    }
  }
}

TEST(TokenView, has_no_pieces_without_tokens) {
  data::TokenView view;
  EXPECT_TRUE(view.empty());
  EXPECT_EQ(view.size(), 0U);
  view.append(std::span<const std::uint16_t>());
  int pieces = 0;
  view.for_each_piece([&](auto) { ++pieces; });
  EXPECT_EQ(pieces, 0);
  EXPECT_TRUE(view.empty());
}

TEST(TokenView, appending_itself_doubles_it) {
  const Mixed mixed;
  data::TokenView view = mixed.view();
  view.append(view);
  std::vector<std::int32_t> twice = mixed.all;
  twice.insert(twice.end(), mixed.all.begin(), mixed.all.end());
  EXPECT_EQ(copy_of(view), twice);
}

}  // namespace
