#pragma once

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <reef/core/error.hpp>
#include <reef/core/tensor_view.hpp>
#include <reef/data/behind_prompt.hpp>
#include <reef/data/chat_template.hpp>
#include <reef/data/conversations.hpp>
#include <reef/data/corpus.hpp>
#include <reef/data/labelled_texts.hpp>
#include <reef/data/packed_pairs.hpp>
#include <reef/data/pairs.hpp>
#include <reef/data/sampler.hpp>
#include <reef/data/token_shards.hpp>
#include <reef/data/token_view.hpp>
#include <reef/io/checksum.hpp>
#include <reef/nn/class_labels.hpp>
#include <reef/run/rank_context.hpp>

#include "left_out_pairs.hpp"
#include "tokenizer.hpp"

namespace reef_examples {

/// What --data names, and what ends a document in it; an empty text for no mark.
struct DataOptions {
  std::string kind = "auto";  // by the files' names, or text, tokens, bytes
  std::string document_end;
  std::int64_t classes = 0;   // files of texts with labels below that; 0: none
  std::int64_t context = 0;   // the tokens that a sample of a .jsonl is cut to; 0: not known
  std::string chat_template;  // of conversations; empty: that of the tokenizer's folder
  std::filesystem::path tokenizer_folder;
  std::optional<reef::nn::ClassLabels> labels;  // whose pad_token, at the end of a text, is no part of it
};

/// The rows of a model's inputs: of `context` tokens behind `prompt` positions of a soft prompt, with one sample each, or
/// packed with several.
struct Rows {
  std::int64_t context = 0;
  std::int64_t prompt = 0;
  bool packed = false;
};

/// Files of tokens by their names, as of llm.c, nanoGPT and NumPy.
inline bool is_named_tokens(const std::filesystem::path& file) {
  return file.extension() == ".bin" || file.extension() == ".npy";
}

/// Files of prompts with completions, or of conversations, by their names.
inline bool is_named_pairs(const std::filesystem::path& file) { return file.extension() == ".jsonl"; }

/// Sets a token behind each document. A file is one, or several where the token's text stands between
/// them, with the line end behind it, if that text is one that no tokens are encoded to otherwise,
/// as "<|endoftext|>" is.
class DocumentEnd {
public:
  DocumentEnd(const Tokenizer& tokenizer, const std::string& name)
      : tokenizer_(tokenizer), token_(tokenizer.token(name)) {
    const std::vector<std::int32_t> alone{token_};
    std::string text = tokenizer.decode(alone);
    if (tokenizer.encode(text) != alone) text_ = std::move(text);
  }

  /// Adds a document's tokens, and the mark.
  void encode(std::string_view text, std::vector<std::int32_t>& to) const {
    for (bool more = true; more;) {
      const std::size_t at = text_.empty() ? std::string_view::npos : text.find(text_);
      more = at != std::string_view::npos;
      const std::string_view document = text.substr(0, at);
      if (more) text.remove_prefix(at + text_.size());
      if (more && text.starts_with("\r\n")) text.remove_prefix(1);
      if (more && text.starts_with('\n')) text.remove_prefix(1);
      if (document.find_first_not_of(" \t\r\n") == std::string_view::npos) continue;
      const std::vector<std::int32_t> tokens = tokenizer_.encode(document);
      to.insert(to.end(), tokens.begin(), tokens.end());
      to.push_back(token_);
    }
  }

private:
  const Tokenizer& tokenizer_;
  std::int32_t token_;
  std::string text_;  // empty where it is not looked for
};

/// What files give to train on and to hold out: text as bytes, text that is encoded here, or files
/// of tokens, which stay where they are.
class TrainingData {
public:
  TrainingData(const std::vector<std::filesystem::path>& files, const Tokenizer& tokenizer,
               const DataOptions& options = {}) {
    const auto named =
        static_cast<std::size_t>(std::count_if(files.begin(), files.end(), is_named_tokens));
    if (options.kind == "bytes" && !tokenizer.is_bytes()) {
      throw reef::OptionError(
          "--data-kind bytes is of --tokenizer bytes.\n  why: what is no text has no words.\n"
          "  fix: leave out one of them.");
    }
    if (options.classes > 0) {
      take_labelled(files, tokenizer, options);
      return;
    }
    const auto of_pairs = static_cast<std::size_t>(std::count_if(files.begin(), files.end(), is_named_pairs));
    if (options.kind == "auto" && of_pairs > 0) {
      if (of_pairs != files.size()) {
        throw reef::OptionError(of_pairs, " of ", files.size(), " files are of prompts with completions (.jsonl), the others "
                                "are not.\n  fix: give only the ones or only the others.");
      }
      take_pairs(files, tokenizer, options);
      return;
    }
    if (options.kind == "auto" ? named == 0 : options.kind != "tokens") {
      using reef::data::Corpus;
      const auto contents =
          options.kind == "bytes" ? Corpus::Contents::bytes : Corpus::Contents::text;
      take(Corpus(files, contents), tokenizer, options.document_end);
      return;
    }
    if (options.kind == "auto" && named != files.size()) {
      throw reef::OptionError(named, " of ", files.size(),
                              " files are of tokens (.bin, .npy), the others of text.\n  fix: give "
                              "only the ones or only the others.");
    }
    if (tokenizer.is_bytes()) {
      throw reef::OptionError(
          "files of tokens (.bin, .npy) need the tokenizer that they were written with.\n"
          "  fix: add --tokenizer gpt2:DIR or --tokenizer tiktoken:FILE.");
    }
    if (!options.document_end.empty()) {
      throw reef::OptionError(
          "--document-end is of text: files of tokens have their own.\n  fix: leave it out.");
    }
    shards_.emplace(files);
    shards_->require_below(tokenizer.vocabulary());
    training_ = shards_->training();
    validation_ = shards_->validation();
    for (const reef::data::TokenFile& file : shards_->files()) {
      if (file.width() == 2 && file.width_from() != "NumPy's header") continue;
      notes_.push_back(reef::concat("data: ", file.path().string(), " has tokens of ", file.width(),
                                    " bytes, by ", file.width_from()));
    }
  }
  TrainingData(const TrainingData&) = delete;  // the views look into this object
  TrainingData& operator=(const TrainingData&) = delete;

