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

/// A pattern that cuts text into the matches of a regular expression and the text between them.
class SplitPattern {
public:
  SplitPattern() = default;
  SplitPattern(const SplitPattern&) = delete;
  SplitPattern& operator=(const SplitPattern&) = delete;
  virtual ~SplitPattern() = default;

  /// Appends the ends of the pieces of a text in ascending order, the last at its end; none for an empty text, which
  /// must be valid UTF-8. Throws DecodeError if the search for a match takes too many steps.
  virtual void cut(std::string_view text, std::vector<std::size_t>& ends) const = 0;
};

/// Functions of other libraries that tokenizers need; Reef itself does not depend on these libraries.
///
/// \code
/// data::TextFunctions functions = data::text_functions();  // those that this program is built with
/// const std::shared_ptr<const data::SplitPattern> pattern = functions.pattern(" ?\\p{L}+");
/// std::vector<std::size_t> ends;
/// pattern->cut("two words", ends);
/// \endcode
struct TextFunctions {
  /// Returns a compiled pattern from an expression of pcre2_form. Throws DecodeError for an invalid one, OptionError if
  /// the program is built without the library.
  std::shared_ptr<const SplitPattern> (*pattern)(const std::string& expression);
  /// Returns valid UTF-8 text in Unicode's normal form C. Throws OptionError if the program is built without the
  /// library.
  std::string (*nfc)(std::string_view text);
};

/// Returns a pattern of a tokenizer.json in a form that PCRE2 interprets as Oniguruma, with which Hugging Face matches,
/// interprets the pattern itself: `\s` is Unicode's White_Space.
///
/// | taken   | literals, classes, alternatives, quantifiers, `(?:`, `(?i:`, `(?=`, `(?!`, `(?<=`, `(?<!`, `(?>`, \p, |
/// |         | \P, \s, \S (outside of classes), \d, \D, \r, \n, \t, \f, \x; a class within a class, as Oniguruma    |
/// |         | has it: `[^a[bc]]` becomes `[^abc]`                                                                |
/// | refused | all else, by DecodeError: the two libraries may interpret it in different ways                        |
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
