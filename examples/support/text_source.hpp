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
#include <reef/data/corpus.hpp>
#include <reef/data/sampler.hpp>
#include <reef/data/token_shards.hpp>
#include <reef/data/token_view.hpp>
#include <reef/io/checksum.hpp>
#include <reef/run/site.hpp>

#include "tokenizer.hpp"

namespace reef_examples {

/// What files give to train on and to hold out: text as bytes, text that is encoded here, or files
/// of tokens (.bin), which stay where they are.
class TrainingData {
public:
  TrainingData(const std::vector<std::filesystem::path>& files, const Tokenizer& tokenizer) {
    const auto tokens = static_cast<std::size_t>(std::count_if(
        files.begin(), files.end(), [](const auto& file) { return file.extension() == ".bin"; }));
    if (tokens == 0) {
      take(reef::data::Corpus(files), tokenizer);
      return;
    }
    if (tokens != files.size()) {
      throw reef::OptionError(tokens, " of ", files.size(),
                              " files are of tokens (.bin), the others of text.\n  fix: give only "
                              "the ones or only the others.");
    }
    if (tokenizer.is_bytes()) {
      throw reef::OptionError(
          "files of tokens (.bin) need the tokenizer that they were written with.\n  fix: add "
          "--tokenizer gpt2:DIR or --tokenizer tiktoken:FILE.");
    }
    shards_.emplace(files);
    shards_->require_below(tokenizer.vocabulary());
    training_ = shards_->training();
    validation_ = shards_->validation();
  }
  TrainingData(const TrainingData&) = delete;  // the views look into this object
  TrainingData& operator=(const TrainingData&) = delete;

  [[nodiscard]] const reef::data::TokenView& training() const { return training_; }
  [[nodiscard]] const reef::data::TokenView& validation() const { return validation_; }

  /// A checksum of all tokens.
  [[nodiscard]] std::uint32_t fingerprint() {
    if (!fingerprint_.has_value()) fingerprint_ = shards_->fingerprint();
    return *fingerprint_;
  }

private:
  void take(reef::data::Corpus corpus, const Tokenizer& tokenizer) {
    if (tokenizer.is_bytes()) {
      fingerprint_ = corpus.fingerprint();
      text_.emplace(std::move(corpus));
      training_ = text_->training();
      validation_ = text_->validation();
      return;
    }
    const auto encode = [&](std::span<const std::uint8_t> text) {
      return tokenizer.encode({reinterpret_cast<const char*>(text.data()), text.size()});
    };
    training_tokens_ = encode(corpus.training());
    validation_tokens_ = encode(corpus.validation());
    fingerprint_ = reef::io::crc32c(std::as_bytes(std::span(validation_tokens_)),
                                    reef::io::crc32c(std::as_bytes(std::span(training_tokens_))));
    training_ = training_tokens_;
    validation_ = validation_tokens_;
  }

  std::optional<reef::data::Corpus> text_;
  std::optional<reef::data::TokenShards> shards_;
  std::vector<std::int32_t> training_tokens_;
  std::vector<std::int32_t> validation_tokens_;
  reef::data::TokenView training_;
  reef::data::TokenView validation_;
  std::optional<std::uint32_t> fingerprint_;
};

/// Training samples as a Trainer asks for them: inputs are "tokens" and "targets", weight 1 each.
inline reef::run::Source training_source(const reef::data::TokenView& text, std::int64_t context,
                                         std::uint64_t seed) {
  return [sampler = reef::data::Sampler(text, context, seed)](
             std::uint64_t first, std::span<const reef::AnyView> inputs) {
    sampler.fill(first, inputs);
    return 1.0;
  };
}

/// Held-out windows in their order, weighed by the targets that count.
inline reef::run::Source validation_source(const reef::data::TokenView& text,
                                           std::int64_t context) {
  return [windows = reef::data::Validation(text, context)](std::uint64_t first,
                                                           std::span<const reef::AnyView> inputs) {
    return static_cast<double>(windows.fill(static_cast<std::int64_t>(first), inputs));
  };
}

}  // namespace reef_examples
