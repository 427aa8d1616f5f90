#pragma once

#include <algorithm>
#include <cmath>
#include <string>
#include <utility>

#include <reef/core/inline.hpp>
#include <reef/swarm/core/round.hpp>

namespace reef {
inline namespace v0 {
namespace swarm {
namespace core {

REEF_INLINE Digest digest_of(std::span<const PeerId> contributors, const DigestFunction& function) {
  std::string text;
  for (const PeerId& id : contributors) text += to_text(id) + "\n";
  return function(std::as_bytes(std::span(text)));
}

REEF_INLINE Contribution checked(Contribution contribution, const RoundFunctions& functions) {
  bool good = std::isfinite(contribution.weight) && std::isfinite(contribution.loss);
  for (std::size_t piece = 0; good && piece < contribution.parts.size(); ++piece)
    good = functions.accepts(static_cast<std::int64_t>(piece), contribution.parts[piece]);
  if (good) return contribution;
  return {std::move(contribution.indices), 0, 0, {}, false};
}

REEF_INLINE void Round::contribute(const PeerId& self, Contribution contribution, const DigestFunction& digest) {
  contributed_ = true;
  own_parts_ = std::move(contribution.parts);
  std::vector<Digest> digests;
  for (std::size_t piece = 0; piece < own_parts_.size(); ++piece) {
    digests.push_back(digest(*own_parts_[piece]));
    parts_[{static_cast<std::int64_t>(piece), self}] = own_parts_[piece];
  }
  offers_[self] = {round_,
                   attempt_,
                   runs_of(contribution.indices),
                   contribution.weight,
                   contribution.loss,
                   root_of(digests, digest),
                   contribution.finite};
}

REEF_INLINE bool Round::offered(const PeerId& from, const Offer& offer) {
  return offers_.try_emplace(from, offer).second;
}

REEF_INLINE const Offer* Round::offer_of(const PeerId& peer) const& {
  const auto found = offers_.find(peer);
  return found == offers_.end() ? nullptr : &found->second;
}

REEF_INLINE bool Round::received(const PeerId& from, const Part& part) {
  return parts_.try_emplace({part.piece, from}, part.bytes).second;
}

REEF_INLINE void Round::reduced(const Digest& targets, std::int64_t piece, Bulk bytes, const DigestFunction& digest) {
  const auto [at, is_new] = results_[targets].try_emplace(piece);
  if (is_new) at->second = {bytes, digest(*bytes)};
}

REEF_INLINE std::size_t Round::encoded_pieces() const {
  std::size_t pieces = parts_.size();  // of these are the own ones
  for (const auto& [targets, results] : results_) pieces += results.size();
  return pieces;
}

REEF_INLINE void Round::keep_results_of(const Digest& targets) {
  std::erase_if(results_, [&](const auto& of) { return of.first != targets; });
}

REEF_INLINE void Round::keep_parts_of(std::span<const PeerId> targets, const PeerId& self,
                                      std::span<const PeerId> reducers) {
  std::erase_if(parts_, [&](const auto& part) {
    const auto& [piece, from] = part.first;
    if (from == self) return false;
    const auto at = static_cast<std::size_t>(piece);
    const bool is_summed = at < reducers.size() && reducers[at] == self;
    return !is_summed || std::find(targets.begin(), targets.end(), from) == targets.end();
  });
}

REEF_INLINE void Round::commit(const Digest& targets) {
  own_parts_.clear();
  parts_.clear();
  keep_results_of(targets);
}

REEF_INLINE bool Round::has_whole(const PeerId& peer, const PeerId& self, std::span<const PeerId> reducers) const {
  const Offer* const offer = offer_of(peer);
  if (offer == nullptr) return false;
  if (offer->weight == 0) return true;
  for (std::size_t piece = 0; piece < reducers.size(); ++piece) {
    if (reducers[piece] == self && !has_part(static_cast<std::int64_t>(piece), peer)) return false;
  }
  return true;
}

REEF_INLINE std::optional<std::vector<Bulk>> Round::parts_of(std::int64_t piece,
                                                             std::span<const PeerId> targets) const {
  std::vector<Bulk> parts;
  for (const PeerId& peer : targets) {
    const Offer* const offer = offer_of(peer);
    if (offer == nullptr) return std::nullopt;
    if (offer->weight == 0) continue;
    const auto found = parts_.find({piece, peer});
    if (found == parts_.end()) return std::nullopt;
    parts.push_back(found->second);
  }
  return parts;
}

REEF_INLINE bool Round::has_result(const Digest& targets, std::int64_t piece) const {
  const auto found = results_.find(targets);
  return found != results_.end() && found->second.contains(piece);
}

REEF_INLINE Bulk Round::result(const Digest& targets, std::int64_t piece) const {
  return has_result(targets, piece) ? results_.at(targets).at(piece).bytes : nullptr;
}

REEF_INLINE std::optional<std::vector<Bulk>> Round::results(const Digest& targets) const {
  const auto found = results_.find(targets);
  if (found == results_.end() || static_cast<std::int64_t>(found->second.size()) < pieces_) return std::nullopt;
  std::vector<Bulk> results;
  for (const auto& [piece, reduced] : found->second) results.push_back(reduced.bytes);
  return results;
}

REEF_INLINE Digest Round::root(const Digest& targets, const DigestFunction& digest) const {
  const auto found = results_.find(targets);
  if (found == results_.end() || static_cast<std::int64_t>(found->second.size()) < pieces_) return {};
  std::vector<Digest> digests;
  for (const auto& [piece, reduced] : found->second) digests.push_back(reduced.digest);
  return root_of(digests, digest);
}

REEF_INLINE std::vector<std::int64_t> Round::missing_results(const Digest& targets) const {
  std::vector<std::int64_t> missing;
  for (std::int64_t piece = 0; piece < pieces_; ++piece) {
    if (!has_result(targets, piece)) missing.push_back(piece);
  }
  return missing;
}

}  // namespace core
}  // namespace swarm
}  // namespace v0
}  // namespace reef