  [[nodiscard]] const reef::data::TokenView& training() const { return training_; }
  [[nodiscard]] const reef::data::TokenView& validation() const { return validation_; }

  /// The prompts with completions, or conversations, that the tokens are of; none of other data.
  [[nodiscard]] std::span<const reef::data::TokenPair> training_pairs() const { return training_pairs_; }
  [[nodiscard]] std::span<const reef::data::TokenPair> validation_pairs() const { return validation_pairs_; }

  /// A checksum of all tokens.
  [[nodiscard]] std::uint32_t fingerprint() {
    if (!fingerprint_.has_value()) fingerprint_ = shards_->fingerprint();
    return *fingerprint_;
  }

  /// What somebody has done to a file of tokens since it was opened, a sentence with its name; empty if nothing:
  /// text was read whole.
  [[nodiscard]] std::string change() const {
    const reef::data::TokenFile* const file = shards_ ? shards_->changed() : nullptr;
    return file == nullptr ? std::string()
                           : reef::concat("'", file->path().string(), "': ", file->change());
  }

  /// What a reader of the output may want to know about the files.
  [[nodiscard]] const std::vector<std::string>& notes() const { return notes_; }

private:
  void take_pairs(const std::vector<std::filesystem::path>& files, const Tokenizer& tokenizer,
                  const DataOptions& options) {
    const auto talks =
        static_cast<std::size_t>(std::count_if(files.begin(), files.end(), reef::data::is_of_conversations));
    if (talks == files.size()) return take_conversations(files, tokenizer, options);
    if (talks > 0) {
      throw reef::OptionError(talks, " of ", files.size(),
                              " files are of conversations (lines with messages), the others are of "
                              "prompts with completions.\n  fix: give only the ones or only the others.");
    }
    if (!options.chat_template.empty()) {
      throw reef::OptionError("--template is of conversations, lines {\"messages\": [...]} of a .jsonl, which ",
                              files[0].string(), " has none of.\n  fix: leave it out.");
    }
    const std::string& end = options.document_end;
    LeftOutPairs left_out(options.context);
    std::vector<reef::data::TokenPair> pairs;
    std::vector<std::uint64_t> prompts;
    for (const auto& file : files) {
      for (const reef::data::TextPair& text : reef::data::read_text_pairs(file)) {
        reef::data::TokenPair pair = tokenizer.encode_pair(text.prompt, text.completion);
        if (!end.empty()) pair.tokens.push_back(tokenizer.token(end));
        if (left_out.takes(pair, text.source)) continue;
        prompts.push_back(pair.prompt);
        pairs.push_back(std::move(pair));
      }
    }
    if (const std::string note = left_out.note(); !note.empty()) notes_.push_back(note);
    divide(pairs, prompts);
    notes_.push_back(reef::concat("data: ", training_pairs_.size(), " prompts with completions to train on, ",
                                  validation_pairs_.size(), " held out; the loss is of completions alone"));
  }

