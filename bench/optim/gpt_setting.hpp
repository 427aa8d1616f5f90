#pragma once

#include <cstdint>
#include <span>
#include <utility>

#include <reef/core/random.hpp>
#include <reef/nn/gpt.hpp>
#include <reef/nn/host.hpp>

#include "optim/recipes.hpp"

namespace reef_bench {

/// A GPT that is computed for long and sent in little, as large batches make it.
inline Setting gpt_setting(int micro_batches, reef::profile::Network links) {
  reef::nn::GptConfig config;
  config.layers = 2;
  config.heads = 4;
  config.channels = 64;
  config.vocabulary = 256;
  config.context = 128;
  config.batch = 16;
  const auto source = [](std::uint64_t first, std::span<const reef::AnyView> inputs) {
    for (const reef::AnyView& input : inputs) {
      std::uint64_t at = 0;
      for (std::int32_t& token : input.as<std::int32_t>().span()) {
        token = static_cast<std::int32_t>(reef::random_bits({1, first, 0, 0}, at++) % 256);
      }
    }
    return 1.0;
  };
  Setting result{reef::nn::gpt<reef::device::Host, float>(config, 1), source};
  result.micro_batches = micro_batches;
  result.bucket_bytes = 64 << 10;  // about eight, so that a last backward can hide most of them
  result.network = std::move(links);
  return result;
}

}  // namespace reef_bench
