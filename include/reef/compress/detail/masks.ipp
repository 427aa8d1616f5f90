#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include <reef/compress/detail/masks.hpp>
#include <reef/core/error.hpp>
#include <reef/core/inline.hpp>
#include <reef/core/text.hpp>
#include <reef/run/step_builder.hpp>

namespace reef {
inline namespace v0 {
namespace compress::detail {

REEF_INLINE std::vector<int> edges_forward_of(const run::StepPlan& plan) {
  const auto stage_of = [&](int segment) { return plan.stage_of_segment[static_cast<std::size_t>(segment)]; };
  std::vector<int> forward(plan.remote_edges.size(), -1);
  const auto is_alone = [&](const graph::RemoteEdge& edge) {
    return std::count_if(plan.remote_edges.begin(), plan.remote_edges.end(), [&](const graph::RemoteEdge& other) {
             return other.tensor == edge.tensor;
           }) == 2;
  };
  for (std::size_t g = 0; g < forward.size(); ++g) {
    const graph::RemoteEdge& back = plan.remote_edges[g];
    if (!back.gradient || !is_alone(back)) continue;
    for (std::size_t a = 0; a < forward.size(); ++a) {
      const graph::RemoteEdge& edge = plan.remote_edges[a];
      if (!edge.gradient && edge.tensor == back.tensor && stage_of(edge.from) == stage_of(back.to) &&
          stage_of(edge.to) == stage_of(back.from)) {
        forward[g] = static_cast<int>(a);
      }
    }
  }
  return forward;
}

REEF_INLINE void write_mask(std::span<const float> arrived, std::span<std::uint8_t> mask) {
  for (std::size_t byte = 0; byte < mask.size(); ++byte) {
    const std::size_t first = 8 * byte;
    const std::size_t bits = std::min<std::size_t>(8, arrived.size() - first);
    unsigned set = 0;
    for (std::size_t bit = 0; bit < bits; ++bit) set |= (arrived[first + bit] != 0 ? 1U : 0U) << bit;
    mask[byte] = static_cast<std::uint8_t>(set);
  }
}

REEF_INLINE void write_full_mask(std::size_t n, std::span<std::uint8_t> mask) {
  std::fill(mask.begin(), mask.end(), std::uint8_t{0xff});
  if (n % 8 != 0) mask.back() = static_cast<std::uint8_t>((1U << (n % 8)) - 1);
}

REEF_INLINE std::size_t pack(std::span<const float> numbers, std::span<const std::uint8_t> mask,
                             std::span<float> packed) {
  std::size_t count = 0;
  for (std::size_t i = 0; i < numbers.size() && count < packed.size(); ++i) {
    if (is_masked_in(mask, i)) packed[count++] = numbers[i];
  }
  return count;
}

REEF_INLINE std::size_t count_of(std::span<const std::uint8_t> mask) {
  std::size_t count = 0;
  for (const std::uint8_t byte : mask) count += static_cast<std::size_t>(std::popcount(byte));
  return count;
}

REEF_INLINE void unpack(std::span<const float> packed, std::span<const std::uint8_t> mask, std::span<float> numbers) {
  std::size_t count = 0;
  for (std::size_t i = 0; i < numbers.size(); ++i) numbers[i] = is_masked_in(mask, i) ? packed[count++] : 0.0F;
}

REEF_INLINE run::Value MaskStorages::take(int edge, int micro_batch, std::int64_t n) {
  std::vector<run::Value>& free = free_[edge];
  if (free.empty()) {
    const std::string name = concat("mask ", ++taken_[edge], " of edge ", edge);
    free.push_back({program_.add_storage(name, mask_bytes(n), place_), 0});
  }
  const run::Value mask = free.back();
  free.pop_back();
  in_use_[{edge, micro_batch}] = mask;
  return mask;
}

REEF_INLINE run::Value MaskStorages::give_back(int edge, int micro_batch) {
  const auto found = in_use_.find({edge, micro_batch});
  if (found == in_use_.end()) {
    throw ScheduleError("reef::compress: the gradient of edge ", edge, ", micro-batch ", micro_batch,
                        " comes before its activation.\n  fix: forwards before backwards.");
  }
  const run::Value mask = found->second;
  in_use_.erase(found);
  free_[edge].push_back(mask);
  return mask;
}

}  // namespace compress::detail
}  // namespace v0
}  // namespace reef
