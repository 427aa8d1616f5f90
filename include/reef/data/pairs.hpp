#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <reef/core/tensor_view.hpp>

namespace reef {
inline namespace v0 {
namespace data {

/// A prompt, its completion, the text that should follow the prompt, and the place "FILE, line N" for errors.
struct TextPair {
  std::string prompt;
  std::string completion;
  std::string source{};
};

/// Reads a file of pairs: each line is a JSON object with the texts "prompt" and "completion"; other members, and empty
/// lines, are ignored.
///
/// Throws FileError if the file cannot be read; DecodeError with the file, the line and the member for anything else,
/// for an empty completion, and for a file without pairs.
std::vector<TextPair> read_text_pairs(const std::filesystem::path& file);

/// A range of tokens [begin, end) of a pair of prompt and completion.
struct TokenRange {
  std::size_t begin = 0;
  std::size_t end = 0;

  friend bool operator==(const TokenRange&, const TokenRange&) = default;
};

/// A prompt and its completion as tokens: the first `prompt` tokens are the prompt, the others the completion, but for
/// the ranges of `skipped`, ascending and apart, which the model does not learn either: what others say in a
/// conversation.
struct TokenPair {
  std::vector<std::int32_t> tokens;
  std::size_t prompt = 0;
  std::vector<TokenRange> skipped{};
};

/// A sampler that maps each training sample to a pair of prompt and completion, as a function of its global index
/// alone: every epoch visits each pair once, in an order of its own. Only tokens of completions are targets.
///
///     tokens[b, t] = pair[t], 0 behind its end;   targets[b, t] = pair[t + 1] if that is in the completion, else -1
///
/// | state  | none: with the same seed, an index always gives the same sample                              |
/// | shape  | tokens, targets: (B, T) int32, B samples of T tokens; of a pair with more than T + 1 tokens, |
/// |        | the first T + 1                                                                              |
/// | errors | OptionError without pairs, for a pair whose completion begins behind T, or whose skipped     |
/// |        | ranges are not ascending and within the completion; ShapeError for inputs of another T       |
///
/// \code
/// const std::vector<data::TokenPair> pairs{{.tokens = {7, 7, 3, 4}, .prompt = 2}};
/// const data::PairSampler sampler(pairs, 256, 1);  // T = 256, seed 1
/// const auto source = [&](std::uint64_t first, std::span<const AnyView> inputs) {
///   return static_cast<double>(sampler.fill(first, inputs));  // the weight: targets that count
/// };
/// \endcode
class PairSampler {
public:
  /// Constructs a sampler that refers to `pairs`, which must outlive this object.
  PairSampler(std::span<const TokenPair> pairs, std::int64_t context, std::uint64_t seed);

  /// Writes consecutive samples from number `first` on, as many as the inputs hold. Returns the number of targets that
  /// are not -1: the weight of this batch's mean loss.
  std::int64_t fill(std::uint64_t first, std::span<const AnyView> inputs) const;

  /// Writes pairs of prompt and completion from index `first` on in their own order, for evaluation; behind the last
  /// pair, padding. Returns the number of targets that are not -1.
  std::int64_t fill_in_order(std::uint64_t first, std::span<const AnyView> inputs) const;

private:
  /// Writes a pair of prompt and completion to a row of tokens and targets; returns the number of its targets that are
  /// not -1.
  std::int64_t write(std::size_t pair, std::int32_t* tokens, std::int32_t* targets) const;

  std::span<const TokenPair> pairs_;
  std::int64_t context_;
  std::uint64_t seed_;
};

}  // namespace data
}  // namespace v0
}  // namespace reef

#ifndef REEF_COMPILED
#include <reef/data/pairs.ipp>
#endif
