#pragma once

#include <cstdint>
#include <cstdio>
#include <optional>
#include <string>

namespace reef_examples {

/// The size of a GPT as options and cases name it.
struct ModelShape {
  std::int64_t layers = 0, heads = 0, channels = 0;
};

/// LAYERSxHEADSxCHANNELS, as in 4x4x128; nothing if it is not that.
inline std::optional<ModelShape> parse_model_shape(const std::string& text) {
  long long layers = 0;
  long long heads = 0;
  long long channels = 0;
  int end = 0;
  const int found = std::sscanf(text.c_str(), "%lldx%lldx%lld%n", &layers, &heads, &channels, &end);
  if (found != 3 || end != static_cast<int>(text.size()) || layers < 1 || heads < 1 ||
      channels < 1) {
    return std::nullopt;
  }
  return ModelShape{layers, heads, channels};
}

}  // namespace reef_examples
