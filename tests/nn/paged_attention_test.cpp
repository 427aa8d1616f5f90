// Attention over pages, alone: beside sums in fp64, and however positions come.

#include <reef/nn/paged_attention.hpp>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <reef/core/random.hpp>
#include <reef/device/host.hpp>

namespace {

using namespace reef;
using device::Host;
using graph::StateForm;
using Attention = nn::PagedAttention<Host, float>;

constexpr std::int64_t H = 4, G = 2, D = 10, window = 90;

/// Queries, keys and values of the positions of one sequence.
struct Drawn {
  std::int64_t T;
  std::vector<float> q, k, v;

  Drawn(std::int64_t positions, std::uint64_t seed) : T(positions) {
    const auto draw = [&](std::int64_t count, std::uint64_t which) {
      std::vector<float> numbers(static_cast<std::size_t>(count));
      for (std::size_t i = 0; i < numbers.size(); ++i) numbers[i] = static_cast<float>(normal({seed, which}, i));
      return numbers;
    };
    q = draw(T * H * D, 1);
    k = draw(T * G * D, 2);
    v = draw(T * G * D, 3);
  }

  /// Appends positions [begin, end) to a sequence; returns their results.
  std::vector<float> append(Attention& to, int sequence, std::int64_t begin, std::int64_t end) const {
    const std::int64_t count = end - begin;
    std::vector<float> out(static_cast<std::size_t>(count * H * D));
    to.append({out.data(), {count, H, D}}, {q.data() + begin * H * D, {count, H, D}},
              {k.data() + begin * G * D, {count, G, D}}, {v.data() + begin * G * D, {count, G, D}}, {{sequence, count}});
    return out;
  }

  /// The results of positions [begin, end), by sums in fp64.
  [[nodiscard]] std::vector<double> expected(std::int64_t begin, std::int64_t end) const {
    const auto at = [](const std::vector<float>& of, std::int64_t i) { return static_cast<double>(of[static_cast<std::size_t>(i)]); };
    std::vector<double> result;
    for (std::int64_t t = begin; t < end; ++t) {
      for (std::int64_t h = 0; h < H; ++h) {
        std::vector<double> sums(D);
        double total = 0;
        for (std::int64_t s = std::max<std::int64_t>(0, t + 1 - window); s <= t; ++s) {
          const std::int64_t key = (s * G + h / (H / G)) * D;
          double score = 0;
          for (std::int64_t d = 0; d < D; ++d) score += at(q, (t * H + h) * D + d) * at(k, key + d);
          const double weight = std::exp(score / std::sqrt(static_cast<double>(D)));
          total += weight;
          for (std::int64_t d = 0; d < D; ++d) sums[static_cast<std::size_t>(d)] += weight * at(v, key + d);
        }
        for (const double sum : sums) result.push_back(sum / total);
      }
    }
    return result;
  }
};

nn::PagedAttentionOptions options(StateForm states = StateForm::as_given) {
  return {.heads = H, .kv_heads = G, .head_size = D, .positions = 150, .sequences = 2, .rows = 33, .window = window, .states = states};
}

TEST(PagedAttention, is_the_softmax_of_scores_over_the_positions_of_its_sequence) {
  Host host({.threads = 2});
  Attention attention(host, options());
  const Drawn drawn(150, 1);
  const std::vector<float> found = drawn.append(attention, attention.open(), 0, drawn.T);
  const std::vector<double> wanted = drawn.expected(0, drawn.T);
  ASSERT_EQ(found.size(), wanted.size());
  for (std::size_t i = 0; i < found.size(); ++i) ASSERT_NEAR(static_cast<double>(found[i]), wanted[i], 2e-5) << i;
}

TEST(PagedAttention, has_the_same_bits_in_any_calls_forked_and_truncated) {
  for (const StateForm states : {StateForm::as_given, StateForm::bf16, StateForm::int8}) {
    Host host({.threads = 2});
    Attention attention(host, options(states));
    const Drawn drawn(150, 2), other(150, 3);
    const std::int64_t all_free = attention.free_positions();
    const int whole = attention.open();
    const std::vector<float> wanted = drawn.append(attention, whole, 0, 150);
    attention.close(whole);
    const auto expect = [&](const std::vector<float>& found, std::int64_t begin) {
      EXPECT_TRUE(std::equal(found.begin(), found.end(), wanted.begin() + begin * H * D)) << "from " << begin;
    };
    const int sequence = attention.open();
    std::mt19937 random(4);
    for (std::int64_t begin = 0; begin < 100;) {
      const std::int64_t end = std::min<std::int64_t>(100, begin + 1 + static_cast<std::int64_t>(random() % 40));
      expect(drawn.append(attention, sequence, begin, end), begin);
      begin = end;
    }
    const int fork = attention.fork(sequence);
    attention.truncate(fork, 70);
    (void)other.append(attention, fork, 70, 90);
    expect(drawn.append(attention, sequence, 100, 150), 100);
    attention.truncate(fork, 70);
    EXPECT_EQ(attention.length(fork), 70);
    expect(drawn.append(attention, fork, 70, 90), 70);
    attention.close(fork);
    attention.close(sequence);
    EXPECT_EQ(attention.free_positions(), all_free);
  }
}

TEST(PagedAttention, refuses_what_cannot_be_and_leaves_sequences_as_they_were) {
  Host host({.threads = 1});
  Attention attention(host, options());
  const Drawn drawn(150, 5);
  const int sequence = attention.open();
  (void)drawn.append(attention, sequence, 0, 10);
  const auto refusal = [&](const auto& call) -> std::string {
    try {
      call();
      return "nothing was thrown";
    } catch (const Error& error) {
      EXPECT_EQ(attention.length(sequence), 10);
      return error.what();
    }
  };
  using testing::HasSubstr;
  EXPECT_THAT(refusal([&] { (void)drawn.append(attention, 7, 0, 1); }), HasSubstr("reef::nn::PagedAttention: sequence 7 is not open"));
  EXPECT_THAT(refusal([&] { (void)drawn.append(attention, sequence, 0, 150); }), HasSubstr("would have 160, of at most 150"));
  EXPECT_THAT(refusal([&] { (void)drawn.append(attention, sequence, 0, 0); }), HasSubstr("is given 0 positions"));
  std::vector<float> out(H * D);
  const TensorView<float> one(out.data(), {1, H, D});
  EXPECT_THAT(refusal([&] { attention.append(one, one, one, one, {{sequence, 1}}); }), HasSubstr("k is (1, 4, 10), expected (1, 2, 10)"));
  EXPECT_THAT(refusal([&] { attention.append(one, one, one, one, {{sequence, 1}, {sequence, 1}}); }), HasSubstr("stands twice"));
  EXPECT_THROW(Attention(host, {.heads = 3, .kv_heads = 2}), OptionError);
  EXPECT_THROW(Attention(host, {.positions = 0}), OptionError);
  EXPECT_EQ(drawn.append(attention, sequence, 10, 11).size(), static_cast<std::size_t>(H * D));
}

}  // namespace
