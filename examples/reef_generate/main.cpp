// Continues texts by a model of Hugging Face, and scores texts by one.
//
//   build/release/examples/reef-generate --model tests/data/llama_grouped --tokens "5 17 80 33" --new 10 --temperature 0
//
// `reef-generate --help` lists everything.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <filesystem>
#include <iostream>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <CLI/CLI.hpp>

#include <reef/core/error.hpp>
#include <reef/core/text.hpp>
#include <reef/core/version.hpp>
#include <reef/io/json.hpp>
#include <reef/nn/continue_texts.hpp>
#include <reef/nn/generate.hpp>

#include "../support/chosen_draft.hpp"
#include "../support/continuations.hpp"
#include "../support/standard_output.hpp"
#include "../support/terminal_text.hpp"
#include "../support/text_stream.hpp"
#include "classify.hpp"
#include "model.hpp"
#include "options.hpp"
#include "score.hpp"

namespace {

using namespace reef_generate;
using reef_examples::print;
using reef_examples::tokens_of;
using reef_examples::TextStream;
using Tokens = std::vector<std::int32_t>;

/// The exit status for options that cannot be.
constexpr int refused_status = 2;

/// Returns the prompts, each behind the placeholders of a soft prompt.
std::vector<Tokens> prompts_of(const Options& options, const std::optional<reef_examples::Tokenizer>& tokenizer,
                               std::int64_t placeholders) {
  std::vector<Tokens> prompts;
  for (const std::string& list : options.token_lists) prompts.push_back(tokens_of(list));
  if (!options.prompts.empty() && !tokenizer) refuse_text(options, "--prompt");
  for (const std::string& text : options.prompts) prompts.push_back(tokenizer->encode_begin(text));
  for (std::size_t i = 0; i < prompts.size(); ++i) {
    if (prompts[i].empty()) throw reef::OptionError("prompt ", i + 1, " has no token.\n  fix: one at least.");
    prompts[i].insert(prompts[i].begin(), static_cast<std::size_t>(placeholders), 0);
  }
  return prompts;
}

/// A source of logits that computes all tokens of a text anew for each new one: what the cached way is compared with.
class Uncached {
public:
  explicit Uncached(Session& session) : session_(session) {}

