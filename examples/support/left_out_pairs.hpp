#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include <reef/core/error.hpp>
#include <reef/core/text.hpp>
#include <reef/data/pairs.hpp>

namespace reef_examples {

/// Counts the samples of files that have nothing to learn in `context` tokens: a longer sample is cut at its end, and
/// these lose all that follows the prompt.
class LeftOutPairs {
public:
  /// `context`: the tokens of a sample; 0 for any number.
  explicit LeftOutPairs(std::int64_t context) : context_(context) {}

  /// Returns true, and counts the pair, if none of its targets is among the first tokens of the context. `source` is
  /// the pair's "FILE, line N".
  bool takes(const reef::data::TokenPair& pair, const std::string& source) {
    ++all_;
    const bool is_cut_off = context_ > 0 && pair.prompt > static_cast<std::size_t>(context_);
    if (!is_cut_off && pair.tokens.size() > 1) return false;
    if (count_++ == 0) {
      first_ = !is_cut_off ? reef::concat(source, " has one token in all")
                           : reef::concat(source, " has ", pair.prompt,
                                          " tokens in front of what is learnt, and --context has ", context_);
    }
    return true;
  }

  /// Returns a sentence for a reader; empty if no sample was left out. Throws OptionError if all were.
  [[nodiscard]] std::string note() const {
    if (count_ == 0) return "";
    if (count_ == all_) {
      throw reef::OptionError("no sample has anything to learn: ", first_, ".\n  why: a sample is cut at its end.\n",
                              "  fix: more --context, or shorter prompts.");
    }
    return reef::concat("data: ", count_, " of ", all_, " samples left out, which have nothing to learn: ", first_,
                        count_ > 1 ? "; others likewise" : "");
  }

private:
  std::int64_t context_;
  std::size_t all_ = 0;
  std::size_t count_ = 0;
  std::string first_;
};

}  // namespace reef_examples
