#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include <reef/core/error.hpp>
#include <reef/core/tensor_view.hpp>
#include <reef/core/text.hpp>
#include <reef/data/permutation.hpp>

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

/// Fills the inputs sample by sample: write(row_of(b), tokens, targets) writes sample b of the batch, and returns how
/// many of its targets count. Returns the sum of these numbers.
template <class RowOf, class Write>
std::int64_t fill_rows(std::span<const AnyView> inputs, std::int64_t context, const char* who, const RowOf& row_of,
                       const Write& write) {
  const auto [batch, tokens, targets] = require_inputs(inputs, context, who);
  std::int64_t counted = 0;
  for (std::int64_t b = 0; b < batch; ++b)
    counted += write(row_of(static_cast<std::uint64_t>(b)), tokens + b * context, targets + b * context);
  return counted;
}

/// Returns a function of b: the row of sample first + b. Every epoch has each of `count` rows once, in an order of its
/// own.
inline auto rows_of_epochs(std::uint64_t first, std::uint64_t count, std::uint64_t seed) {
  return [=](std::uint64_t b) {
    const std::uint64_t sample = first + b;
    const Permutation permutation(count, {seed, sample / count, 0, sampler_op});
    return static_cast<std::size_t>(permutation(sample % count));
  };
}

/// Returns a function of b: row first + b.
inline auto rows_in_order(std::uint64_t first) {
  return [=](std::uint64_t b) { return static_cast<std::size_t>(first + b); };
}

}  // namespace data::detail
}  // namespace v0
}  // namespace reef
