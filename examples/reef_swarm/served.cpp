#include "served.hpp"

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <optional>
#include <random>
#include <span>
#include <string_view>
#include <thread>

#include <reef/core/error.hpp>
#include <reef/core/text.hpp>
#include <reef/device/host.hpp>
#include <reef/nn/generate.hpp>
#include <reef/nn/host.hpp>
#include <reef/nn/host/numerics.hpp>
#include <reef/nn/model_folder.hpp>
#include <reef/swarm/client/session.hpp>
#include <reef/swarm/log/remote_log.hpp>
#include <reef/swarm/serve/block_server.hpp>
#include <reef/swarm/serve/model_blocks.hpp>
#include <reef/swarm/serve/model_digest.hpp>

#include "../support/chosen_draft.hpp"
#include "../support/continuations.hpp"
#include "../support/ends_of_text.hpp"
#include "../support/number_option.hpp"
#include "../support/numbers.hpp"
#include "../support/text_stream.hpp"
#include "../support/tokenizer.hpp"

namespace reef_examples {

namespace {

namespace swarm = reef::swarm;
using reef::device::Host;
using Tokens = std::vector<std::int32_t>;

/// Writes a line for people to standard error.
void say_line(const std::string& line) {
  std::fprintf(stderr, "reef-swarm: %s\n", line.c_str());
  std::fflush(stderr);
}

/// The model of a folder, without its weights.
struct FolderModel {
  explicit FolderModel(const ServedModelOptions& options)
      : config(config_of(options.model)),
        host({.threads = options.threads}),
        graph(reef::nn::model_of<Host, float>(config, host.threads())) {}

  static reef::nn::ModelConfig config_of(const std::string& folder) {
    const auto read = reef::nn::read_model_config(std::filesystem::path(folder) / "config.json");
    reef::nn::require_weights(folder, read);
    return reef::nn::with_batch(read, {.batch = 1, .sequence = 1});
  }

  /// Reads the weights that `part`, some nodes of the model, has.
  template <class Part>
  void read_into(Part& part, const ServedModelOptions& options) const {
    reef::nn::read_weights<float>(
        options.model, config, graph.dag(),
        [&](const std::string& name, const std::vector<float>& values) { part.set_parameter(name, values); },
        [&](std::string_view name) { return part.reads(name); });
  }

