#pragma once

#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include <reef/core/inline.hpp>
#include <reef/swarm/average/part_codec.hpp>
#include <reef/swarm/core/ledger.hpp>

namespace reef {
inline namespace v0 {
namespace swarm {
namespace detail {

/// The contributions of one peer to the rounds of a job. The memory of their codec advances with those that were
/// applied.
class OwnContributions {
public:
  OwnContributions(PartCodec codec, std::int64_t parameters, std::int64_t piece)
      : encoder_(std::move(codec), parameters, piece) {}

  [[nodiscard]] bool has_memory() const { return encoder_.has_memory(); }

  /// Lets the memory advance if the last contribution is among those of its round, which was applied.
  void settle(const PeerId& self, const Ledger& ledger);
  /// Encodes the contribution to a round. Of a codec with memory, the one before is settled.
  [[nodiscard]] std::vector<Bulk> encode(std::int64_t round, std::span<const float> numbers);

private:
  ContributionEncoder encoder_;
  std::int64_t round_ = -1;  ///< of the contribution that is not settled
  Digest digest_{};          ///< of its parts, as its Share has it
};

}  // namespace detail
}  // namespace swarm
}  // namespace v0
}  // namespace reef

#ifndef REEF_COMPILED
#include <reef/swarm/average/detail/own_contributions.ipp>
#endif
