#pragma once

/// \file
/// The functions of the libraries PCRE2 and utf8proc that tokenizers need, for programs that are built with them:
/// REEF_HAS_PCRE2 and REEF_HAS_UTF8PROC, which the CMake targets reef::pcre2 and reef::utf8proc define. The bodies are
/// in this header, not in the compiled library, so that only programs that ask for these libraries are linked with
/// them.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <new>
#include <string>
#include <string_view>
#include <vector>

#include <reef/core/error.hpp>
#include <reef/core/text.hpp>
#include <reef/data/split_pattern.hpp>

#ifdef REEF_HAS_PCRE2
#ifndef PCRE2_CODE_UNIT_WIDTH
#define PCRE2_CODE_UNIT_WIDTH 8
#endif
#include <pcre2.h>
#endif
#ifdef REEF_HAS_UTF8PROC
#include <utf8proc.h>

#include <cstdlib>
#endif

namespace reef {
inline namespace v0 {
namespace data {

#ifdef REEF_HAS_PCRE2

/// A pattern that PCRE2 matches, with limits on steps and memory; threads may share a pattern.
class Pcre2Pattern final : public SplitPattern {
public:
  /// Compiles the regular expression `expression`, which pcre2_form has returned.
  explicit Pcre2Pattern(const std::string& expression)
      : expression_(expression), code_(nullptr, &pcre2_code_free_8) {
    int error = 0;
    PCRE2_SIZE place = 0;
    // The flag that forbids \C is set, since \C would match a part of a character.
    code_.reset(pcre2_compile_8(units(expression_), expression_.size(),
                                PCRE2_UTF | PCRE2_UCP | PCRE2_NEVER_BACKSLASH_C, &error, &place,
                                nullptr));
    if (code_ == nullptr) {
      throw DecodeError("reef::data::Pcre2Pattern: ", in_quotes(expression_, 300),
                        " is no regular expression: ", text_of(error), " at byte ", place,
                        ".\n  fix: the pattern as its tokenizer has it.");
    }
    // If the expression cannot be compiled to machine code, PCRE2 interprets it.
    pcre2_jit_compile_8(code_.get(), PCRE2_JIT_COMPLETE);
  }

  void cut(std::string_view text, std::vector<std::size_t>& ends) const override {
    const std::unique_ptr<pcre2_match_data_8, decltype(&pcre2_match_data_free_8)> match(
        pcre2_match_data_create_8(1, nullptr), &pcre2_match_data_free_8);
    const std::unique_ptr<pcre2_match_context_8, decltype(&pcre2_match_context_free_8)> limits(
        pcre2_match_context_create_8(nullptr), &pcre2_match_context_free_8);
    if (match == nullptr || limits == nullptr) throw std::bad_alloc();
    pcre2_set_match_limit_8(limits.get(), max_steps);
    pcre2_set_depth_limit_8(limits.get(), max_depth);
    pcre2_set_heap_limit_8(limits.get(), max_kibibytes);
    std::uint32_t options = 0;  // PCRE2 checks the UTF-8 of the text once
    std::size_t begin = 0;
    const auto end_at = [&](std::size_t end) {
      if (end > begin) ends.push_back(begin = end);
    };
    for (std::size_t at = 0; at < text.size();) {
      int found = pcre2_match_8(code_.get(), units(text), text.size(), at, options, match.get(),
                                limits.get());
      if (found == PCRE2_ERROR_JIT_STACKLIMIT) {
        found = pcre2_match_8(code_.get(), units(text), text.size(), at, options | PCRE2_NO_JIT,
                              match.get(), limits.get());
      }
      if (found == PCRE2_ERROR_NOMATCH) break;
      if (found < 0) refuse(found, at);
      options = PCRE2_NO_UTF_CHECK;
      const PCRE2_SIZE* const place = pcre2_get_ovector_pointer_8(match.get());
      end_at(place[0]);
      end_at(place[1]);
      at = place[1];
      if (place[0] < place[1]) continue;
      // Behind an empty match the search for the next match begins one character later.
      do ++at;
      while (at < text.size() && (static_cast<unsigned char>(text[at]) & 0xC0U) == 0x80U);
    }
    end_at(text.size());
  }

private:
  static constexpr std::uint32_t max_steps = 10'000'000;
  static constexpr std::uint32_t max_depth = 1'000'000;
  static constexpr std::uint32_t max_kibibytes = 256 * 1024;

  static PCRE2_SPTR8 units(std::string_view text) {
    return reinterpret_cast<PCRE2_SPTR8>(text.data());
  }

  static std::string text_of(int error) {
    PCRE2_UCHAR8 text[256] = {};
    pcre2_get_error_message_8(error, text, sizeof text);
    return reinterpret_cast<const char*>(text);
  }

  [[noreturn]] void refuse(int error, std::size_t at) const {
    throw DecodeError("reef::data::Pcre2Pattern: ", in_quotes(expression_, 300),
                      " finds no end at byte ", at, " of a text: ", text_of(error),
                      ".\n  why: a pattern may try many ways to match, and is stopped after ",
                      max_steps, " steps.\n  fix: a pattern with fewer ways, or shorter texts.");
  }

  std::string expression_;
  std::unique_ptr<pcre2_code_8, decltype(&pcre2_code_free_8)> code_;
};

#endif

/// Returns a compiled regular expression of PCRE2. Throws OptionError in a program that is built without PCRE2.
inline std::shared_ptr<const SplitPattern> make_pattern(
    [[maybe_unused]] const std::string& expression) {
#ifdef REEF_HAS_PCRE2
  return std::make_shared<const Pcre2Pattern>(expression);
#else
  throw OptionError(
      "reef::data::make_pattern: this program is built without PCRE2.\n"
      "  why: a tokenizer.json that cuts text by a pattern of its own needs it.\n"
      "  fix: install it (Debian and Ubuntu: apt-get install libpcre2-dev), configure again, and "
      "link reef::pcre2.");
#endif
}

/// Returns a text in Unicode's normal form C. Throws OptionError in a program that is built without utf8proc.
inline std::string make_nfc([[maybe_unused]] std::string_view text) {
#ifdef REEF_HAS_UTF8PROC
  utf8proc_uint8_t* mapped = nullptr;
  const utf8proc_ssize_t size =
      utf8proc_map(reinterpret_cast<const utf8proc_uint8_t*>(text.data()),
                   static_cast<utf8proc_ssize_t>(text.size()), &mapped,
                   static_cast<utf8proc_option_t>(UTF8PROC_STABLE | UTF8PROC_COMPOSE));
  const std::unique_ptr<utf8proc_uint8_t, decltype(&std::free)> owned(mapped, &std::free);
  if (size < 0) {
    throw DecodeError("reef::data::make_nfc: ", utf8proc_errmsg(size),
                      ".\n  fix: valid UTF-8, and less of it.");
  }
  return {reinterpret_cast<const char*>(mapped), static_cast<std::size_t>(size)};
#else
  throw OptionError(
      "reef::data::make_nfc: this program is built without utf8proc.\n"
      "  why: a tokenizer.json with the normalizer NFC needs it for text that is not ASCII.\n"
      "  fix: install it (Debian and Ubuntu: apt-get install libutf8proc-dev), configure again, "
      "and link reef::utf8proc.");
#endif
}

/// Returns the text functions of the libraries with which this program is built.
///
/// \code
/// const std::string text = data::text_functions().nfc("e\xCC\x81");  // e and an accent: one character
/// \endcode
inline TextFunctions text_functions() { return {&make_pattern, &make_nfc}; }

}  // namespace data
}  // namespace v0
}  // namespace reef
