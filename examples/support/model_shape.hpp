#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

#include "numbers.hpp"

namespace reef_examples {

/// The size of a GPT as options and cases name it.
struct ModelShape {
  std::int64_t layers = 0, heads = 0, channels = 0;
};

/// LAYERSxHEADSxCHANNELS, as in 4x4x128; nothing if it is not that.
inline std::optional<ModelShape> parse_model_shape(std::string_view text) {
  ModelShape shape;
  for (std::int64_t* const extent : {&shape.layers, &shape.heads, &shape.channels}) {
    const bool last = extent == &shape.channels;
    const std::size_t end = last ? text.size() : text.find('x');
    if (end == std::string_view::npos) return std::nullopt;
    const auto number = parse_number<std::int64_t>(text.substr(0, end));
    if (!number || *number < 1) return std::nullopt;
    *extent = *number;
    if (!last) text.remove_prefix(end + 1);
  }
  return shape;
}

}  // namespace reef_examples
