#pragma once

#include <algorithm>
#include <cstddef>

#include <reef/core/inline.hpp>
#include <reef/swarm/average/detail/own_contributions.hpp>
#include <reef/swarm/net/sha256.hpp>

namespace reef {
inline namespace v0 {
namespace swarm {
namespace detail {

REEF_INLINE void OwnContributions::settle(const PeerId& self, const Ledger& ledger) {
  const Ledger::Round* const round = ledger.round(std::exchange(round_, -1));
  if (round == nullptr || !round->applied) return;
  const bool is_in = std::any_of(round->shares.begin(), round->shares.end(), [&](const Share& share) {
    return share.id == self && share.digest == digest_;
  });
  if (is_in) encoder_.advance();
}

REEF_INLINE std::vector<Bulk> OwnContributions::encode(std::int64_t round, std::span<const float> numbers) {
  std::vector<Bulk> parts = encoder_.encode(numbers);
  if (!has_memory()) return parts;
  std::vector<Digest> digests;
  for (const Bulk& part : parts) digests.push_back(sha256(*part));
  round_ = round;
  digest_ = root_of(digests, sha256);
  return parts;
}

}  // namespace detail
}  // namespace swarm
}  // namespace v0
}  // namespace reef