  /// Reads conversations in the form of --template, or of the chat_template in the tokenizer's folder, which is told.
  void take_conversations(const std::vector<std::filesystem::path>& files, const Tokenizer& tokenizer,
                          const DataOptions& options) {
    const bool named = !options.chat_template.empty();
    if (!named && options.tokenizer_folder.empty()) {
      throw reef::OptionError(
          "conversations need --template, and --tokenizer bytes has no folder with a chat_template.\n"
          "  fix: --template plain, or a tokenizer that lies in a model's folder.");
    }
    reef::data::ChatTemplate form = named ? reef::data::chat_template(options.chat_template)
                                          : reef::data::read_chat_template(options.tokenizer_folder);
    if (!named) {
      notes_.push_back(
          reef::concat("data: the template is ", form.name, ", by the special tokens of the chat_template in ",
                       options.tokenizer_folder.string(), "; a system message that its Jinja may add is not added"));
    }
    if (!options.document_end.empty() && !form.turn_end.empty()) {
      throw reef::OptionError("--document-end is beside the template ", form.name, ", whose turns end with ",
                              form.turn_end, ".\n  fix: leave it out.");
    }
    form.turn_end = form.turn_end.empty() ? options.document_end : form.turn_end;
    const reef::data::ConversationEncoder encoder(
        std::move(form), [&](std::string_view text) { return tokenizer.encode(text); },
        [&](std::string_view name) { return tokenizer.find(std::string(name)); },
        [&](std::string_view text) { return tokenizer.encode_more(text); });
    std::vector<reef::data::TokenPair> pairs;
    std::vector<std::uint64_t> prompts;  // the ends of prompts and of what is skipped
    LeftOutPairs left_out(options.context);
    for (const auto& file : files) {
      for (const reef::data::Conversation& conversation : reef::data::read_conversations(file)) {
        reef::data::TokenPair pair = encoder.encode(conversation);
        tokenizer.begin_pair(pair);
        if (left_out.takes(pair, conversation.source)) continue;
        pairs.push_back(std::move(pair));
        prompts.push_back(pairs.back().prompt);
        for (const reef::data::TokenRange& range : pairs.back().skipped)
          prompts.insert(prompts.end(), {range.begin, range.end});
      }
    }
    if (const std::string note = left_out.note(); !note.empty()) notes_.push_back(note);
    divide(pairs, prompts);
    notes_.push_back(reef::concat("data: ", training_pairs_.size(), " conversations to train on, ",
                                  validation_pairs_.size(), " held out; the loss is of what the assistant says alone"));
  }

  /// The label of a text is the token behind it.
  void take_labelled(const std::vector<std::filesystem::path>& files, const Tokenizer& tokenizer, const DataOptions& options) {
    if (options.classes > tokenizer.vocabulary()) {
      throw reef::OptionError("--classes is ", options.classes, ", and the tokenizer has ", tokenizer.vocabulary(),
                              " tokens.\n  why: a label stands as a token behind its text.\n  fix: no more classes than tokens.");
    }
    std::vector<reef::data::TokenPair> pairs;
    std::vector<std::uint64_t> prompts;
    const auto most = static_cast<std::size_t>(options.context);
    for (const auto& file : files) {
      for (const reef::data::LabelledText& text : reef::data::read_labelled_texts(file, options.classes)) {
        reef::data::TokenPair pair{tokenizer.encode_begin(text.text)};
        if (!options.document_end.empty()) pair.tokens.push_back(tokenizer.token(options.document_end));
        if (pair.tokens.size() > most) pair.tokens.resize(most);
        if (options.labels) pair.tokens.resize(options.labels->length_of(pair.tokens));
        pair.prompt = pair.tokens.size();
        prompts.push_back(pair.prompt);
        pair.tokens.push_back(text.label);
        pairs.push_back(std::move(pair));
      }
    }
    divide(pairs, prompts);
    notes_.push_back(reef::concat("data: ", training_pairs_.size(), " texts of ", options.classes, " classes to train on, ",
                                  validation_pairs_.size(), " held out; the loss is of their labels"));
  }

  /// Holds out every tenth pair, and the last.
  void divide(const std::vector<reef::data::TokenPair>& pairs, const std::vector<std::uint64_t>& prompts) {
    for (std::size_t i = 0; i < pairs.size(); ++i) {
      const bool last = i + 1 == pairs.size();
      const bool held_out = i % 10 == 9 || last;
      const auto take_to = [&](std::vector<reef::data::TokenPair>& kept, std::vector<std::int32_t>& tokens) {
        tokens.insert(tokens.end(), pairs[i].tokens.begin(), pairs[i].tokens.end());
        kept.push_back(pairs[i]);
      };
      if (held_out) take_to(validation_pairs_, validation_tokens_);
      if (!held_out || pairs.size() == 1) take_to(training_pairs_, training_tokens_);
    }
    std::uint32_t crc = reef::io::crc32c(std::as_bytes(std::span(training_tokens_)));
    crc = reef::io::crc32c(std::as_bytes(std::span(validation_tokens_)), crc);
    fingerprint_ = reef::io::crc32c(std::as_bytes(std::span(prompts)), crc);
    training_ = training_tokens_;
    validation_ = validation_tokens_;
  }

