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

/// A prompt and what is to follow it, as text.
struct TextPair {
  std::string prompt;
  std::string completion;
};

/// Reads a file of pairs: a JSON object a line, with "prompt" and "completion", both text; other members are passed
/// over, and so are empty lines.
///
/// Throws FileError if it cannot be read; DecodeError naming the file, the line and the member for anything else, for an
/// empty completion, and for a file without pairs.
std::vector<TextPair> read_text_pairs(const std::filesystem::path& file);

/// A prompt and what is to follow it, as tokens: the first `prompt` of them are the prompt's.
struct TokenPair {
  std::vector<std::int32_t> tokens;
  std::size_t prompt = 0;
};

/// Maps each training sample to a pair, as a function of its global index alone: every epoch visits each pair once, in
/// an order of its own. Targets are the completions' tokens alone.
///
///     tokens[b, t] = pair[t], 0 behind its end;   targets[b, t] = pair[t + 1] if that is of the completion, else -1
///
/// | state  | none: with the same seed a sample is the same whenever it is asked for                 |
/// | shape  | tokens, targets: (B, T) int32; of a pair of more than T + 1 tokens the first T + 1      |
/// | errors | OptionError without pairs, and for one whose completion begins behind T; ShapeError for |
/// |        | inputs of another T                                                                    |
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
  /// Refers to `pairs`, which outlive it.
  PairSampler(std::span<const TokenPair> pairs, std::int64_t context, std::uint64_t seed);

  /// Writes samples [first, first + B); returns how many targets count: the weight of this batch's mean loss.
  std::int64_t fill(std::uint64_t first, std::span<const AnyView> inputs) const;

  /// Writes pairs [first, first + B) in their own order, to hold out; those beyond the last are all padding.
  std::int64_t fill_in_order(std::uint64_t first, std::span<const AnyView> inputs) const;

private:
  /// Writes a pair to a row; returns how many of its targets count.
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
