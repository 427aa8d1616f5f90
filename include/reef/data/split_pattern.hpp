#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include <reef/core/error.hpp>
#include <reef/core/inline.hpp>

namespace reef {
inline namespace v0 {
namespace data {

/// Cuts text into its matches of a regular expression and what lies between them.
class SplitPattern {
public:
  SplitPattern() = default;
  SplitPattern(const SplitPattern&) = delete;
  SplitPattern& operator=(const SplitPattern&) = delete;
  virtual ~SplitPattern() = default;

  /// Appends where the pieces of a text end, rising, the last at its end; none for an empty text. The text is valid
  /// UTF-8. Throws DecodeError where looking for a match takes too many steps.
  virtual void cut(std::string_view text, std::vector<std::size_t>& ends) const = 0;
};

/// Functions of libraries that tokenizers ask for, which Reef itself does not stand on.
///
/// \code
/// data::TextFunctions functions = data::text_functions();  // those that this program is built with
/// const std::shared_ptr<const data::SplitPattern> pattern = functions.pattern(" ?\\p{L}+");
/// std::vector<std::size_t> ends;
/// pattern->cut("two words", ends);
/// \endcode
struct TextFunctions {
  /// Makes a pattern, in the form that pcre2_form returns. Throws DecodeError for one that is none, OptionError where
  /// no library is there.
  std::shared_ptr<const SplitPattern> (*pattern)(const std::string& expression);
  /// Returns valid UTF-8 in Unicode's normal form C. Throws OptionError where no library is there.
  std::string (*nfc)(std::string_view text);
};

/// Returns a pattern of a tokenizer.json in a form that PCRE2 reads as Oniguruma, which Hugging Face matches by, reads
/// the pattern itself: `\s` is Unicode's White_Space.
///
/// | taken   | literals, classes, alternatives, quantifiers, `(?:`, `(?i:`, `(?=`, `(?!`, `(?<=`, `(?<!`, `(?>`, \p, \P, |
/// |         | \s, \S (outside of classes), \d, \D, \r, \n, \t, \f, \x                                               |
/// | refused | all else, by DecodeError: it may mean something else to each of the two                               |
///
/// \code
/// const std::string pattern = data::pcre2_form("\\s+(?!\\S)|\\s+");
/// \endcode
std::string pcre2_form(std::string_view pattern);

}  // namespace data
}  // namespace v0
}  // namespace reef

#ifndef REEF_COMPILED
#include <reef/data/split_pattern.ipp>
#endif
