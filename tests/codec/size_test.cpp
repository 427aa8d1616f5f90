// How long a message may be follows from how many numbers it is of, whatever a codec's members are; and of a codec with a ratio
// it never grows with that.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <string>
#include <type_traits>
#include <vector>

#include <reef/codec.hpp>
#include <reef/core/error.hpp>
#include <reef/core/text.hpp>

#include "messages.hpp"

namespace reef::test {
namespace {

constexpr std::int64_t most = codec::max_elements;

/// f(codec, what it is) of all codecs, with members as odd as they may be.
template <class F>
void each_odd_codec(const F& f) {
  const auto with = [&f](const auto& format, const std::string& what) {
    f(format, what);
    f(codec::ErrorFeedback<std::remove_cvref_t<decltype(format)>>{format}, concat("ef+", what));
  };
  with(codec::Dense{}, "dense");
  with(codec::Bf16{}, "bf16");
  with(codec::Uniform8{}, "uniform8");
  for (const std::int64_t block : {std::int64_t{1}, std::int64_t{3}, most}) {
    with(codec::Fp8{.block = block}, concat("fp8:", block));
    with(codec::Blockwise8{.block = block}, concat("blockwise8:", block));
    with(codec::Sign{.block = block}, concat("sign:", block));
    with(codec::TwoBit{.block = block}, concat("two-bit:", block));
    with(codec::ChunkTopK{.chunk = most, .keep = block}, concat("chunk-top-k:", block, "/", most));
    with(codec::ChunkTopK{.chunk = block, .keep = block},
         concat("chunk-top-k:", block, "/", block));
  }
  for (const bool nested : {false, true}) {
    with(codec::NormalFloat4{.block = 2, .nested = nested}, nested ? "nf4:2, nested" : "nf4:2");
    with(codec::NormalFloat4{.block = most, .nested = nested}, nested ? "nf4, nested" : "nf4");
  }
  for (const double ratio : {1.0, 1.000001, 1.01, 2.0, 1e12}) {
    with(codec::TopK{ratio}, concat("top-k:", ratio));
    with(codec::RandomK{.ratio = ratio}, concat("random-k:", ratio));
    with(codec::Chain{codec::TopK{ratio}, codec::TwoBit{.block = 1}},
         concat("top-k+two-bit:1 at ", ratio));
    with(codec::Chain{codec::RandomK{.ratio = ratio},
                      codec::Chain{codec::TopK{ratio}, codec::Fp8{.block = 1}}},
         concat("random-k+top-k+fp8:1 at ", ratio));
  }
  for (const std::int64_t columns :
       {std::int64_t{1}, std::int64_t{9}, std::int64_t{30'000'000}, most}) {
    for (const std::int64_t rank : {std::int64_t{1}, std::int64_t{4}, most}) {
      with(codec::PowerSgd{.columns = columns, .rank = rank},
           concat("power_sgd of ", columns, ", ", rank));
    }
  }
  with(codec::Dct<codec::TopK>{{1.01}, 4096}, "dct+top-k");
  f(codec::Ef21<codec::TwoBit>{{.block = 1}}, "ef21+two-bit");
  f(codec::Delta<codec::TwoBit>{{.block = 1}, most}, "delta+two-bit");
}

TEST(CodecSize, has_a_bound_by_the_numbers_alone) {
  each_odd_codec([](const auto& format, const std::string& what) {
    for (const std::int64_t n : {0, 1, 2, 7, 8, 9, 10, 100, 4096, 65537}) {
      SCOPED_TRACE(concat(what, " of ", n));
      EXPECT_LE(format.encoded_bytes(n), codec::max_message_bytes(n));
      const std::int64_t state = codec::state_of(format, n);
      EXPECT_LE(state, 4 * n + 1) << "numbers that are remembered";
      EXPECT_LE(codec::received_state_of(format, n), 4 * n + 1);
      if (n > 4096) continue;
      const auto numbers = static_cast<std::size_t>(n);
      Numbers memory(static_cast<std::size_t>(state)),
          received(static_cast<std::size_t>(codec::received_state_of(format, n)));
      const Message message = encoded_after(format, normal_numbers(numbers, 4), memory, memory);
      EXPECT_LE(message.size(), format.encoded_bytes(n));
      Numbers back(numbers);
      codec::decode(format, std::span<const std::byte>(message), received, received, back);
    }
  });
}

TEST(CodecSize, of_ten_numbers_in_many_columns_is_that_of_ten_numbers) {
  for (const std::int64_t columns : {std::int64_t{10}, std::int64_t{30'000'000}, most}) {
    const codec::PowerSgd format{.columns = columns, .rank = 4};
    EXPECT_EQ(format.encoded_bytes(10), 32 + 4 * (1 + 10));
    EXPECT_EQ(format.state(10), 10);
    const Numbers values = normal_numbers(10, 1);
    Numbers state(10);
    const Numbers back = decoded(format, encoded_after(format, values, state, state), 10);
    for (std::size_t i = 0; i < values.size(); ++i)
      EXPECT_NEAR(back[i], values[i], 1e-5) << columns;
  }
}

/// Of each ratio at which another number is kept, and some beside it.
template <class F>
void each_ratio_of(std::int64_t n, const F& f) {
  for (std::int64_t kept = n; kept >= 1;
       kept = n > 300 && kept < n - 50 ? kept - std::max<std::int64_t>(1, kept / 40) : kept - 1) {
    const double ratio = static_cast<double>(n) / static_cast<double>(kept);
    f(ratio);
    f(std::nextafter(ratio, 1e12));
  }
}

template <class Codec>
void expect_never_to_grow(const Codec& format, const std::string& what) {
  for (const std::int64_t n :
       {1, 2, 3, 5, 31, 32, 33, 100, 257, 1000, 10'000, 65'535, 65'536, 65'537, 200'000}) {
    Bytes before = codec::with_ratio(format, 1).encoded_bytes(n);
    each_ratio_of(n, [&](double ratio) {
      const Bytes said = codec::with_ratio(format, ratio).encoded_bytes(n);
      EXPECT_LE(said, before) << what << " of " << n << " at " << ratio;
      before = said;
    });
  }
}

TEST(CodecSize, never_grows_with_a_ratio) {
  expect_never_to_grow(codec::TopK{}, "top-k");
  expect_never_to_grow(codec::RandomK{}, "random-k");
  expect_never_to_grow(codec::ErrorFeedback<codec::TopK>{}, "ef+top-k");
  expect_never_to_grow(codec::Ef21<codec::TopK>{}, "ef21+top-k");
  expect_never_to_grow(codec::Dct<codec::TopK>{}, "dct+top-k");
  expect_never_to_grow(codec::Chain<codec::TopK, codec::Uniform8>{}, "top-k+uniform8");
  expect_never_to_grow(codec::Chain<codec::TopK, codec::TwoBit>{}, "top-k+two-bit");
  expect_never_to_grow(codec::Chain<codec::RandomK, codec::Chain<codec::TopK, codec::Sign>>{},
                       "random-k+top-k+sign");
  expect_never_to_grow(codec::Chosen::of("ef+top-k:10+nf4:64"), "ef+top-k+nf4");
  for (const std::int64_t n : {1, 63, 64, 65, 1000}) {
    for (std::int64_t keep = 1; keep < 64; ++keep) {
      EXPECT_LE((codec::ChunkTopK{.chunk = 64, .keep = keep}.encoded_bytes(n)),
                (codec::ChunkTopK{.chunk = 64, .keep = keep + 1}.encoded_bytes(n)))
          << keep << " of " << n;
    }
  }
}

/// What is said is enough, also where those that are kept lie as they take most: all in the end, or evenly.
TEST(CodecSize, is_enough_for_every_number_that_is_kept) {
  for (const std::int64_t n : {1, 2, 9, 64, 100, 300}) {
    for (std::int64_t kept = 1; kept <= n; ++kept) {
      const codec::TopK format{static_cast<double>(n) / static_cast<double>(kept)};
      const auto k = static_cast<std::size_t>(format.kept(n));
      for (const int where : {0, 1, 2}) {
        Numbers values(static_cast<std::size_t>(n), 0.5F);
        for (std::size_t i = 0; i < k; ++i) {
          const std::size_t place = where == 0   ? i
                                    : where == 1 ? values.size() - 1 - i
                                                 : i * values.size() / k;
          values[place] = 1 + static_cast<float>(i);
        }
        const Message message = encoded(format, values);
        EXPECT_LE(message.size(), 4 * static_cast<Bytes>(n) + 34) << kept << " of " << n;
        const Numbers back = decoded(format, message, values.size());
        for (std::size_t i = 0; i < values.size(); ++i)
          EXPECT_EQ(back[i], values[i] < 1 ? 0 : values[i]) << kept << " of " << n;
      }
    }
  }
}

TEST(CodecSize, is_refused_where_it_is_more_and_a_lack_of_room_says_how_much_there_is_of_what) {
  EXPECT_EQ(codec::bounded_bytes("mine", 10, 300), 300);
  try {
    codec::bounded_bytes("mine", 10, 120'000'000);
    ADD_FAILURE() << "no OptionError";
  } catch (const OptionError& error) {
    EXPECT_THAT(error.what(),
                testing::HasSubstr("mine says that 10 numbers take up to 120000000 bytes"));
    EXPECT_THAT(error.what(), testing::HasSubstr("at most 328 bytes"));
  }
  Message small(4000);
  try {
    codec::TopK{1}.encode(Numbers(1000), small);
    ADD_FAILURE() << "no OptionError";
  } catch (const OptionError& error) {
    EXPECT_THAT(
        error.what(),
        testing::HasSubstr("top_k for 1000 numbers takes 4034 bytes: 32 of its head, and 4002 of"));
    EXPECT_THAT(error.what(), testing::HasSubstr("given 4000 bytes of room"));
    EXPECT_THAT(error.what(), testing::HasSubstr("34 too few"));
  }
}

}  // namespace
}  // namespace reef::test
