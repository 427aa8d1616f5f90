#pragma once

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <string>

#include <reef/nn/gpt.hpp>

namespace reef_peers {

/// The command line: pairs of `--key value`.
class Arguments {
public:
  Arguments(int count, char** values) {
    for (int i = 1; i + 1 < count; i += 2) values_[values[i]] = values[i + 1];
    if (count % 2 == 0) {
      std::fprintf(stderr, "%s: arguments are pairs of --key value\n", values[0]);
      std::exit(2);
    }
  }

  [[nodiscard]] std::string text(const std::string& key, const std::string& otherwise) const {
    const auto found = values_.find(key);
    return found == values_.end() ? otherwise : found->second;
  }
  [[nodiscard]] int number(const std::string& key, int otherwise) const {
    return std::stoi(text(key, std::to_string(otherwise)));
  }
  [[nodiscard]] double real(const std::string& key, double otherwise) const {
    return std::stod(text(key, std::to_string(otherwise)));
  }

private:
  std::map<std::string, std::string> values_;
};

/// The models that are compared; gpt_torch.py has the same table. `batch` is of all ranks.
inline reef::nn::GptConfig configuration(const std::string& name) {
  reef::nn::GptConfig config;
  if (name == "a") {  // GPT-2 124M
    config.sequence = 64;
    config.batch = 4;
    config.padded_vocabulary = 50304;
    return config;
  }
  if (name == "gpt2") {  // the same, as long as it reads
    config.batch = 8;
    config.padded_vocabulary = 50304;
    return config;
  }
  config.layers = 6;
  config.heads = 6;
  config.channels = 384;
  config.context = 256;
  config.batch = 8;
  if (name == "b256") {
    config.vocabulary = 256;
  } else if (name == "b50k") {
    config.padded_vocabulary = 50304;
  } else {
    std::fprintf(stderr, "no configuration '%s': a, gpt2, b256 or b50k\n", name.c_str());
    std::exit(2);
  }
  return config;
}

/// Token `position` of sample `sample`: small ones are frequent, so that there is something to learn.
///
///     r = the upper 16 bits of a 64-bit mix of the index      token = (r^4 / 2^48) V / 2^16
inline std::int32_t token(std::uint64_t sample, std::uint64_t position, std::int64_t vocabulary) {
  std::uint64_t x = (sample << 16) + position + 1;
  x *= 0x9E3779B97F4A7C15U;
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9U;
  const std::uint64_t r = x >> 48;
  return static_cast<std::int32_t>(
      ((r * r * r * r >> 48) * static_cast<std::uint64_t>(vocabulary)) >> 16);
}

}  // namespace reef_peers
