#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include <reef/core/inline.hpp>
#include <reef/run/bucket.hpp>

namespace reef {
inline namespace v0 {
namespace run {

REEF_INLINE std::vector<std::pair<std::int64_t, std::int64_t>> Bucket::pieces(std::int64_t first,
                                                                              std::int64_t last) const {
  std::vector<std::pair<std::int64_t, std::int64_t>> result;
  for (std::size_t p = 0; p < parameters.size(); ++p) {
    const std::int64_t next = p + 1 < parameters.size() ? parameters[p + 1] : size();
    const std::int64_t from = (std::max)(first, parameters[p]);
    const std::int64_t to = (std::min)(last, next);
    if (from < to) result.emplace_back(from, to);
  }
  return result;
}

REEF_INLINE std::int64_t norm_blocks(std::span<const std::pair<std::int64_t, std::int64_t>> pieces) {
  std::int64_t blocks = 0;
  for (const auto& [begin, end] : pieces) blocks += norm_blocks(end - begin);
  return blocks;
}

REEF_INLINE std::vector<std::int64_t> shard_offsets(std::int64_t n, int ranks,
                                                    std::span<const std::int64_t> parameters) {
  std::vector<std::int64_t> offsets;
  for (int r = 0; r <= ranks; ++r) {
    const std::int64_t share = n / ranks * r + n % ranks * r / ranks;
    const auto behind = std::upper_bound(parameters.begin(), parameters.end(), share);
    const std::int64_t begin = behind == parameters.begin() ? 0 : *(behind - 1);
    const std::int64_t below = begin + (share - begin) / norm_block * norm_block;
    const std::int64_t above =
        (std::min)(below + norm_block, behind == parameters.end() ? n : *behind);
    offsets.push_back(share - below < above - share ? below : above);
  }
  offsets.back() = n;
  return offsets;
}

REEF_INLINE std::vector<std::int64_t> whole_shard_offsets(std::int64_t n, std::span<const std::int64_t> parts,
                                                          std::span<const std::int64_t> work,
                                                          std::span<std::int64_t> loads) {
  const std::size_t count = parts.size();
  const std::size_t ranks = loads.size();
  // The first part that ranks from the back need not take, if none takes beyond the bound: by the first of them.
  const auto least_begins = [&](std::int64_t bound) {
    std::vector<std::size_t> begins(ranks + 1, count);
    for (std::size_t r = ranks; r-- > 0;) {
      std::size_t begin = begins[r + 1];
      for (std::int64_t load = loads[r]; begin > 0 && load + work[begin - 1] <= bound;) load += work[--begin];
      begins[r] = begin;
    }
    return begins;
  };
  std::int64_t below = -1;
  std::int64_t bound = *std::max_element(loads.begin(), loads.end());
  for (const std::int64_t one : work) bound += one;
  while (bound - below > 1) {
    const std::int64_t middle = below + (bound - below) / 2;
    (least_begins(middle).front() == 0 ? bound : below) = middle;
  }
  const std::vector<std::size_t> begins = least_begins(bound);
  std::int64_t left = 0;  // of what is not dealt out, with the loads of those who may take it
  for (const std::int64_t one : work) left += one;
  for (const std::int64_t load : loads) left += load;
  std::vector<std::int64_t> offsets{0};
  std::size_t next = 0;
  for (std::size_t r = 0; r < ranks; ++r) {
    const std::int64_t fair = left / static_cast<std::int64_t>(ranks - r);
    const auto nearer = [&](std::int64_t one) { return loads[r] + one / 2 < fair && loads[r] + one <= bound; };
    while (next < count && (next < begins[r + 1] || nearer(work[next]))) loads[r] += work[next++];
    left -= loads[r];
    offsets.push_back(next < count ? parts[next] : n);
  }
  offsets.back() = n;
  return offsets;
}

}  // namespace run
}  // namespace v0
}  // namespace reef
