// A file of tokens: as one, as shards to train on and to validate with, and through a sampler.

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <vector>

#include <reef/data/sampler.hpp>
#include <reef/data/token_shards.hpp>

#include "target.hpp"

namespace {

namespace data = reef::data;

/// All tokens, each of which must be what stands in the file.
std::vector<std::int32_t> read_all(const data::TokenFile& file, std::string_view bytes) {
  const data::TokenView view = file.tokens();
  reef::fuzz::demand(!view.empty() && view.size() == file.size(), "a file has tokens");
  std::vector<std::int32_t> tokens(view.size());
  view.copy(0, tokens);
  const std::size_t width = file.width();
  const std::size_t rest = width * tokens.size();
  reef::fuzz::demand((width == 1 || width == 2 || width == 4) && rest <= bytes.size(),
                     "tokens are in the file");
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    std::uint32_t token = 0;
    std::memcpy(&token, bytes.data() + bytes.size() - rest + i * width, width);
    reef::fuzz::demand(tokens[i] == static_cast<std::int32_t>(token), "a token is the file's");
  }
  return tokens;
}

void sample(const data::TokenView& tokens) {
  constexpr std::int64_t length = 3;
  const data::Sampler sampler(tokens, length, 7);
  std::vector<std::int32_t> inputs(2 * length);
  std::vector<std::int32_t> targets(2 * length);
  const std::vector<reef::AnyView> views{
      reef::TensorView<std::int32_t>(inputs.data(), {2, length}),
      reef::TensorView<std::int32_t>(targets.data(), {2, length})};
  for (const std::uint64_t first : {0ULL, 1ULL, 1000ULL, 1ULL << 40U}) {
    sampler.fill(first, views);
    for (std::size_t i = 0; i + 1 < static_cast<std::size_t>(length); ++i) {
      reef::fuzz::demand(inputs[i + 1] == targets[i], "a target is the next token");
    }
  }
}

}  // namespace

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static reef::fuzz::MemoryFile memory;
  const std::string_view bytes = reef::fuzz::text_of(data, size);
  memory.set(bytes);
  std::vector<std::int32_t> tokens;
  reef::fuzz::reads([&] { tokens = read_all(data::TokenFile(memory.path()), bytes); });
  reef::fuzz::reads([&] {
    const data::TokenShards shards({memory.path()});
    reef::fuzz::demand(shards.training().size() + shards.validation().size() == tokens.size(),
                       "every token is trained on or held out");
    reef::fuzz::demand(shards.fingerprint() == data::TokenShards({memory.path()}).fingerprint(),
                       "a fingerprint is that of the tokens");
    constexpr std::int32_t vocabulary = 50257;
    bool below = true;
    for (const std::int32_t token : tokens) below = below && token >= 0 && token < vocabulary;
    reef::fuzz::demand(reef::fuzz::reads([&] { shards.require_below(vocabulary); }) == below,
                       "a token outside the vocabulary is found");
    reef::fuzz::reads([&] { sample(shards.training()); });
  });
  return 0;
}