  void take(reef::data::Corpus corpus, const Tokenizer& tokenizer, const std::string& end) {
    if (tokenizer.is_bytes() && end.empty()) {
      fingerprint_ = corpus.fingerprint();
      text_.emplace(std::move(corpus));
      training_ = text_->training();
      validation_ = text_->validation();
      return;
    }
    const auto text_of = [](std::span<const std::uint8_t> bytes) {
      return std::string_view(reinterpret_cast<const char*>(bytes.data()), bytes.size());
    };
    if (end.empty()) {
      constexpr std::string_view name = reef::data::BpeTokenizer::end_of_text_name;
      if (text_of(corpus.training()).find(name) != std::string_view::npos) {
        notes_.push_back(reef::concat("data: the text has '", name,
                                      "', which is read as its characters; --document-end '", name,
                                      "' takes it for the end of a document"));
      }
      training_tokens_ = tokenizer.encode(text_of(corpus.training()));
      validation_tokens_ = tokenizer.encode(text_of(corpus.validation()));
    } else {
      const DocumentEnd mark(tokenizer, end);
      for (const auto document : corpus.training_documents())
        mark.encode(text_of(document), training_tokens_);
      for (const auto document : corpus.validation_documents())
        mark.encode(text_of(document), validation_tokens_);
    }
    fingerprint_ = reef::io::crc32c(std::as_bytes(std::span(validation_tokens_)),
                                    reef::io::crc32c(std::as_bytes(std::span(training_tokens_))));
    training_ = training_tokens_;
    validation_ = validation_tokens_;
  }

  std::optional<reef::data::Corpus> text_;
  std::optional<reef::data::TokenShards> shards_;
  std::vector<reef::data::TokenPair> training_pairs_;
  std::vector<reef::data::TokenPair> validation_pairs_;
  std::vector<std::int32_t> training_tokens_;
  std::vector<std::int32_t> validation_tokens_;
  reef::data::TokenView training_;
  reef::data::TokenView validation_;
  std::optional<std::uint32_t> fingerprint_;
  std::vector<std::string> notes_;
};

/// Samples of pairs, packed or not, in an order of the seed's or in their own.
template <class Sampler>
reef::run::Source source_of_pairs(std::span<const reef::data::TokenPair> pairs, const Rows& rows, std::uint64_t seed, bool in_order) {
  return reef::data::behind_prompt(rows.prompt, [sampler = Sampler(pairs, rows.context, seed), in_order](
                                                    std::uint64_t first, std::span<const reef::AnyView> inputs) {
    return static_cast<double>(in_order ? sampler.fill_in_order(first, inputs) : sampler.fill(first, inputs));
  });
}

/// The same, whichever the rows ask for.
inline reef::run::Source source_of_pairs(std::span<const reef::data::TokenPair> pairs, const Rows& rows, std::uint64_t seed,
                                         bool in_order) {
  if (rows.packed) return source_of_pairs<reef::data::PackedPairSampler>(pairs, rows, seed, in_order);
  return source_of_pairs<reef::data::PairSampler>(pairs, rows, seed, in_order);
}

/// Training samples as a Trainer asks for them: inputs are "tokens" and "targets", weight 1 each, of pairs the number of
/// targets that count.
inline reef::run::Source training_source(const TrainingData& data, const Rows& rows, std::uint64_t seed) {
  if (!data.training_pairs().empty()) return source_of_pairs(data.training_pairs(), rows, seed, false);
  return reef::data::behind_prompt(rows.prompt, [sampler = reef::data::Sampler(data.training(), rows.context, seed)](
                                                    std::uint64_t first, std::span<const reef::AnyView> inputs) {
    sampler.fill(first, inputs);
    return 1.0;
  });
}

/// Held-out windows, or pairs, in their order, weighed by the targets that count; behind a soft prompt likewise.
inline reef::run::Source validation_source(const reef::data::TokenView& text, std::span<const reef::data::TokenPair> pairs,
                                           const Rows& rows) {
  if (!pairs.empty()) return source_of_pairs(pairs, rows, 0, true);
  return reef::data::behind_prompt(rows.prompt, [windows = reef::data::Validation(text, rows.context)](
                                                    std::uint64_t first, std::span<const reef::AnyView> inputs) {
    return static_cast<double>(windows.fill(static_cast<std::int64_t>(first), inputs));
  });
}

/// How many rows held-out windows, or pairs, take.
inline std::int64_t rows_of(const reef::data::TokenView& text, std::span<const reef::data::TokenPair> pairs, const Rows& rows) {
  if (pairs.empty()) return reef::data::Validation(text, rows.context).windows();
  if (!rows.packed) return static_cast<std::int64_t>(pairs.size());
  return static_cast<std::int64_t>(reef::data::packed_rows(pairs, rows.context).size());
}

}  // namespace reef_examples
