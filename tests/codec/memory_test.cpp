// Codecs with memory: nothing is lost, both ends agree, and a step that is skipped or refused changes nothing.

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <type_traits>
#include <vector>

#include <reef/codec.hpp>
#include <reef/core/error.hpp>
#include <reef/device/host.hpp>

#include "../support/same_bits.hpp"
#include "messages.hpp"

namespace reef::test {
namespace {

std::vector<std::uint32_t> bits_of_all(const Numbers& values) {
  std::vector<std::uint32_t> bits;
  for (const float value : values) bits.push_back(std::bit_cast<std::uint32_t>(value));
  return bits;
}

/// Calls f with the codecs that ErrorFeedback and Ef21 are tried on.
template <class F>
void each_inner(const F& f) {
  f(codec::TopK{.ratio = 7});
  f(codec::ChunkTopK{.chunk = 40, .keep = 6});
  f(codec::RandomK{.ratio = 7});
  f(codec::Dense{});
  f(codec::Bf16{});
  f(codec::Blockwise8{.block = 64});
  f(codec::NormalFloat4{});
  f(codec::Uniform8{});
  f(codec::Fp8{.block = 30});
  f(codec::TwoBit{});
  f(codec::Sign{.block = 50});
  f(codec::Dct<codec::ChunkTopK>{{.chunk = 40, .keep = 6}, 16});
  f(codec::Chain<codec::TopK, codec::Uniform8>{{.ratio = 7}, {}});
  f(codec::Chain<codec::RandomK, codec::Chain<codec::ChunkTopK, codec::TwoBit>>{{.ratio = 2}, {{16, 4}, {}}});
}

/// What they send of a number is the number.
template <class Codec>
inline constexpr bool sends_as_they_are = codec::selecting_codec<Codec> || Codec::lossless;

template <class Codec>
void expect_the_same_on_threads(const Codec& format) {
  const std::size_t n = 200'003;
  const Numbers values = normal_numbers(n, 7);
  const Numbers state = normal_numbers(static_cast<std::size_t>(codec::state_of(format, std::ssize(values))), 8);
  const Numbers received_state(static_cast<std::size_t>(codec::received_state_of(format, std::ssize(values))), 0.5F);
  struct Result {
    Message message;
    Numbers next, received_next, decoded;
  };
  const auto run = [&](const codec::Threads& threads) {
    Result result{Message(format.encoded_bytes(std::ssize(values))), state, received_state, Numbers(n)};
    result.message.resize(codec::encode(format, std::span(values), state, result.next, result.message, threads));
    codec::decode(format, std::span<const std::byte>(result.message), received_state, result.received_next,
                  result.decoded, threads);
    return result;
  };
  const Result alone = run({});
  device::Host host({.threads = 3});
  device::Host::Lane lane(host, "codec");
  lane.submit([&](device::Host::Lane& own) {
    const Result shared = run(own);
    EXPECT_TRUE(same_bits(shared.message, alone.message));
    EXPECT_EQ(bits_of_all(shared.next), bits_of_all(alone.next));
    EXPECT_EQ(bits_of_all(shared.received_next), bits_of_all(alone.received_next));
    EXPECT_EQ(bits_of_all(shared.decoded), bits_of_all(alone.decoded));
  });
  lane.synchronize();
}

TEST(CodecMemory, is_the_same_on_any_threads) {
  expect_the_same_on_threads(codec::ErrorFeedback<codec::TopK>{{.ratio = 7}, 0.9F});
  expect_the_same_on_threads(codec::ErrorFeedback<codec::Blockwise8>{});
  expect_the_same_on_threads(codec::Ef21<codec::Chain<codec::TopK, codec::Uniform8>>{});
  expect_the_same_on_threads(codec::Chosen::of("ef+top-k:9+nf4"));
  expect_the_same_on_threads(codec::Chosen::of("ef21+sign"));
}

TEST(CodecMemory, error_feedback_loses_nothing) {
  each_inner([](const auto& inner) {
    using Inner = std::remove_cvref_t<decltype(inner)>;
    for (const std::size_t n : {0U, 1U, 2U, 129U, 5000U}) {
      const codec::ErrorFeedback<Inner> format{inner};
      Numbers state(n, 0.0F);
      for (std::uint64_t step = 0; step < 20; ++step) {
        const Numbers values = normal_numbers(n, 100 + step);
        Numbers next(n);
        const Message message = encoded_after(format, values, state, next);
        Numbers received(n);
        codec::decode(format, message, {}, {}, received);
        for (std::size_t i = 0; i < n; ++i) {
          const float all = values[i] + state[i];
          const float kept = received[i] + next[i];
          const float largest = std::max(std::abs(all), std::abs(received[i]));
          const float most = sends_as_they_are<Inner> ? 0 : std::nextafter(largest, 100.0F) - largest;
          EXPECT_LE(std::abs(kept - all), most) << format.name << ", " << i << " at step " << step;
          EXPECT_TRUE(!sends_as_they_are<Inner> || received[i] == 0 || next[i] == 0);
        }
        EXPECT_EQ(message, encoded(inner, [&] {
                    Numbers sum = values;
                    for (std::size_t i = 0; i < n; ++i) sum[i] += state[i];
                    return sum;
                  }()));
        state = next;
      }
    }
  });
}

TEST(CodecMemory, what_of_the_residual_is_kept_decays) {
  const codec::ErrorFeedback<codec::TopK> format{{.ratio = 4}, 0.5F};
  const Numbers values{4, 1, 1, 1};
  Numbers state(4, 0.0F);
  encoded_after(format, values, state, state);
  EXPECT_EQ(state, (Numbers{0, 1, 1, 1}));
  encoded_after(format, {0, 0, 0, 0}, state, state);
  EXPECT_EQ(state, (Numbers{0, 0, 0.5F, 0.5F})) << "the first of the ties was sent";
}

TEST(CodecMemory, both_ends_of_ef21_have_the_same_estimate_and_it_comes_near) {
  each_inner([](const auto& inner) {
    using Inner = std::remove_cvref_t<decltype(inner)>;
    const codec::Ef21<Inner> format{inner};
    const std::size_t n = 100;
    const Numbers values = normal_numbers(n, 5);
    Numbers sender(n, 0.0F);
    Numbers receiver(n, 0.0F);
    for (int step = 0; step < 200; ++step) {
      const Message message = encoded_after(format, values, sender, sender);
      Numbers received(n);
      codec::decode(format, message, receiver, receiver, received);
      EXPECT_EQ(bits_of_all(sender), bits_of_all(receiver)) << format.name;
      EXPECT_EQ(bits_of_all(received), bits_of_all(receiver));
    }
    if (format.name.find(codec::RandomK::name) != format.name.npos) return;  // one draw, as here, sends the same ones
    for (std::size_t i = 0; i < n; ++i) EXPECT_NEAR(receiver[i], values[i], 1e-3) << format.name;
  });
}

TEST(CodecMemory, changes_are_sent_of_what_went_as_it_is_the_first_time) {
  each_inner([](const auto& inner) {
    using Inner = std::remove_cvref_t<decltype(inner)>;
    const codec::Delta<Inner> format{inner, 2};
    const std::size_t n = 100;
    Numbers values = normal_numbers(n, 5);
    Numbers sender(n + 1, 0.0F);
    Numbers receiver(n + 1, 0.0F);
    for (std::uint64_t visit = 0; visit < 4; ++visit) {
      Numbers change(n);
      for (std::size_t i = 0; i < n; ++i) change[i] = values[i] - sender[i];
      const Message message = encoded_after(format, values, sender, sender);
      EXPECT_TRUE(
          same_bits(message, visit == 0 ? encoded(codec::Dense{}, values) : encoded(inner, change)))
          << format.name << ", visit " << visit;
      Numbers received(n);
      format.decode(message, receiver, receiver, received);
      EXPECT_EQ(bits_of_all(sender), bits_of_all(receiver)) << format.name;
      received.push_back(1);
      EXPECT_EQ(bits_of_all(received), bits_of_all(receiver));
      received.pop_back();
      EXPECT_EQ(received == values, visit == 0 || codec::is_lossless(inner)) << format.name << ", visit " << visit;
      for (float& value : values) value *= 1.125F;
    }
    Numbers nothing;
    EXPECT_EQ(encoded_after(format, values, nothing, nothing), encoded(codec::Dense{}, values)) << "without memory";
  });
  EXPECT_THROW(static_cast<void>(codec::Delta<codec::TopK>{{}, 0}.encoded_bytes(1)), OptionError);
  EXPECT_EQ(codec::period_of(codec::Delta<codec::TopK>{{}, 7}), 7);
  EXPECT_EQ(codec::period_of(codec::Ef21<codec::TopK>{}), 0);
}

TEST(CodecMemory, a_refused_change_or_memory_changes_nothing) {
  const codec::Delta<codec::Uniform8> format;
  const Numbers values = normal_numbers(50, 8);
  for (const float seen : {0.0F, 1.0F}) {
    Numbers state = normal_numbers(50, 9);
    state.push_back(seen);
    const Numbers before = state;
    Numbers out(50, 7.0F);
    Numbers next(51);
    Message message = encoded_after(format, values, state, next);
    Numbers other = state;
    other.back() = 1 - seen;
    EXPECT_THROW(format.decode(message, other, other, out), DecodeError) << "one end has seen it, the other not";
    message.back() ^= std::byte{1};
    EXPECT_THROW(format.decode(message, state, state, out), DecodeError);
    Message small(20);
    EXPECT_THROW(format.encode(values, state, state, small), OptionError);
    Numbers few(50);
    EXPECT_THROW(format.encode(values, few, state, message), OptionError);
    message.resize(format.encoded_bytes(50));
    EXPECT_THROW(format.encode(values, few, state, message), OptionError);
    EXPECT_THROW(format.encode(values, state, few, message), OptionError);
    EXPECT_THROW(format.decode(message, few, state, out), OptionError);
    EXPECT_EQ(state, before);
    EXPECT_EQ(out, Numbers(50, 7.0F));
  }
}

/// `next` in the memory of the state, of the values, and apart.
TEST(CodecMemory, next_may_be_the_memory_of_state_or_of_values) {
  each_inner([](const auto& inner) {
    const auto check = [](const auto& format) {
      const std::size_t n = 300;
      const Numbers values = normal_numbers(n, 6);
      const Numbers state = normal_numbers(n, 7);
      Numbers next(n);
      const Message apart = encoded_after(format, values, state, next);
      Numbers in_state = state;
      EXPECT_EQ(encoded_after(format, values, in_state, in_state), apart) << format.name;
      Numbers in_values = values;
      EXPECT_EQ(encoded_after(format, in_values, state, in_values), apart) << format.name;
      EXPECT_EQ(bits_of_all(in_state), bits_of_all(next));
      EXPECT_EQ(bits_of_all(in_values), bits_of_all(next));
    };
    using Inner = std::remove_cvref_t<decltype(inner)>;
    check(codec::ErrorFeedback<Inner>{inner, 0.9F});
    check(codec::Ef21<Inner>{inner});
  });
}

TEST(CodecMemory, a_refused_message_or_memory_changes_nothing) {
  const Numbers values = normal_numbers(50, 8);
  Numbers state = normal_numbers(50, 9);
  const Numbers before = state;
  Numbers out(50, 7.0F);
  const auto check = [&](const auto& format) {
    Numbers next(50);
    Message message = encoded_after(format, values, state, next);
    message.back() ^= std::byte{1};
    EXPECT_THROW(format.decode(message, state, state, out), DecodeError);
    Message small(20);
    EXPECT_THROW(format.encode(values, state, state, small), OptionError);
    Numbers few(49);
    EXPECT_THROW(format.encode(values, few, state, message), OptionError);
    EXPECT_THROW(format.encode(values, state, few, message), OptionError);
    EXPECT_EQ(state, before);
    EXPECT_EQ(out, Numbers(50, 7.0F));
  };
  check(codec::ErrorFeedback<codec::TopK>{{.ratio = 5}});
  check(codec::ErrorFeedback<codec::Uniform8>{});
  check(codec::Ef21<codec::TopK>{{.ratio = 5}});
  Numbers few(49);
  const codec::Ef21<codec::TopK> format{{.ratio = 5}};
  Numbers next(50);
  EXPECT_THROW(format.decode(encoded_after(format, values, state, next), few, few, out), OptionError);
}

TEST(CodecMemory, how_much_is_remembered) {
  EXPECT_EQ(codec::state_of(codec::TopK{}, 9), 0);
  EXPECT_EQ(codec::received_state_of(codec::TopK{}, 9), 0);
  const codec::ErrorFeedback<codec::TopK> feedback;
  EXPECT_EQ(codec::state_of(feedback, 9), 9);
  EXPECT_EQ(codec::received_state_of(feedback, 9), 0);
  const codec::Ef21<codec::TopK> ef21;
  EXPECT_EQ(codec::state_of(ef21, 9), 9);
  EXPECT_EQ(codec::received_state_of(ef21, 9), 9);
  EXPECT_EQ(codec::state_of(ef21, 0), 0);
  EXPECT_EQ(feedback.name, "error_feedback(top_k)");
}

TEST(CodecMemory, adding_a_message_is_adding_what_it_decodes_to_or_nothing) {
  each_inner([](const auto& inner) {
    const auto check = [](const auto& format) {
      const std::size_t n = 300;
      const Numbers values = normal_numbers(n, 10);
      Numbers state(n, 0.25F);
      const Numbers receiver = state;
      Message message = encoded_after(format, values, state, state);
      Numbers next = receiver;
      Numbers received(n);
      codec::decode(format, message, receiver, next, received);
      const Numbers before = normal_numbers(n, 11);
      Numbers sum = before;
      Numbers scratch(n);
      next = receiver;
      codec::accumulate(format, message, receiver, next, sum, scratch);
      for (std::size_t i = 0; i < n; ++i) EXPECT_EQ(sum[i], before[i] + received[i]) << format.name;
      sum = before;
      message.back() ^= std::byte{1};
      EXPECT_THROW(codec::accumulate(format, message, receiver, next, sum, scratch), DecodeError);
      EXPECT_EQ(sum, before);
    };
    using Inner = std::remove_cvref_t<decltype(inner)>;
    check(inner);
    check(codec::ErrorFeedback<Inner>{inner});
    check(codec::Ef21<Inner>{inner});
  });
  Numbers sum(10);
  const Numbers ones(10, 1.0F);
  EXPECT_THROW(codec::accumulate(codec::Uniform8{}, encoded(codec::Uniform8{}, ones), sum, {}), OptionError);
  codec::accumulate(codec::TopK{.ratio = 2}, encoded(codec::TopK{.ratio = 2}, ones), sum, {});
  EXPECT_EQ(sum, (Numbers{1, 1, 1, 1, 1, 0, 0, 0, 0, 0}));
}

/// Else a step would count, and what is not finite would wait in the memory for its draw.
TEST(CodecMemory, what_is_not_finite_is_seen_whatever_is_drawn) {
  std::vector<float> values(100, 1.0F);
  values[37] = std::numeric_limits<float>::infinity();
  const auto seen = [&](const auto& format) {
    std::vector<float> memory(values.size()), decoded(values.size());
    std::vector<std::byte> message(format.encoded_bytes(100));
    message.resize(format.encode(values, memory, memory, message));
    format.decode(message, {}, {}, decoded);
    return std::any_of(decoded.begin(), decoded.end(), [](float value) { return !std::isfinite(value); });
  };
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    EXPECT_TRUE(seen(codec::ErrorFeedback<codec::RandomK>{{.ratio = 50, .seed = seed}}));
    EXPECT_TRUE(seen(codec::ErrorFeedback<codec::Chain<codec::RandomK, codec::Bf16>>{{{.ratio = 50, .seed = seed}, {}}}));
  }
}

TEST(CodecMemory, what_is_not_finite_is_sent_at_once_by_top_k) {
  const codec::ErrorFeedback<codec::TopK> format{{.ratio = 4}};
  Numbers state(4, 0.0F);
  const Message message = encoded_after(format, {1, 2, std::numeric_limits<float>::quiet_NaN(), 3}, state, state);
  EXPECT_TRUE(std::isnan(decoded(format.inner, message, 4)[2]));
  EXPECT_EQ(state, (Numbers{1, 2, 0, 3}));
}

}  // namespace
}  // namespace reef::test
