// Text to tokens, and tokens to batches.
//
//   encode_bytes, encode_bpe   roof: memcpy of the text; words: cutting it at spaces and looking each word
//                              up in a hash table, the least that a tokenizer of words does
//   sampler                    roof: memcpy of as many bytes as are read and written; random_starts: windows
//                              at random places of the same file, as nanoGPT takes them, with std::mt19937
//
// encode_bpe reads the 512-token vocabulary of the tests; REEF_BENCH_TIKTOKEN=FILE names another.

#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <random>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include <reef/core/random.hpp>
#include <reef/core/tensor_view.hpp>
#include <reef/data/bpe_tokenizer.hpp>
#include <reef/data/byte_tokenizer.hpp>
#include <reef/data/sampler.hpp>
#include <reef/data/token_view.hpp>

#include "support/compare.hpp"

namespace {

using namespace reef;

constexpr int rounds = 21;

/// A million bytes: words of a vocabulary of 4096, small ones frequent as in text.
std::string text() {
  const RandomStream letters({.seed = 1});
  const RandomStream choice({.seed = 2});
  std::vector<std::string> words(4096);
  std::uint64_t at = 0;
  for (std::string& word : words) {
    const std::uint32_t length = 2 + letters.bits(at++) % 8;
    for (std::uint32_t i = 0; i < length; ++i)
      word += static_cast<char>('a' + letters.bits(at++) % 26);
  }
  std::string result;
  for (std::uint64_t i = 0; result.size() < 1'000'000; ++i) {
    const float u = uniform_from(choice.bits(i));
    result += words[static_cast<std::size_t>(u * u * u * 4095.0F)] + ' ';
  }
  return result;
}

std::vector<std::int32_t> cut_at_spaces(const std::string& text,
                                        std::unordered_map<std::string_view, std::int32_t>& ids) {
  std::vector<std::int32_t> tokens;
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = std::min(text.find(' ', begin), text.size());
    const std::string_view word(text.data() + begin, end - begin);
    tokens.push_back(ids.try_emplace(word, static_cast<std::int32_t>(ids.size())).first->second);
    begin = end + 1;
  }
  return tokens;
}

template <class Encode>
void encode(benchmark::State& state, const Encode& encode) {
  const std::string from = text();
  std::string to(from.size(), ' ');
  std::unordered_map<std::string_view, std::int32_t> ids;
  reef_bench::compare(
      state,
      [&] { return reef_bench::seconds_of([&] { benchmark::DoNotOptimize(encode(from)); }); },
      {{"roof",
        [&] {
          return reef_bench::seconds_of([&] {
            std::memcpy(to.data(), from.data(), from.size());
            benchmark::ClobberMemory();
          });
        }},
       {"words",
        [&] {
          return reef_bench::seconds_of(
              [&] { benchmark::DoNotOptimize(cut_at_spaces(from, ids)); });
        }}},
      {.bytes = static_cast<double>(from.size())});
}

data::BpeTokenizer bpe() {
  if (const char* const file = std::getenv("REEF_BENCH_TIKTOKEN")) {
    return data::BpeTokenizer::read_tiktoken(file);
  }
  return data::BpeTokenizer::read_tiktoken(REEF_ROOT "/tests/data/small.tiktoken");
}

/// Batches of 8 windows of 1024 tokens from a file of 2^24 tokens of 2 bytes.
void sampler(benchmark::State& state) {
  constexpr std::int64_t B = 8, T = 1024;
  constexpr int batches = 64;
  std::vector<std::uint16_t> file(1 << 24);
  for (std::size_t i = 0; i < file.size(); ++i) file[i] = static_cast<std::uint16_t>(i * 40503U);
  const data::Sampler ours(std::span<const std::uint16_t>(file), T, 7);
  std::vector<std::int32_t> tokens(B * T), targets(B * T), copy(B * T * 2);
  const Shape shape{B, T};
  const std::vector<AnyView> inputs{{tokens.data(), shape, Element::int32},
                                    {targets.data(), shape, Element::int32}};
  std::uint64_t sample = 0;
  std::mt19937 engine(1);
  std::size_t from = 0;
  reef_bench::compare(
      state,
      reef_bench::repeated(batches,
                           [&] {
                             ours.fill(sample, inputs);
                             sample += B;
                           }),
      {{"roof", reef_bench::repeated(batches,
                                     [&] {  // 2 bytes read and 4 written of each: as 3 copied
                                       for (std::int64_t row = 0; row < 2 * B; ++row) {
                                         from = (from + 7919 * 64) % (file.size() - 2 * T);
                                         std::memcpy(copy.data() + row * T, file.data() + from,
                                                     3 * T);
                                       }
                                       benchmark::ClobberMemory();
                                     })},
       {"random_starts", reef_bench::repeated(batches,
                                              [&] {
                                                for (std::int64_t b = 0; b < B; ++b) {
                                                  const std::size_t start =
                                                      engine() % (file.size() - T - 1);
                                                  for (std::size_t t = 0; t < T; ++t) {
                                                    const auto i =
                                                        static_cast<std::size_t>(b) * T + t;
                                                    tokens[i] = file[start + t];
                                                    targets[i] = file[start + t + 1];
                                                  }
                                                }
                                                benchmark::ClobberMemory();
                                              })}},
      {.bytes = 12.0 * B * T, .items = B * T});
}

void register_all() {
  reef_bench::add("encode_bytes", rounds, [](benchmark::State& state) {
    encode(state, [](const std::string& from) { return data::ByteTokenizer::encode(from); });
  });
  reef_bench::add("encode_bpe", rounds, [](benchmark::State& state) {
    const data::BpeTokenizer tokenizer = bpe();
    encode(state, [&](const std::string& from) { return tokenizer.encode(from); });
  });
  reef_bench::add("sampler", rounds, sampler);
}

}  // namespace

int main(int argc, char** argv) { return reef_bench::run(argc, argv, register_all); }
