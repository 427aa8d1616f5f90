// Codecs that select: which numbers, what says which, and what that takes beside the entropy.

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <span>
#include <vector>

#include <reef/codec.hpp>
#include <reef/core/error.hpp>
#include <reef/core/random.hpp>

#include "messages.hpp"

namespace reef::test {
namespace {

using Indices = std::vector<std::uint32_t>;

/// Calls f with each codec that sends what it selects as it is.
template <class F>
void each_selecting(const F& f) {
  f(codec::TopK{.ratio = 7});
  f(codec::RandomK{.ratio = 7, .seed = 3, .draw = 2});
  f(codec::RandomK{.ratio = 1});
  f(codec::ChunkTopK{});
  f(codec::ChunkTopK{.chunk = 4096, .keep = 1});
  f(codec::ChunkTopK{.chunk = 1, .keep = 1});
  f(codec::ChunkTopK{.chunk = 7, .keep = 3});
  f(codec::ChunkTopK{.chunk = 100, .keep = 99});
}

TEST(SelectingCodecs, send_what_they_select_and_what_was_decoded_again_as_the_same_bytes) {
  each_selecting([](const auto& format) {
    for (const std::size_t n : {0U, 1U, 2U, 7U, 100U, 4096U, 5001U, 70001U}) {
      const auto count = static_cast<std::int64_t>(n);
      const Numbers values = normal_numbers(n, n + 1);
      const Indices indices = format.select(values);
      EXPECT_EQ(static_cast<std::int64_t>(indices.size()), format.kept(count)) << format.name << " of " << n;
      EXPECT_TRUE(std::is_sorted(indices.begin(), indices.end()));
      EXPECT_EQ(std::adjacent_find(indices.begin(), indices.end()), indices.end());
      EXPECT_EQ(indices.empty(), n == 0);
      EXPECT_TRUE(indices.empty() || indices.back() < n);

      const Message message = encoded(format, values);
      Numbers expected(n, 0.0F);
      for (const std::uint32_t i : indices) expected[i] = values[i];
      const Numbers back = decoded(format, message, n);
      EXPECT_EQ(back, expected) << format.name << " of " << n;
      EXPECT_EQ(encoded(format, back), message) << format.name << " of " << n;

      Message selection(format.selection_bytes(count));
      selection.resize(format.write_selection(indices, count, selection));
      Indices read(indices.size());
      EXPECT_TRUE(format.read_selection(selection, count, read));
      EXPECT_EQ(read, indices);
      EXPECT_EQ(message.size(), codec::message_head_bytes + 4 * indices.size() + selection.size());
      if (selection.empty()) continue;
      EXPECT_FALSE(format.read_selection(std::span(selection).first(selection.size() - 1), count, read)) << "cut";
      selection.push_back(std::byte{});
      EXPECT_FALSE(format.read_selection(selection, count, read)) << "longer";
    }
  });
}

/// Against a sort of each chunk, with ties, zeros, NaN and infinity among the numbers.
TEST(SelectingCodecs, chunk_top_k_keeps_the_largest_of_each_chunk_and_of_ties_the_lower_index) {
  for (std::uint64_t seed = 1; seed <= 60; ++seed) {
    const std::size_t n = 1 + random_bits({seed, 0, 0, 1}, 0) % 400;
    const auto chunk = static_cast<std::int64_t>(1 + random_bits({seed, 0, 0, 1}, 1) % 90);
    const std::int64_t keep = 1 + static_cast<std::int64_t>(random_bits({seed, 0, 0, 1}, 2)) % chunk;
    Numbers values = normal_numbers(n, seed);
    for (std::size_t i = 0; i < n; ++i) {
      const std::uint32_t kind = random_bits({seed, 0, 0, 2}, i) % 6;
      if (kind < 3) values[i] = std::array{0.0F, -0.5F, 0.5F}[kind];
      if (kind == 3 && seed % 3 == 0) values[i] = -std::numeric_limits<float>::infinity();
      if (kind == 4 && seed % 4 == 0) values[i] = std::numeric_limits<float>::quiet_NaN();
    }
    Indices expected;
    for (std::size_t begin = 0; begin < n; begin += static_cast<std::size_t>(chunk)) {
      const std::size_t size = std::min(static_cast<std::size_t>(chunk), n - begin);
      const double share = static_cast<double>(size) * static_cast<double>(keep) / static_cast<double>(chunk);
      Indices of_chunk = codec::largest_indices(std::span(values).subspan(begin, size),
                                                static_cast<std::int64_t>(std::ceil(share - 1e-9)));
      for (const std::uint32_t i : of_chunk) expected.push_back(static_cast<std::uint32_t>(begin + i));
    }
    EXPECT_EQ((codec::ChunkTopK{chunk, keep}.select(values)), expected) << seed;
  }
}

/// Their gaps begin anew with each chunk.
TEST(SelectingCodecs, indices_that_do_not_ascend_are_refused) {
  const auto blocked = [](std::uint16_t first, std::uint16_t second) {
    Message bytes(8);  // a block's count, and the places in it
    const std::uint32_t count = 2;
    std::memcpy(bytes.data(), &count, sizeof count);
    std::memcpy(bytes.data() + 4, &first, sizeof first);
    std::memcpy(bytes.data() + 6, &second, sizeof second);
    return bytes;
  };
  std::vector<std::uint32_t> indices(2);
  const codec::IndexCoding coding{codec::IndexForm::blocked, 0, 8};
  EXPECT_TRUE(codec::read_indices(blocked(3, 5), 10, coding, indices));
  EXPECT_EQ(indices, (std::vector<std::uint32_t>{3, 5}));
  EXPECT_FALSE(codec::read_indices(blocked(5, 3), 10, coding, indices));
  EXPECT_FALSE(codec::read_indices(blocked(3, 3), 10, coding, indices));
  EXPECT_FALSE(codec::read_indices(blocked(3, 10), 10, coding, indices));
}

TEST(SelectingCodecs, a_selection_that_leaves_its_chunk_is_refused) {
  const codec::ChunkTopK format{.chunk = 8, .keep = 2};
  const std::int64_t n = 24;
  const auto read = [&](const Indices& closed, const Indices& expected) {
    Message bytes(100);
    bytes.resize(codec::write_coded(closed, n, codec::least_coding(closed, n), bytes));
    Indices back(closed.size());
    return format.read_selection(bytes, n, back) && back == expected;
  };
  EXPECT_TRUE(read({0, 7, 8, 15, 16, 23}, {0, 7, 8, 15, 16, 23}));
  EXPECT_TRUE(read({0, 1, 2, 9, 10, 11}, {0, 1, 8, 15, 16, 17}));
  EXPECT_TRUE(read({6, 7, 9, 10, 12, 18}, {6, 7, 9, 10, 17, 23}));
  EXPECT_FALSE(read({0, 8, 9, 10, 11, 12}, {}));
  EXPECT_FALSE(read({8, 9, 10, 11, 12, 13}, {}));
  EXPECT_FALSE(read({0, 1, 2, 9, 10, 18}, {}));
}

/// Any byte of the selection as any other, sealed again: it is refused, or each chunk has its share.
TEST(SelectingCodecs, what_is_believed_of_a_lying_message_is_a_selection) {
  for (const codec::ChunkTopK format : {codec::ChunkTopK{.chunk = 64, .keep = 1}, codec::ChunkTopK{.chunk = 64, .keep = 9}}) {
    const std::size_t n = 256;
    const auto count = static_cast<std::int64_t>(n);
    const Message message = encoded(format, normal_numbers(n, 4));
    const auto kept = static_cast<std::size_t>(format.kept(count));
    const std::size_t first = codec::message_head_bytes + 4 * kept;
    int refused = 0;
    int believed = 0;
    for (std::size_t at = first; at < message.size(); ++at) {
      for (unsigned byte = 0; byte < 256; ++byte) {
        Message lying = message;
        lying[at] = static_cast<std::byte>(byte);
        codec::seal_message(lying, {codec::CodecId::chunk_top_k, format.name, format.parameter(count), count},
                            lying.size() - codec::message_head_bytes);
        Numbers out(n, 0.0F);
        try {
          format.decode(lying, out);
          ++believed;
          for (std::size_t begin = 0; begin < n; begin += 64) {
            EXPECT_EQ(std::count(out.begin() + static_cast<std::ptrdiff_t>(begin),
                                 out.begin() + static_cast<std::ptrdiff_t>(begin + 64), 0.0F),
                      64 - format.keep);
          }
        } catch (const DecodeError&) {
          ++refused;
          EXPECT_EQ(out, Numbers(n, 0.0F));
        }
      }
    }
    EXPECT_GT(refused, 500);
    EXPECT_GT(believed, 50);
  }
}

/// Of chunks that keep as many each, the entropy of which.
TEST(SelectingCodecs, indices_of_chunks_take_little_more_than_their_entropy) {
  const std::int64_t n = 1 << 20;
  const Numbers values = normal_numbers(static_cast<std::size_t>(n), 2);
  for (const std::int64_t keep : {1024, 256, 64, 32, 8}) {
    const codec::ChunkTopK format{.chunk = 4096, .keep = keep};
    Message selection(format.selection_bytes(n));
    const Bytes bytes = format.write_selection(format.select(values), n, selection);
    const double of_chunk = (std::lgamma(4097.0) - std::lgamma(static_cast<double>(keep) + 1) -
                             std::lgamma(static_cast<double>(4096 - keep) + 1)) / std::log(2.0);
    EXPECT_LT(8 * static_cast<double>(bytes), 1.03 * 256 * of_chunk) << keep;
  }
}

TEST(SelectingCodecs, places_in_chunks_travel_where_they_take_least) {
  const codec::ChunkTopK format{.chunk = 4096, .keep = 1};
  const std::size_t n = 1 << 18;
  const Numbers values = normal_numbers(n, 3);
  Message selection(format.selection_bytes(static_cast<std::int64_t>(n)));
  const Bytes bytes = format.write_selection(format.select(values), static_cast<std::int64_t>(n), selection);
  EXPECT_EQ(bytes, 2 + 64 * 12 / 8);
  EXPECT_EQ(codec::coding_said(selection).form, codec::IndexForm::in_chunks);
}

/// SparseLoCo's 64 of 4096 and 2 bits: 14 bits a number that is sent there, 146 times less than fp32.
TEST(SelectingCodecs, two_bits_of_64_in_4096_take_215_times_less_than_fp32) {
  const std::size_t n = std::size_t{1} << 22;
  const Numbers values = normal_numbers(n, 5);
  const Message message = encoded(codec::Chain<codec::ChunkTopK, codec::TwoBit>{}, values);
  EXPECT_GT(4 * static_cast<double>(n) / static_cast<double>(message.size()), 215.4) << message.size();
}

TEST(SelectingCodecs, a_chain_decodes_what_its_second_makes_of_what_its_first_selects) {
  const std::size_t n = 5000;
  const Numbers values = normal_numbers(n, 6);
  const auto check = [&](const auto& selection, const auto& numbers, float scale) {
    const codec::Chain format{selection, numbers};
    const Indices indices = selection.select(values);
    Numbers kept;
    for (const std::uint32_t i : indices) kept.push_back(values[i]);
    const Numbers kept_back = decoded(numbers, encoded(numbers, kept), kept.size());
    Numbers expected(n, 0.0F);
    for (std::size_t i = 0; i < indices.size(); ++i) expected[indices[i]] = kept_back[i] * scale;
    EXPECT_EQ(decoded(format, encoded(format, values), n), expected) << format.name;
  };
  check(codec::TopK{.ratio = 10}, codec::Uniform8{}, 1);
  check(codec::ChunkTopK{.chunk = 100, .keep = 7}, codec::TwoBit{.block = 50}, 1);
  check(codec::RandomK{.ratio = 5, .unbiased = true}, codec::Blockwise8{}, 5);
  check(codec::RandomK{.ratio = 5}, codec::Chain<codec::TopK, codec::Uniform8>{{.ratio = 4}, {}}, 1);
  EXPECT_EQ((codec::Chain<codec::TopK, codec::Uniform8>::name), "chain(top_k, uniform8)");
}

/// What is inside of a chain is not believed because the outside is.
TEST(SelectingCodecs, a_chain_refuses_what_its_second_refuses_and_a_message_longer_than_it_is) {
  const codec::Chain<codec::TopK, codec::Uniform8> format{{.ratio = 4}, {}};
  const std::size_t n = 40;
  const Message message = encoded(format, normal_numbers(n, 7));
  for (std::size_t at = codec::message_head_bytes; at < message.size(); ++at) {
    Message lying = message;
    lying[at] ^= std::byte{0x40};
    codec::seal_message(lying, format.head(static_cast<std::int64_t>(n)), lying.size() - codec::message_head_bytes);
    Numbers out(n, 7.0F);
    if (at < codec::message_head_bytes + format.numbers.encoded_bytes(10)) {
      EXPECT_THROW(format.decode(lying, out), DecodeError) << at;
      EXPECT_EQ(out, Numbers(n, 7.0F));
    }
  }
}

TEST(SelectingCodecs, random_k_draws_every_number_alike_and_by_the_draw) {
  const std::size_t n = 50;
  const Numbers values(n, 1.0F);
  std::vector<int> times(n);
  std::vector<int> pairs(n);  // with its neighbour
  const int draws = 20000;
  for (int draw = 0; draw < draws; ++draw) {
    const Indices indices = codec::RandomK{.ratio = 5, .seed = 1, .draw = static_cast<std::uint32_t>(draw)}.select(values);
    for (std::size_t i = 0; i < indices.size(); ++i) {
      ++times[indices[i]];
      if (i > 0 && indices[i] == indices[i - 1] + 1) ++pairs[indices[i]];
    }
  }
  // Binomial: a fifth of the draws each, 57 its deviation; of neighbours 10 * 9 / (50 * 49) of them, 27 its deviation.
  for (const int count : times) EXPECT_NEAR(count, 4000, 5 * 57);
  for (std::size_t i = 1; i < n; ++i) EXPECT_NEAR(pairs[i], draws * 90.0 / 2450, 5 * 27);

  const codec::RandomK format{.ratio = 5, .seed = 1, .draw = 3};
  const Message message = encoded(format, values);
  Numbers out(n);
  for (const codec::RandomK other : {codec::RandomK{5, 1, 4}, codec::RandomK{5, 2, 3}, codec::RandomK{5, 1, 3, true}}) {
    EXPECT_NE(encoded(other, values), message);
    EXPECT_THROW(other.decode(message, out), DecodeError);
  }
}

TEST(SelectingCodecs, random_k_is_unbiased_where_asked_and_its_messages_add) {
  const std::size_t n = 30;
  const Numbers values = normal_numbers(n, 8);
  std::vector<double> sum(n);
  const int draws = 20000;
  for (int draw = 0; draw < draws; ++draw) {
    const codec::RandomK format{.ratio = 4, .seed = 2, .draw = static_cast<std::uint32_t>(draw), .unbiased = true};
    const Numbers back = decoded(format, encoded(format, values), n);
    for (std::size_t i = 0; i < n; ++i) sum[i] += static_cast<double>(back[i]);
  }
  for (std::size_t i = 0; i < n; ++i) EXPECT_NEAR(sum[i] / draws, values[i], 0.08);

  const codec::RandomK format{.ratio = 4, .unbiased = true};
  const Numbers others = normal_numbers(n, 9);
  Numbers both = values;
  for (std::size_t i = 0; i < n; ++i) both[i] += others[i];
  const auto payload = [](const Message& message) {
    Numbers numbers((message.size() - codec::message_head_bytes) / sizeof(float));
    std::memcpy(numbers.data(), message.data() + codec::message_head_bytes, numbers.size() * sizeof(float));
    return numbers;
  };
  const Numbers a = payload(encoded(format, values));
  const Numbers b = payload(encoded(format, others));
  const Numbers all = payload(encoded(format, both));
  EXPECT_EQ(all.size(), 8);
  for (std::size_t i = 0; i < all.size(); ++i) EXPECT_EQ(all[i], a[i] + b[i]);
}

TEST(SelectingCodecs, a_residual_is_what_was_not_sent_and_conserves_where_sent_is_rescaled) {
  const Numbers values = normal_numbers(100, 10);
  const codec::RandomK format{.ratio = 4, .unbiased = true};
  Numbers left = values;
  Message message(format.encoded_bytes(100));
  message.resize(format.encode_residual(left, message));
  const Numbers back = decoded(format, message, 100);
  for (std::size_t i = 0; i < 100; ++i) EXPECT_EQ(left[i], values[i] - back[i]);
}

}  // namespace
}  // namespace reef::test
