#include <reef/data/sampler.hpp>

#include <gtest/gtest.h>

#include <cstdint>
#include <map>
#include <set>
#include <vector>

namespace {

using namespace reef;

std::vector<std::uint8_t> counting_bytes(std::size_t size) {
  std::vector<std::uint8_t> tokens(size);
  for (std::size_t i = 0; i < size; ++i) tokens[i] = static_cast<std::uint8_t>(i % 253);
  return tokens;
}

struct Batch {
  std::vector<std::int32_t> tokens;
  std::vector<std::int32_t> targets;
  friend bool operator==(const Batch&, const Batch&) = default;
};

/// Tokens and targets of (B, T) as a model's inputs.
std::vector<AnyView> inputs_of(Batch& batch, std::int64_t context) {
  const Shape shape{static_cast<std::int64_t>(batch.tokens.size()) / context, context};
  return {{batch.tokens.data(), shape, Element::int32},
          {batch.targets.data(), shape, Element::int32}};
}

Batch take(const data::Sampler& sampler, std::uint64_t first, std::int64_t batch) {
  const auto size = static_cast<std::size_t>(batch * sampler.context());
  Batch result{std::vector<std::int32_t>(size), std::vector<std::int32_t>(size)};
  sampler.fill(first, inputs_of(result, sampler.context()));
  return result;
}

TEST(Sampler, fills_windows_whose_targets_are_the_next_tokens) {
  const auto tokens = counting_bytes(1000);
  const data::Sampler sampler(tokens, 7, 1);
  const Batch batch = take(sampler, 300, 5);
  for (std::size_t b = 0; b < 5; ++b) {
    const auto start = static_cast<std::size_t>(sampler.start_of(300 + b));
    for (std::size_t t = 0; t < 7; ++t) {
      EXPECT_EQ(batch.tokens[b * 7 + t], tokens[start + t]);
      EXPECT_EQ(batch.targets[b * 7 + t], tokens[start + t + 1]);
    }
  }
}

TEST(Sampler, an_epoch_visits_each_window_once_and_the_next_in_another_order) {
  const auto tokens = counting_bytes(1003);
  const data::Sampler sampler(tokens, 10, 5);
  const auto windows = static_cast<std::uint64_t>(sampler.windows());
  EXPECT_EQ(windows, 99U);
  std::vector<std::vector<std::int64_t>> orders;
  std::set<std::int64_t> shifts;
  for (std::uint64_t epoch = 0; epoch < 20; ++epoch) {
    std::set<std::int64_t> starts;
    std::vector<std::int64_t> order;
    for (std::uint64_t i = 0; i < windows; ++i) {
      const std::int64_t start = sampler.start_of(epoch * windows + i);
      EXPECT_GE(start, 0);
      EXPECT_LE(start + 10 + 1, 1003);
      starts.insert(start);
      order.push_back(start / 10);
    }
    EXPECT_EQ(starts.size(), windows);
    EXPECT_EQ(*starts.rbegin() - *starts.begin(), 98 * 10);
    shifts.insert(*starts.begin());
    if (epoch == 0) {
      EXPECT_EQ(*starts.begin(), 0);
    }
    for (const auto& other : orders) EXPECT_NE(order, other);
    orders.push_back(order);
  }
  EXPECT_GT(shifts.size(), 4U);
  EXPECT_LT(*shifts.rbegin(), 10);
}

TEST(Sampler, no_window_leaves_the_tokens_however_few_there_are) {
  for (std::int64_t context = 1; context <= 9; ++context) {
    for (std::size_t size = static_cast<std::size_t>(context) + 1; size < 60; ++size) {
      const auto tokens = counting_bytes(size);
      const data::Sampler sampler(tokens, context, 3);
      for (std::uint64_t sample = 0; sample < 200; ++sample) {
        const std::int64_t start = sampler.start_of(sample);
        ASSERT_GE(start, 0);
        ASSERT_LE(start + context + 1, static_cast<std::int64_t>(size));
      }
    }
  }
}

TEST(Sampler, a_resumed_run_sees_exactly_what_it_would_have_seen) {
  const auto tokens = counting_bytes(5000);
  const data::Sampler run(tokens, 16, 9);
  std::vector<Batch> all;
  for (std::uint64_t step = 0; step < 200; ++step) all.push_back(take(run, 6 * step, 6));
  const data::Sampler resumed(tokens, 16, 9);  // 200 steps cross epochs
  for (std::uint64_t step = 77; step < 200; ++step) {
    EXPECT_EQ(take(resumed, 6 * step, 6), all[step]);
  }
}

TEST(Sampler, a_batch_is_its_samples_whatever_the_batch_size) {
  const auto tokens = counting_bytes(900);
  const data::Sampler sampler(tokens, 8, 2);
  const Batch whole = take(sampler, 100, 12);
  Batch parts;
  for (const auto& [first, count] :
       std::map<std::uint64_t, std::int64_t>{{100, 5}, {105, 1}, {106, 6}}) {
    const Batch part = take(sampler, first, count);
    parts.tokens.insert(parts.tokens.end(), part.tokens.begin(), part.tokens.end());
    parts.targets.insert(parts.targets.end(), part.targets.begin(), part.targets.end());
  }
  EXPECT_EQ(parts, whole);
  EXPECT_NE(take(data::Sampler(tokens, 8, 3), 100, 12), whole);
}

TEST(Sampler, refuses_inputs_of_another_context) {
  const auto tokens = counting_bytes(1000);
  const data::Sampler sampler(tokens, 8, 0);
  Batch batch{std::vector<std::int32_t>(24), std::vector<std::int32_t>(24)};
  EXPECT_NO_THROW(sampler.fill(0, inputs_of(batch, 8)));
  EXPECT_THROW(sampler.fill(0, inputs_of(batch, 6)), ShapeError);
  EXPECT_THROW(sampler.fill(0, {}), ShapeError);
  EXPECT_THROW(data::Validation(tokens, 8).fill(0, inputs_of(batch, 12)), ShapeError);
}

TEST(Sampler, says_what_is_missing_when_the_tokens_fill_no_window) {
  const auto tokens = counting_bytes(8);
  EXPECT_NO_THROW(data::Sampler(tokens, 7, 0));
  EXPECT_THROW(data::Sampler(tokens, 8, 0), OptionError);
  EXPECT_THROW(data::Sampler(tokens, 0, 0), OptionError);
  EXPECT_THROW(data::Sampler({}, 1, 0), OptionError);
}

TEST(Validation, makes_each_token_but_the_first_a_target_once_and_in_order) {
  for (const std::size_t size : {2U, 9U, 16U, 17U, 18U, 100U}) {
    const auto tokens = counting_bytes(size);
    const data::Validation validation(tokens, 8);
    std::vector<std::uint8_t> targets;
    std::int64_t counted = 0;
    constexpr std::int64_t batch = 3;
    for (std::int64_t first = 0; first < validation.windows(); first += batch) {
      Batch filled{std::vector<std::int32_t>(batch * 8), std::vector<std::int32_t>(batch * 8)};
      counted += validation.fill(first, inputs_of(filled, 8));
      const auto& [in, out] = filled;
      for (std::size_t i = 0; i < out.size(); ++i) {
        if (out[i] < 0) {
          EXPECT_EQ(out[i], -1);
          continue;
        }
        EXPECT_EQ(in[i], tokens[targets.size()]);
        targets.push_back(static_cast<std::uint8_t>(out[i]));
      }
    }
    EXPECT_EQ(counted, static_cast<std::int64_t>(size) - 1);
    EXPECT_EQ(targets, std::vector<std::uint8_t>(tokens.begin() + 1, tokens.end()));
  }
  EXPECT_THROW(data::Validation(counting_bytes(1), 8), OptionError);
}

}  // namespace