  reef::nn::Logits operator()(const std::vector<std::size_t>& going, const std::vector<Tokens>& texts) {
    values_.clear();
    for (const std::size_t i : going) {
      const int sequence = session_.open();
      const reef::nn::Logits logits = session_.append({{sequence, texts[i]}});
      values_.insert(values_.end(), logits.values.begin(), logits.values.end());
      session_.close(sequence);
    }
    return {values_, session_.vocabulary()};
  }

private:
  Session& session_;
  std::vector<float> values_;
};

/// Returns the logits behind each token of a text but the last, and behind the last if nothing was added; none behind
/// placeholders.
std::vector<std::vector<float>> logits_of(Session& session, const Options& options, const Tokens& prompt, const Tokens& added,
                                          std::int64_t placeholders) {
  Tokens text = prompt;
  if (!added.empty()) text.insert(text.end(), added.begin(), added.end() - 1);
  std::vector<std::vector<float>> rows;
  const int sequence = session.open();
  const auto keep = [&](const reef::nn::Logits& logits) {
    for (std::int64_t i = 0; i < logits.rows(); ++i) rows.emplace_back(logits.row(i).begin(), logits.row(i).end());
  };
  if (!options.no_cache) {
    keep(session.append({{sequence, text, true}}));
  } else {
    for (std::size_t length = 1; length <= text.size(); ++length) {  // those of placeholders too, as with the cache
      session.truncate(sequence, 0);
      keep(session.append({{sequence, std::span(text).first(length)}}));
    }
  }
  session.close(sequence);
  rows.erase(rows.begin(), rows.begin() + placeholders);
  return rows;
}

/// Cuts a text in front of the first of the stops that it has; returns whether there was one.
bool cut_at_stop(std::string& text, const std::vector<std::string>& stops) {
  std::size_t first = std::string::npos;
  for (const std::string& stop : stops) {
    if (!stop.empty()) first = std::min(first, text.find(stop));
  }
  if (first == std::string::npos) return false;
  text.resize(first);
  return true;
}

void run(const Options& options) {
  if (classes_of(options) > 0) return print(classify(options), "the classes");
  if (!options.document_end.empty())
    throw reef::OptionError("--document-end is of an --adapter with a class head.\n  fix: leave it out.");
  if (!options.score.empty()) return print(score(options), "the score");
  const auto tokenizer = tokenizer_of(options);
  if (!options.stops.empty() && !tokenizer) refuse_text(options, "--stop");
  const std::int64_t placeholders = placeholders_of(options);
  const std::vector<Tokens> prompts = prompts_of(options, tokenizer, placeholders);
  std::size_t longest = 0;
  for (const Tokens& prompt : prompts) longest = std::max(longest, prompt.size());
  const std::int64_t new_tokens = options.new_tokens >= 0 ? options.new_tokens
                                                          : room_for_new(options, static_cast<std::int64_t>(longest) - placeholders);
  require_context(options, static_cast<std::int64_t>(longest) - placeholders, new_tokens);
  const auto config = reef::nn::read_model_config(std::filesystem::path(options.model) / "config.json");
  for (std::size_t i = 0; i < prompts.size(); ++i) require_tokens(config, prompts[i], reef::concat("prompt ", i + 1));
  std::int64_t positions = static_cast<std::int64_t>(longest) + new_tokens;
  if (options.context != 0) positions = options.context + placeholders;
  // One more sequence: that of the logits, or of what is computed without a cache.
  const bool needs_other = options.logits || options.no_cache;
  const std::int64_t sequences =
      options.beams > 0 ? options.beams : static_cast<std::int64_t>(prompts.size()) + (needs_other ? 1 : 0);
  Model model(options, positions, sequences);
  Session& session = model.session();

  reef::nn::GenerateOptions how = options.generate_options(new_tokens);
  how.placeholders = placeholders;
  how.ends = ends_of(options, tokenizer, session.vocabulary());
  if (tokenizer) how.vocabulary = std::min<std::int64_t>(tokenizer->vocabulary(), session.vocabulary());
  how.validate(session.vocabulary());
  if (options.beams > 0) {
    reef::nn::BeamOptions search = options.beam_options(new_tokens);
    search.ends = how.ends;
    search.vocabulary = how.vocabulary;
    return reef_examples::answer_by_beams(session, prompts, search, tokenizer, options.json);
  }
  const bool streams = !options.json && prompts.size() == 1 && options.stops.empty();
  // A token that ends a text is told by its number, and has no text.
  const auto has_text = [&](std::int32_t token) {
    return !tokenizer || std::find(how.ends.begin(), how.ends.end(), token) == how.ends.end();
  };
  TextStream stream(tokenizer);
  std::vector<Tokens> so_far(prompts.size());
  const auto on_token = [&](std::size_t i, std::int32_t token) {
    if (!has_text(token)) return false;
    so_far[i].push_back(token);
    if (streams) stream.add(token);
    if (options.stops.empty()) return true;
    std::string text = tokenizer->decode_more(so_far[i]);
    return !cut_at_stop(text, options.stops);
  };
  const std::span<const Tokens> all = prompts;
  std::optional<reef_examples::ChosenDraft> draft;
  if (!options.draft.empty())
    draft.emplace(options, options, options.model, session.vocabulary(), positions, prompts.size());
  reef::nn::Speculation found;
  if (options.no_cache)
    found.continuations = reef::nn::continue_texts(all, session.vocabulary(), Uncached(session), how, on_token);
  else
    found = reef_examples::continue_prompts(session, draft ? &*draft : nullptr, all, options, how, on_token);
  if (streams) stream.end();
  if (draft && !options.json) std::cerr << "reef-generate: " << reef_examples::text_of_draft(found) << '\n';
  if (streams) return;

  reef_examples::Answers answers;
  for (std::size_t i = 0; i < prompts.size(); ++i) {
    const reef::nn::Continuation& own = found.continuations[i];
    std::string text = reef_examples::text_of_continuation(tokenizer, own.tokens, how.ends);
    cut_at_stop(text, options.stops);
    reef::io::Json more = reef::io::Json::object();
    if (options.logits) more["logits"] = logits_of(session, options, prompts[i], own.tokens, placeholders);
    answers.add(own, text, tokenizer.has_value(), more);
  }
  if (draft) answers.add_draft(found);
  answers.write(options.json);
}

}  // namespace

int main(int argc, char** argv) {
  Options options;
  CLI::App app(
      "Continues texts by a model of Hugging Face, scores texts by one, or tells their classes, on this machine's "
      "cores.",
      "reef-generate");
  app.set_version_flag("--version", std::string("reef-generate ") + reef::version);
  app.footer(
      "A continuation has the same bits for any --rows and --threads, and for any other prompts at a --temperature of 0; "
      "drawn ones, above 0, for the same place among the prompts: the place is part of the key of a draw. Of several "
      "prompts --json answers {\"continuations\": [...]}.\n"
      "Status 0: all is done; 1: something failed, and is told; 2: options that cannot be.");
  try {
    add_options(app, options);
    app.parse(argc, argv);
    check(app, options);
  } catch (const CLI::ParseError& error) {
    return reef_examples::end_parsing(app, error, refused_status, [](const std::string& text) { std::cerr << text; });
  }
  try {
    run(options);
    return EXIT_SUCCESS;
  } catch (const reef::OptionError& error) {
    std::cerr << "reef-generate: " << error.what() << '\n';
    return refused_status;
  } catch (const std::exception& error) {
    std::cerr << "reef-generate: " << error.what() << '\n';
    return EXIT_FAILURE;
  }
}
