#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <utility>
#include <vector>

#include <reef/core/units.hpp>
#include <reef/run/step_builder.hpp>

namespace reef {
inline namespace v0 {
namespace compress::detail {

/// By remote edge of a gradient that on which its tensor goes forward; -1 for others, and for a tensor that goes to
/// several stages, each with a mask of its own: the sum of its gradient has parts of all.
std::vector<int> edges_forward_of(const run::StepPlan& plan);

/// Which of n numbers arrived as anything but zero: a bit each.
inline Bytes mask_bytes(std::int64_t n) { return static_cast<Bytes>((n + 7) / 8); }

void write_mask(std::span<const float> arrived, std::span<std::uint8_t> mask);

/// All n arrived.
void write_full_mask(std::size_t n, std::span<std::uint8_t> mask);

inline bool is_masked_in(std::span<const std::uint8_t> mask, std::size_t i) {
  return (mask[i / 8] >> (i % 8) & 1U) != 0;
}

/// The numbers that a mask names, side by side. Returns how many: at most as many as `packed` has.
std::size_t pack(std::span<const float> numbers, std::span<const std::uint8_t> mask, std::span<float> packed);

std::size_t count_of(std::span<const std::uint8_t> mask);

/// The other way; what the mask does not name is 0.
void unpack(std::span<const float> packed, std::span<const std::uint8_t> mask, std::span<float> numbers);

/// The masks of a program under construction: written where a tensor goes forward, read where its gradient comes back.
/// As many as there are micro-batches between the two.
class MaskStorages {
public:
  MaskStorages(schedule::Program& program, run::Place place) : program_(program), place_(place) {}

  /// For what is written now of a micro-batch of an edge.
  run::Value take(int edge, int micro_batch, std::int64_t n);

  /// That mask, for its last reader.
  run::Value give_back(int edge, int micro_batch);

private:
  schedule::Program& program_;
  run::Place place_;
  std::map<int, std::vector<run::Value>> free_{};
  std::map<int, int> taken_{};
  std::map<std::pair<int, int>, run::Value> in_use_{};
};

}  // namespace compress::detail
}  // namespace v0
}  // namespace reef

#ifndef REEF_COMPILED
#include <reef/compress/detail/masks.ipp>
#endif
