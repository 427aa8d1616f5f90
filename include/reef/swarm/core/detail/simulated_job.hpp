#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include <reef/swarm/core/detail/draws.hpp>
#include <reef/swarm/core/round.hpp>

namespace reef {
inline namespace v0 {
namespace swarm {
namespace core {
namespace detail {

/// A digest for simulations: four lanes of a 64-bit mix. Not for messages of others.
inline Digest simulated_digest(std::span<const std::byte> bytes) {
  std::uint64_t lanes[4] = {1, 2, 3, 4};
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    std::uint64_t& lane = lanes[i % 4];
    lane = (lane ^ static_cast<std::uint64_t>(bytes[i])) * 0x9E3779B97F4A7C15ULL;
    lane ^= lane >> 29;
  }
  Digest digest;
  for (std::size_t lane = 0; lane < 4; ++lane) {
    const std::uint64_t value = Draws(lanes[lane] + bytes.size() + lanes[(lane + 1) % 4]).next();
    std::memcpy(digest.bytes.data() + 8 * lane, &value, sizeof value);
  }
  return digest;
}

inline Bulk bulk_of(std::uint64_t value) {
  std::vector<std::byte> bytes(sizeof value + 1);
  std::memcpy(bytes.data(), &value, sizeof value);
  for (std::size_t i = 0; i < sizeof value; ++i) bytes.back() ^= bytes[i];  // so that a changed part is noticed
  return std::make_shared<const std::vector<std::byte>>(std::move(bytes));
}

inline std::uint64_t value_of(const Bulk& bulk) {
  std::uint64_t value = 0;
  std::memcpy(&value, bulk->data(), sizeof value);
  return value;
}

inline bool is_whole(const Bulk& bulk) {
  return bulk->size() == sizeof(std::uint64_t) + 1 && *bulk_of(value_of(bulk)) == *bulk;
}

/// Bytes that are no part, as of a sum that is not finite.
inline Bulk bulk_not_finite() {
  std::vector<std::byte> bytes = *bulk_of(0);
  bytes.back() ^= std::byte{1};
  return std::make_shared<const std::vector<std::byte>>(std::move(bytes));
}

/// Returns the digest of the state of a peer: of the digests of its pieces.
inline Digest digest_of_state(const std::vector<std::uint64_t>& weights) {
  std::vector<Digest> digests;
  for (const std::uint64_t weight : weights) digests.push_back(simulated_digest(*bulk_of(weight)));
  return root_of(digests, simulated_digest);
}

/// The gradient of a micro-batch in one piece: a sum of these is exact in any order.
inline std::uint64_t gradient_of(std::int64_t micro_batch, std::int64_t piece) {
  return Draws(static_cast<std::uint64_t>(micro_batch) * 1000003 + static_cast<std::uint64_t>(piece)).next();
}

inline std::uint64_t next_weight(std::uint64_t weight, std::uint64_t gradient) {
  return Draws(weight ^ (gradient * 3)).next();
}

/// Returns what a peer contributes of these micro-batches. `finite`: false, if a gradient is not.
inline Contribution simulated_contribution(std::vector<std::int64_t> indices, std::int64_t pieces, bool finite) {
  Contribution contribution;
  std::sort(indices.begin(), indices.end());
  contribution.weight = static_cast<double>(indices.size());
  contribution.loss = contribution.weight;
  for (std::int64_t piece = 0; piece < pieces && !indices.empty(); ++piece) {
    std::uint64_t sum = 0;
    for (const std::int64_t index : indices) sum += gradient_of(index, piece);
    contribution.parts.push_back(finite ? bulk_of(sum) : bulk_not_finite());
  }
  contribution.indices = std::move(indices);
  return contribution;
}

/// Returns a part with one bit changed.
inline Bulk corrupted(const Bulk& part, Draws& draws) {
  std::vector<std::byte> bytes = *part;
  bytes[draws.below(bytes.size())] ^= std::byte{1};
  return std::make_shared<const std::vector<std::byte>>(std::move(bytes));
}

inline RoundFunctions simulated_functions() {
  RoundFunctions functions;
  functions.digest = simulated_digest;
  functions.fold = [](std::int64_t, std::span<const Bulk> parts) {
    std::uint64_t sum = 0;
    for (const Bulk& part : parts) sum += value_of(part);
    return bulk_of(sum);
  };
  functions.accepts = [](std::int64_t, const Bulk& part) { return is_whole(part); };
  functions.judge = [](std::span<const Bulk>, double weight, double loss) {
    return RoundVerdict{true, 0, 1, loss / weight};
  };
  return functions;
}

}  // namespace detail
}  // namespace core
}  // namespace swarm
}  // namespace v0
}  // namespace reef