  reef::nn::ModelConfig config;
  Host host;
  reef::graph::Graph<Host, float> graph;
};

/// Returns the blocks that a text such as "2:4" means, of a model of so many.
swarm::BlockRange blocks_of(const std::string& text, std::int64_t count) {
  if (text.empty()) return {0, count};
  const std::size_t colon = text.find(':');
  const auto first = parse_number<std::int64_t>(text.substr(0, colon));
  const auto last = colon == std::string::npos ? std::nullopt : parse_number<std::int64_t>(text.substr(colon + 1));
  if (first && last && *first >= 0 && *first < *last && *last <= count) return {*first, *last};
  throw reef::OptionError("--blocks ", reef::in_quotes(text), ": the model has blocks 0 to ", count - 1,
                          ".\n  fix: FIRST:LAST, as 0:", count, " for all, without LAST itself.");
}

std::vector<Tokens> prompts_of(const TextOptions& options, const std::optional<Tokenizer>& tokenizer) {
  std::vector<Tokens> prompts;
  for (const std::string& list : options.token_lists) prompts.push_back(tokens_of(list));
  if (!options.prompts.empty() && !tokenizer) {
    throw reef::OptionError("--prompt needs a tokenizer, and ", reef::in_quotes(options.served.model),
                            " has none.\n  fix: --tokenizer, or numbers by --tokens.");
  }
  for (const std::string& text : options.prompts) prompts.push_back(tokenizer->encode_begin(text));
  if (prompts.empty()) throw reef::OptionError("no prompt.\n  fix: --prompt TEXT, or --tokens \"5 17 80\".");
  for (const Tokens& prompt : prompts) {
    if (prompt.empty()) throw reef::OptionError("a prompt has no token.\n  fix: one at least.");
  }
  return prompts;
}

/// Returns a name that no other client has.
std::string drawn_name() {
  std::random_device random;
  return reef::concat("client-", random(), "-", random());
}

}  // namespace

swarm::EndpointOptions ServedModelOptions::network(const std::string& name) const {
  if (!plain_loopback && place.keys.empty()) {
    throw reef::OptionError(
        "neither --keys nor --plain-loopback.\n  why: what is sent is encrypted, unless all are on one machine.\n"
        "  fix: --keys DIR, of reef-swarm keys; or --plain-loopback.");
  }
  swarm::EndpointOptions net;
  net.job = job;
  net.name = name;
  net.plain_loopback = plain_loopback;
  if (!plain_loopback) net.tls = tls_files(place.keys, place.name);
  return net;
}

std::string ServedModelOptions::model_name() const {
  return reef::concat(swarm::to_hex(swarm::model_digest(model)), " ", weights, " ", states);
}

int run_serve(const ServeOptions& options, const reef::comm::StopRequest& stop) {
  const ServedModelOptions& served = options.served;
  swarm::RemoteLog store(served.place.options());
  swarm::BlockServerOptions server;
  server.net = served.network(served.place.name);
  server.net.listen = options.listen;
  FolderModel model(served);
  server.advertise = options.advertise;
  server.model = served.model_name();
  server.blocks = blocks_of(options.blocks, reef::nn::block_cuts(model.graph.dag()).count());
  server.numerics = reef::nn::host::text_of_numerics_class();
  server.positions = options.positions;
  server.longest = std::min({options.longest == 0 ? options.positions : options.longest, options.positions,
                             reef::nn::longest_sequence(model.config)});
  server.rows = static_cast<std::size_t>(served.rows);
  server.report = say_line;
  auto blocks = std::make_unique<swarm::ModelBlocks<Host, float>>(
      model.host, model.graph,
      swarm::ModelBlocksOptions{server.blocks, server.positions, server.longest, served.rows, served.weight_form(),
                                served.state_form(), served.outliers()});
  model.read_into(*blocks, served);
  server.row = blocks->row();
  const reef::Bytes cache = blocks->cache_bytes();
  swarm::BlockServer running(server, std::move(blocks), store);
  const auto pause = [] { std::this_thread::sleep_for(std::chrono::milliseconds(50)); };
  while (!running.announced() && !stop.asked() && running.failed().empty()) pause();
  say_line(reef::concat(served.place.name, " serves blocks [", server.blocks.first, ", ", server.blocks.last, ") at ",
                        running.address(), ", with a cache of ", reef::format_bytes(cache)));
  while (!stop.asked() && running.failed().empty()) pause();
  if (stop.asked() && options.drain > 0) {
    const auto end = std::chrono::steady_clock::now() + std::chrono::duration<double>(options.drain);
    say_line(reef::concat(served.place.name, " drains: ", running.sessions(), " sessions have ", options.drain,
                          " s to leave"));
    running.drain();
    while (!running.drained() && running.failed().empty() && std::chrono::steady_clock::now() < end) pause();
  }
  if (const std::string why = running.failed(); !why.empty()) throw reef::Error(why);
  say_line(reef::concat(served.place.name, " ends after a signal",
                        running.sessions() > 0 ? reef::concat(", with ", running.sessions(), " sessions") : ""));
  return 0;
}

int run_generate(const TextOptions& options) {
  const ServedModelOptions& served = options.served;
  const std::string tokenizer_name =
      options.tokenizer.empty() ? tokenizer_of_folder(served.model) : options.tokenizer;
  std::optional<Tokenizer> tokenizer;
  if (!tokenizer_name.empty()) tokenizer.emplace(tokenizer_name, TextUse::prompts);
  const std::vector<Tokens> prompts = prompts_of(options, tokenizer);
  std::size_t longest = 0;
  for (const Tokens& prompt : prompts) longest = std::max(longest, prompt.size());
  FolderModel model(served);
  const std::int64_t positions = static_cast<std::int64_t>(longest) + options.new_tokens;
  if (const std::int64_t most = reef::nn::longest_sequence(model.config); positions > most) {
    throw reef::OptionError("a text would have ", positions, " tokens, but the model is made for ", most,
                            ".\n  fix: a shorter prompt, or less --new.");
  }
  swarm::RemoteLog store(served.place.options());
  const reef::nn::BlockCuts cuts = reef::nn::block_cuts(model.graph.dag());
  swarm::RowSessionsOptions asked;
  asked.net = served.network(served.plain_loopback ? drawn_name() : served.place.name);
  asked.model = served.model_name();
  asked.numerics = reef::nn::host::text_of_numerics_class();
  asked.blocks = cuts.count();
  asked.row = static_cast<reef::Bytes>(model.graph.dag().tensor_at(cuts.tensors.front()).spec.shape.last()) *
              sizeof(float);
  asked.max_length = positions;
  asked.answer = options.answer;
  asked.step = options.step;
  asked.same_bits = options.same_bits;
  if (!options.quiet) asked.report = say_line;
  swarm::RowSessions sessions(asked, store);
  swarm::Session<Host, float> session(model.host, model.graph,
                                      {.positions = positions, .rows = served.rows, .weights = served.weight_form(),
                                       .states = served.state_form(), .outliers = served.outliers()},
                                      sessions);
  model.read_into(session, served);

  reef::nn::GenerateOptions how = options.generate_options(options.new_tokens);
  if (!options.ignore_ends) how.ends = ends_of_text(served.model, tokenizer, session.vocabulary());
  if (tokenizer) how.vocabulary = std::min<std::int64_t>(tokenizer->vocabulary(), session.vocabulary());
  const auto say_repairs = [&] {
    if (options.quiet) return;
    const std::int64_t moves = sessions.moves();
    say_line(reef::concat("done, with ", sessions.repairs(), " repairs",
                          moves > 0 ? reef::concat(" and ", moves, moves == 1 ? " move" : " moves") : ""));
  };
  if (options.beams > 0) {
    reef::nn::BeamOptions search = options.beam_options(options.new_tokens);
    search.ends = how.ends;
    search.vocabulary = how.vocabulary;
    answer_by_beams(session, prompts, search, tokenizer, options.json);
    say_repairs();
    return 0;
  }
  const bool streams = !options.json && prompts.size() == 1;
  TextStream stream(tokenizer);
  const auto on_token = [&](std::size_t /*i*/, std::int32_t token) {
    // A token that ends a text is told by its number, and has no text.
    if (tokenizer && std::find(how.ends.begin(), how.ends.end(), token) != how.ends.end()) return false;
    if (streams) stream.add(token);
    return true;
  };
  std::optional<ChosenDraft> draft;
  if (!options.draft.empty())
    draft.emplace(options, served, served.model, session.vocabulary(), positions, prompts.size());
  const reef::nn::Speculation found = continue_prompts(session, draft ? &*draft : nullptr,
                                                       std::span<const Tokens>(prompts), options, how, on_token);
  if (streams) {
    stream.end();
  } else {
    Answers answers;
    for (const reef::nn::Continuation& one : found.continuations)
      answers.add(one, text_of_continuation(tokenizer, one.tokens, how.ends), tokenizer.has_value());
    if (draft) answers.add_draft(found);
    answers.write(options.json);
  }
  if (draft && !options.quiet) say_line(text_of_draft(found));
  say_repairs();
  return 0;
}

}  // namespace reef_examples
