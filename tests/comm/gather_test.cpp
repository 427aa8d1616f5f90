#include <reef/comm/gather.hpp>

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include <gtest/gtest.h>

namespace {

using namespace reef;

class Gathering : public testing::TestWithParam<comm::Transport> {
protected:
  static comm::ProgressOptions options() {
    comm::ProgressOptions options;
    options.deadline = 40;
    options.transport = GetParam();
    options.piece_bytes = 100;
    return options;
  }

  /// Of rank r: none of rank 0, then more than a piece holds, zero bytes among them.
  static std::string text_of(int rank) {
    std::string text;
    for (int i = 0; i < 70 * rank; ++i) text.push_back(static_cast<char>(rank * i % 256));
    return text;
  }

  comm::Communicator world;
  comm::Progress progress{world, options()};
};

INSTANTIATE_TEST_SUITE_P(Transports, Gathering,
                         testing::Values(comm::Transport::messages, comm::Transport::window),
                         [](const auto& way) {
                           return way.param == comm::Transport::messages ? "messages" : "window";
                         });

TEST_P(Gathering, numbers_of_all_ranks_come_whole_to_all_of_them) {
  constexpr std::uint64_t large = ~std::uint64_t{0} - 1000;  // a double would round it
  const auto rank = static_cast<std::uint64_t>(world.rank());
  const auto all = comm::gather_numbers(progress, "numbers", large + rank);
  ASSERT_EQ(std::ssize(all), world.size());
  for (std::size_t r = 0; r < all.size(); ++r) EXPECT_EQ(all[r], large + r);
}

TEST_P(Gathering, of_lists_as_long_on_all_ranks_all_have_the_largest_number_of_each_place) {
  const auto rank = static_cast<std::uint64_t>(world.rank());
  const auto last = static_cast<std::uint64_t>(world.size()) - 1;
  const std::vector<std::uint64_t> mine{rank, last - rank, 7, ~rank};
  EXPECT_EQ(comm::largest_of_ranks(progress, "lists", mine),
            (std::vector<std::uint64_t>{last, last, 7, ~std::uint64_t{0}}));
  EXPECT_TRUE(comm::largest_of_ranks(progress, "nothing", std::vector<int>()).empty());
  const std::vector<int> other(world.rank() == 0 ? 1 : 2, world.rank());
  EXPECT_EQ(comm::largest_of_ranks(progress, "other", other), other);
}

TEST_P(Gathering, texts_of_any_length_come_to_rank_0_by_rank) {
  const auto texts = comm::gather_texts(progress, "texts", text_of(world.rank()));
  EXPECT_EQ(std::ssize(texts), world.rank() == 0 ? world.size() : 0);
  for (std::size_t r = 0; r < texts.size(); ++r) {
    EXPECT_EQ(texts[r], text_of(static_cast<int>(r)));
  }
  EXPECT_EQ(comm::gather_texts(progress, "nothing", "").size(), texts.size());
}

TEST_P(Gathering, a_text_that_would_take_all_memory_is_refused_by_who_is_told_so) {
  const std::size_t claimed = std::size_t{1} << 45;
  if (world.size() == 1) GTEST_SKIP() << "there is nobody who could claim that";
  if (world.rank() == 1) {  // it says how long its text is, and leaves
    comm::gather_numbers(progress, "texts (bytes)", claimed);
    return;
  }
  try {
    comm::gather_texts(progress, "texts", "short");
    ADD_FAILURE() << "no MpiError";
  } catch (const comm::MpiError& error) {
    EXPECT_NE(std::string(error.what()).find("its text of 'texts' has 35184372088832 bytes"), std::string::npos) << error.what();
  }
}

TEST_P(Gathering, the_text_of_rank_0_comes_to_all_whatever_they_had) {
  for (const int length : {0, 1, 3}) {
    EXPECT_EQ(comm::broadcast_text(progress, "text",
                                   world.rank() == 0 ? text_of(length) : text_of(world.rank())),
              text_of(length));
  }
}

}  // namespace
