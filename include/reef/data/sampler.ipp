#pragma once

#include <algorithm>
#include <cstddef>
#include <string>
#include <utility>

#include <reef/core/inline.hpp>
#include <reef/core/random.hpp>
#include <reef/data/detail/language_inputs.hpp>
#include <reef/data/permutation.hpp>
#include <reef/data/sampler.hpp>

namespace reef {
inline namespace v0 {
namespace data {

namespace detail {

inline void require_window(std::size_t tokens, std::int64_t context, const char* who) {
  if (context < 1 || tokens < static_cast<std::size_t>(context) + 1) {
    throw OptionError(who, ": a context of T = ", context,
                      " needs at least T + 1 tokens, there are ", tokens,
                      ".\n  fix: choose 1 <= T < ", tokens, ", or give more text.");
  }
}

}  // namespace detail

REEF_INLINE Sampler::Sampler(TokenView tokens, std::int64_t context, std::uint64_t seed)
    : tokens_(std::move(tokens)), context_(context), seed_(seed) {
  detail::require_window(tokens_.size(), context, "reef::data::Sampler");
  // What is left when the first T - 1 tokens may be shifted out; one window never shifts.
  const auto count = static_cast<std::int64_t>(tokens_.size()) / context - 1;
  shifts_ = count >= 1;
  windows_ = shifts_ ? count : 1;
}

REEF_INLINE std::int64_t Sampler::start_of(std::uint64_t sample) const {
  const auto count = static_cast<std::uint64_t>(windows_);
  const std::uint64_t epoch = sample / count;
  const Permutation permutation(count, {seed_, epoch, 0, detail::sampler_op});
  std::uint64_t shift = 0;
  if (shifts_ && epoch != 0) {
    shift = random_bits({seed_, epoch, 0, detail::sampler_op + 1}, 0) %
            static_cast<std::uint64_t>(context_);
  }
  return static_cast<std::int64_t>(shift) +
         static_cast<std::int64_t>(permutation(sample % count)) * context_;
}

REEF_INLINE void Sampler::fill(std::uint64_t first, std::span<const AnyView> inputs) const {
  const auto [batch, tokens, targets] =
      detail::require_inputs(inputs, context_, "reef::data::Sampler::fill");
  const auto length = static_cast<std::size_t>(context_);
  for (std::int64_t b = 0; b < batch; ++b) {
    const auto start = static_cast<std::size_t>(start_of(first + static_cast<std::uint64_t>(b)));
    tokens_.copy(start, {tokens + b * context_, length});
    tokens_.copy(start + 1, {targets + b * context_, length});
  }
}

REEF_INLINE Validation::Validation(TokenView tokens, std::int64_t context)
    : tokens_(std::move(tokens)), context_(context) {
  if (context < 1 || tokens_.size() < 2) {
    throw OptionError("reef::data::Validation: T = ", context, " and ", tokens_.size(),
                      " tokens make no window.\n  fix: T >= 1 and at least 2 tokens.");
  }
}

REEF_INLINE std::int64_t Validation::fill(std::int64_t first,
                                          std::span<const AnyView> inputs) const {
  const auto [batch, tokens, targets] =
      detail::require_inputs(inputs, context_, "reef::data::Validation::fill");
  const auto space = static_cast<std::size_t>(batch * context_);
  const std::size_t at = static_cast<std::size_t>(first * context_);
  const std::size_t left = at < tokens_.size() ? tokens_.size() - at : 0;
  const std::size_t present = (std::min)(space, left);
  const std::size_t counted = (std::min)(space, left == 0 ? 0 : left - 1);
  tokens_.copy(at, {tokens, present});
  tokens_.copy(at + 1, {targets, counted});
  std::fill(tokens + present, tokens + space, 0);
  std::fill(targets + counted, targets + space, -1);
  return static_cast<std::int64_t>(counted);
}

}  // namespace data
}  // namespace v0
}  // namespace reef
