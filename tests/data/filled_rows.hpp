#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include <reef/core/tensor_view.hpp>

namespace reef::test {

/// The tokens and targets of a batch, row by row, as a sampler of pairs has written them, and the targets that count.
struct FilledRows {
  std::vector<std::int32_t> tokens, targets;
  std::int64_t counted = 0;
};

/// Returns B rows of T tokens from number `first` on, from numbers that no sampler writes.
template <class Sampler>
FilledRows fill(const Sampler& sampler, std::uint64_t first, std::int64_t B, std::int64_t T, bool in_order) {
  FilledRows filled;
  filled.tokens.assign(static_cast<std::size_t>(B * T), -9);
  filled.targets = filled.tokens;
  const std::vector<AnyView> inputs{{filled.tokens.data(), {B, T}, Element::int32},
                                    {filled.targets.data(), {B, T}, Element::int32}};
  filled.counted = in_order ? sampler.fill_in_order(first, inputs) : sampler.fill(first, inputs);
  return filled;
}

}  // namespace reef::test
