#pragma once

#include <reef/nn/gpt.hpp>

namespace reef::test {

/// A GPT with every kind of operator, small and of odd shape: no size divides another.
inline nn::GptConfig small_config() {
  nn::GptConfig config;
  config.layers = 2;
  config.heads = 3;
  config.channels = 21;
  config.vocabulary = 37;
  config.context = 11;
  config.batch = 2;
  config.dropout = 0.1F;
  return config;
}

/// So small that finite differences of all its parameters take no time; shorter than its context.
inline nn::GptConfig tiny_config() {
  nn::GptConfig config;
  config.layers = 2;
  config.heads = 2;
  config.channels = 6;
  config.vocabulary = 7;
  config.context = 5;
  config.sequence = 4;
  config.batch = 3;
  return config;
}

}  // namespace reef::test
