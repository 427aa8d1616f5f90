#pragma once

#include <cstdint>
#include <span>

#include <reef/core/error.hpp>
#include <reef/core/tensor_view.hpp>
#include <reef/data/token_view.hpp>

namespace reef {
inline namespace v0 {
namespace data {

/// A sampler that maps each training sample to a window of T consecutive tokens, as a function of its global index
/// alone.
///
///     epoch e = sample / W,  window w = permutation_e(sample mod W),  start = shift_e + w T
///
/// Each epoch visits each of its W windows of T tokens once, in an order of its own. The shift, below T, moves the
/// borders of windows from epoch to epoch; in the first epoch it is 0.
///
/// | state  | none: with the same seed, T and tokens, an index always gives the same sample. |
/// |        | The cursor of a run is the count of samples so far; checkpoints store it       |
/// | shape  | tokens, targets: (B, T) int32; targets[b, t] is the token after tokens[b, t]   |
/// | memory | only a view of the tokens, which must outlive the sampler: bytes of a text, or |
/// |        | shards of 2 or 4 bytes for each token, in one piece or in several              |
/// | errors | OptionError if the tokens do not fill one window; ShapeError for inputs of     |
/// |        | another T                                                                      |
///
/// \code
/// // given: const data::Corpus& text
/// const data::Sampler sampler(text.training(), 256, 1);  // T = 256, seed 1
/// const auto source = [&](std::uint64_t first, std::span<const AnyView> inputs) {
///   sampler.fill(first, inputs);
///   return 1.0;  // the weight of the micro-batch
/// };
/// \endcode
class Sampler {
public:
  Sampler(TokenView tokens, std::int64_t context, std::uint64_t seed);

  /// Returns the number of windows (training samples of T tokens) of an epoch.
  [[nodiscard]] std::int64_t windows() const { return windows_; }
  [[nodiscard]] std::int64_t context() const { return context_; }
  [[nodiscard]] std::uint64_t seed() const { return seed_; }

  /// Returns the index of the first token of a sample's window of T tokens.
  [[nodiscard]] std::int64_t start_of(std::uint64_t sample) const;

  /// Writes consecutive samples from number `first` on, as many as the inputs hold, to the two inputs of a language
  /// model: tokens and targets.
  void fill(std::uint64_t first, std::span<const AnyView> inputs) const;

private:
  TokenView tokens_;
  std::int64_t context_;
  std::uint64_t seed_;
  std::int64_t windows_ = 1;
  bool shifts_ = false;
};

/// A reader of held-out tokens as consecutive windows of T tokens; each token but the first is a target exactly once.
/// The last window may be short: its targets beyond the end are -1, which the loss ignores.
///
/// The last window may be short: its targets beyond the end are -1, which the loss ignores.
class Validation {
public:
  Validation(TokenView tokens, std::int64_t context);

  [[nodiscard]] std::int64_t windows() const {
    return (static_cast<std::int64_t>(tokens_.size()) - 1 + context_ - 1) / context_;
  }
  [[nodiscard]] std::int64_t context() const { return context_; }

  /// Writes consecutive windows from number `first` on, as many as the inputs hold, to the two inputs of a language
  /// model; behind the last window, padding. Returns the number of targets that are not -1: the weight of the mean
  /// loss.
  std::int64_t fill(std::int64_t first, std::span<const AnyView> inputs) const;

private:
  TokenView tokens_;
  std::int64_t context_;
};

}  // namespace data
}  // namespace v0
}  // namespace reef

#ifndef REEF_COMPILED
#include <reef/data/sampler.ipp>
#endif
