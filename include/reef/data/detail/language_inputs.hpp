#pragma once

#include <cstdint>
#include <span>
#include <string>

#include <reef/core/error.hpp>
#include <reef/core/tensor_view.hpp>
#include <reef/core/text.hpp>

namespace reef {
inline namespace v0 {
namespace data::detail {

/// The operator number of the sampler's draws: no graph has as many operators.
inline constexpr std::uint32_t sampler_op = 0xFFFF'0001U;

struct LanguageInputs {
  std::int64_t batch;
  std::int32_t* tokens;
  std::int32_t* targets;
};

/// Tokens and targets, both (B, T) int32; throws ShapeError where they are not.
inline LanguageInputs require_inputs(std::span<const AnyView> inputs, std::int64_t context,
                                     const char* who) {
  const bool two = inputs.size() == 2;
  const bool fit = two && inputs[0].shape().rank() == 2 && inputs[0].shape()[1] == context &&
                   inputs[0].shape() == inputs[1].shape();
  if (!fit) {
    std::string given;
    for (const AnyView& input : inputs)
      given += concat(given.empty() ? "" : ", ", input.shape().text());
    throw ShapeError(who, ": the inputs are ", given, "; a context of T = ", context,
                     " fills tokens and targets of (B, ", context,
                     ").\n  fix: one context for the sampler and the model.");
  }
  return {inputs[0].shape()[0], inputs[0].as<std::int32_t>().data(),
          inputs[1].as<std::int32_t>().data()};
}

}  // namespace data::detail
}  // namespace v0
}  // namespace reef
