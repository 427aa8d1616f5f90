#pragma once

/// \file
/// The tokenizer of the library SentencePiece, whose header is included if the program is built with it:
/// REEF_HAS_SENTENCEPIECE, which the CMake target reef::sentencepiece defines. The bodies are in this header, not in
/// the compiled library, so that only programs that ask for SentencePiece are linked with it.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <reef/core/error.hpp>
#include <reef/core/text.hpp>
#include <reef/core/units.hpp>
#include <reef/data/added_tokens.hpp>
#include <reef/data/detail/sentence_piece_model.hpp>
#include <reef/io/file.hpp>

#ifdef REEF_HAS_SENTENCEPIECE
#include <sentencepiece_processor.h>
#endif

namespace reef {
inline namespace v0 {
namespace data {

#ifndef REEF_HAS_SENTENCEPIECE
namespace detail {

[[noreturn]] inline void refuse_sentence_piece() {
  throw OptionError(
      "reef::data::SentencePieceTokenizer: this program is built without SentencePiece.\n"
      "  why: a tokenizer.model needs it.\n"
      "  fix: install it (Debian and Ubuntu: apt-get install libsentencepiece-dev), configure "
      "again, and link "
      "reef::sentencepiece.");
}

}  // namespace detail
#endif

/// Options of a SentencePieceTokenizer.
struct SentencePieceOptions {
  std::vector<AddedToken> added;  ///< tokens beside the model's, from its number of pieces on without a gap
  bool finds_added =
      false;  ///< true: control tokens and added ones are found in text; false: they are encoded as characters
};

/// The tokenizer of a SentencePiece model, such as Llama 2's tokenizer.model, by the library SentencePiece.
///
/// | text   | valid UTF-8: decode(encode(x)) is x as the model normalises it; Llama 2's changes only    |
/// |        | bytes that are not UTF-8, which become U+FFFD                                             |
/// | errors | DecodeError for a file that is no model, FileError if it cannot be read, OptionError in a |
/// |        | program that is built without SentencePiece                                               |
///
/// Control tokens ("</s>") and added tokens in a text are encoded as their characters, or found: the text behind one is
/// then encoded as the beginning of a text is, as Hugging Face's LlamaTokenizer does (`legacy`). A control token is
/// decoded as empty text, an added one as its own.
///
/// Source: Kudo and Richardson, SentencePiece: A simple and language independent subword tokenizer and detokenizer for
/// Neural Text Processing, EMNLP 2018 (arXiv 1808.06226).
///
/// \code
/// const auto tokenizer = data::SentencePieceTokenizer::read("model/tokenizer.model");
/// const std::vector<std::int32_t> tokens = tokenizer.encode_begin("Hello, world");
/// const std::string text = tokenizer.decode(tokens);
/// \endcode
class SentencePieceTokenizer {
public:
  /// Reads a model. Throws DecodeError also for options.added that go on with a gap, or that name a piece of the model
  /// otherwise; and, if they are to be found in text, for one that spaces or words beside it decide.
  [[nodiscard]] static SentencePieceTokenizer read(const std::filesystem::path& path,
                                                   const SentencePieceOptions& options = {}) {
    return SentencePieceTokenizer(path, options);
  }

#ifdef REEF_HAS_SENTENCEPIECE
  /// Returns the number of tokens, whose ids are 0 to vocabulary() - 1.
  [[nodiscard]] std::int32_t vocabulary() const { return pieces() + static_cast<std::int32_t>(added_.size()); }

  /// Returns the token that begins a text, or std::nullopt if the model has none.
  [[nodiscard]] std::optional<std::int32_t> begin_of_text() const {
    return known(processor_->bos_id());
  }

  /// Returns the token that ends a text, or std::nullopt if the model has none.
  [[nodiscard]] std::optional<std::int32_t> end_of_text() const {
    return known(processor_->eos_id());
  }

  /// Returns the token of a piece of text in the model's spelling, "</s>" or "\u2581the" for " the", or of an added
  /// token, or std::nullopt.
  [[nodiscard]] std::optional<std::int32_t> find(std::string_view piece) const {
    const auto own = std::find(added_.begin(), added_.end(), piece);
    if (own != added_.end()) return pieces() + static_cast<std::int32_t>(own - added_.begin());
    const int id = processor_->PieceToId({piece.data(), piece.size()});
    if (processor_->IdToPiece(id) != piece) return std::nullopt;
    return id;
  }

  [[nodiscard]] std::vector<std::int32_t> encode(std::string_view text) const {
    std::vector<std::int32_t> tokens;
    const auto encode_gap = [&](std::string_view gap) {
      const std::vector<int> ids = ids_of(gap);
      tokens.insert(tokens.end(), ids.begin(), ids.end());
    };
    found_.for_each_part(text, encode_gap, [&](std::int32_t token) { tokens.push_back(token); });
    return tokens;
  }

  /// Encodes text that continues earlier text: encode(text) without the space that the model puts in front of a text.
  /// Cost: two encodings of the text in front of the first token that is found in it.
  [[nodiscard]] std::vector<std::int32_t> encode_more(std::string_view text) const {
    std::vector<std::int32_t> tokens;
    bool continues = true;
    const auto add_gap = [&](std::string_view gap) {
      const std::vector<int> ids = continues ? ids_of_more(gap) : ids_of(gap);
      tokens.insert(tokens.end(), ids.begin(), ids.end());
    };
    found_.for_each_part(text, add_gap, [&](std::int32_t token) {
      tokens.push_back(token);
      continues = false;
    });
    return tokens;
  }

  /// Encodes the beginning of a text: encode(text), preceded by the token that begins a text if the model has one.
  [[nodiscard]] std::vector<std::int32_t> encode_begin(std::string_view text) const {
    std::vector<std::int32_t> tokens = encode(text);
    if (begin_of_text()) tokens.insert(tokens.begin(), *begin_of_text());
    return tokens;
  }

  /// Returns the text of the tokens. Throws DecodeError if a token is not in the vocabulary.
  [[nodiscard]] std::string decode(std::span<const std::int32_t> tokens) const {
    for (const std::int32_t token : tokens) require_token(token);
    std::string text;
    for (std::size_t begin = 0; begin < tokens.size();) {
      if (tokens[begin] >= pieces()) {
        text += added_text(tokens[begin++]);
        continue;
      }
      std::size_t end = begin;
      while (end < tokens.size() && tokens[end] < pieces()) ++end;
      std::string run;
      require(processor_->Decode(std::vector<int>(&tokens[begin], tokens.data() + end), &run), "cannot decode tokens");
      text += run;
      begin = end;
    }
    return text;
  }

  /// Returns the text of tokens that continue earlier tokens: bytes, including a space in front of the first word.
  /// Throws DecodeError if a token is not in the vocabulary.
  [[nodiscard]] std::string decode_more(std::span<const std::int32_t> tokens) const {
    constexpr std::string_view space = "\xE2\x96\x81";  // the mark by which a piece writes a space
    std::string text;
    for (const std::int32_t token : tokens) {
      require_token(token);
      if (token >= pieces()) {
        text += added_text(token);
        continue;
      }
      if (processor_->IsControl(token)) continue;
      const std::string& piece = processor_->IdToPiece(token);
      if (processor_->IsByte(token)) {  // "<0x0A>"
        text += static_cast<char>(std::stoi(piece.substr(1, piece.size() - 2), nullptr, 16));
        continue;
      }
      for (std::size_t at = 0; at < piece.size();) {
        const bool is_space = piece.compare(at, space.size(), space) == 0;
        text += is_space ? ' ' : piece[at];
        at += is_space ? space.size() : 1;
      }
    }
    return text;
  }

private:
  SentencePieceTokenizer(const std::filesystem::path& path, const SentencePieceOptions& options)
      : name_(path.string()),
        processor_(std::make_shared<sentencepiece::SentencePieceProcessor>()) {
    const std::string model = io::read_file(path, 256_MiB);
    if (const auto flaw = detail::flaw_of_sentence_piece_model(model)) {
      throw DecodeError("reef::data::SentencePieceTokenizer: '", name_, "' is no model of SentencePiece: ", *flaw,
                        ".\n  fix: ", as_written);
    }
    try {
      require(processor_->LoadFromSerializedProto(model), "is no model of SentencePiece");
    } catch (const Error&) {
      throw;
    } catch (const std::exception& error) {  // of the library's trie, such as for a piece without characters
      throw DecodeError("reef::data::SentencePieceTokenizer: '", name_, "' is no model of SentencePiece: ",
                        in_quotes(error.what(), 200), ".\n  fix: ", as_written);
    }
    if (pieces() <= 0)
      throw DecodeError("reef::data::SentencePieceTokenizer: '", name_,
                        "' has no tokens.\n  fix: ", as_written);
    add(options);
  }

  /// Returns the library's tokens of a text.
  [[nodiscard]] std::vector<int> ids_of(std::string_view text) const {
    std::vector<int> ids;
    require(processor_->Encode({text.data(), text.size()}, &ids), "cannot encode a text");
    return ids;
  }

  /// Returns the library's tokens of a text that continues another one: those behind the tokens of a mark in front of
  /// the text. A mark that the model does not know, drops or joins to the text gives way to the next mark.
  [[nodiscard]] std::vector<int> ids_of_more(std::string_view text) const {
    for (const std::string mark : {"\n", ".", "x", "0"}) {
      const std::vector<int> own = ids_of(mark);
      if (own.empty() || own.back() == processor_->unk_id()) continue;
      const std::vector<int> whole = ids_of(mark + std::string(text));
      if (own.size() > whole.size() || !std::equal(own.begin(), own.end(), whole.begin())) continue;
      return {whole.begin() + static_cast<std::ptrdiff_t>(own.size()), whole.end()};
    }
    return ids_of(text);
  }

  [[nodiscard]] std::int32_t pieces() const { return processor_->GetPieceSize(); }
  [[nodiscard]] std::string added_text(std::int32_t token) const {
    return added_[static_cast<std::size_t>(token - pieces())];
  }

  /// Takes the tokens that options add, and those that are to be found in texts.
  void add(const SentencePieceOptions& options) {
    std::vector<AddedToken> tokens = options.added;
    std::sort(tokens.begin(), tokens.end(), [](const auto& a, const auto& b) { return a.id < b.id; });
    for (const AddedToken& token : tokens) {
      if (options.finds_added && token.takes_beside)
        refuse_added(token, "would take spaces or words beside it into account");
      if (token.id >= 0 && token.id < pieces()) {
        if (processor_->IdToPiece(token.id) != token.content)
          refuse_added(token, concat("has the id of ", in_quotes(processor_->IdToPiece(token.id))));
        continue;
      }
      if (token.id != vocabulary()) refuse_added(token, concat("has an id that is not the next, ", vocabulary()));
      if (find(token.content)) refuse_added(token, concat("is the token ", *find(token.content), " too"));
      added_.push_back(token.content);
    }
    if (!options.finds_added) return;
    for (std::int32_t id = 0; id < pieces(); ++id) {
      if (processor_->IsControl(id)) tokens.push_back({.content = processor_->IdToPiece(id), .id = id});
    }
    found_ = AddedTokenTable(tokens);
  }
  [[noreturn]] void refuse_added(const AddedToken& token, const std::string& why) const {
    throw DecodeError("reef::data::SentencePieceTokenizer: the token ", in_quotes(token.content), " of id ", token.id,
                      ", added to '", name_, "', ", why, ".\n  fix: the added tokens of this tokenizer, as written.");
  }

  static constexpr std::string_view as_written =
      "the tokenizer.model as its tokenizer has written it, unchanged.";

  void require_token(std::int32_t token) const {
    if (token >= 0 && token < vocabulary()) return;
    throw DecodeError("reef::data::SentencePieceTokenizer: token ", token,
                      " is not in the vocabulary.\n  fix: decode with the tokenizer that the model "
                      "was trained with; "
                      "this one has tokens 0 to ",
                      vocabulary() - 1, ".");
  }

  static std::optional<std::int32_t> known(int id) {
    if (id < 0) return std::nullopt;
    return id;
  }

  template <class Status>
  void require(const Status& status, const char* what) const {
    if (status.ok()) return;
    throw DecodeError("reef::data::SentencePieceTokenizer: '", name_, "' ", what, ": ",
                      in_quotes(status.ToString(), 200), ".\n  fix: ", as_written);
  }

  std::string name_;
  std::vector<std::string> added_;  // the texts of the tokens from pieces() on
  AddedTokenTable found_;
  std::shared_ptr<sentencepiece::SentencePieceProcessor>
      processor_;  // its functions that are called are const
#else
  [[nodiscard]] std::int32_t vocabulary() const { detail::refuse_sentence_piece(); }
  [[nodiscard]] std::optional<std::int32_t> begin_of_text() const {
    detail::refuse_sentence_piece();
  }
  [[nodiscard]] std::optional<std::int32_t> end_of_text() const { detail::refuse_sentence_piece(); }
  [[nodiscard]] std::optional<std::int32_t> find(std::string_view /*piece*/) const {
    detail::refuse_sentence_piece();
  }
  [[nodiscard]] std::vector<std::int32_t> encode(std::string_view /*text*/) const {
    detail::refuse_sentence_piece();
  }
  [[nodiscard]] std::vector<std::int32_t> encode_more(std::string_view /*text*/) const {
    detail::refuse_sentence_piece();
  }
  [[nodiscard]] std::vector<std::int32_t> encode_begin(std::string_view /*text*/) const {
    detail::refuse_sentence_piece();
  }
  [[nodiscard]] std::string decode(std::span<const std::int32_t> /*tokens*/) const {
    detail::refuse_sentence_piece();
  }
  [[nodiscard]] std::string decode_more(std::span<const std::int32_t> /*tokens*/) const {
    detail::refuse_sentence_piece();
  }

private:
  SentencePieceTokenizer(const std::filesystem::path& /*path*/, const SentencePieceOptions& /*options*/) {
    detail::refuse_sentence_piece();
  }
#endif
};

}  // namespace data
}  // namespace v0
}  // namespace reef
