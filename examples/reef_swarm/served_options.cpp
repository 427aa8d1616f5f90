#include <cstdint>
#include <string>

#include <CLI/CLI.hpp>

#include <reef/core/text.hpp>

#include "../support/number_option.hpp"
#include "../support/tokenizer.hpp"
#include "served.hpp"

namespace reef_examples {

namespace {

void add_served(CLI::App& app, ServedModelOptions& o) {
  app.add_option("--log", o.place.log, "URL of a store, which reef-swarm log-server serves: who serves what");
  app.add_option("--keepers", o.place.keepers, "URLs of the store's keepers, between commas")->delimiter(',');
  app.add_option("--keys", o.place.keys, "a folder with ca.pem, NAME.pem and NAME.key, of reef-swarm keys");
  app.add_option("--job", o.job, "the name of the swarm, with --keys that of its certificates")
      ->capture_default_str();
  app.add_flag("--plain-loopback", o.plain_loopback, "without encryption, all on this machine");
  app.add_option("--model", o.model, "folder of a model of Hugging Face: config.json and safetensors, the same for all")
      ->required();
  add_row_options(app, o, ", the same for all");
}

}  // namespace

void add_serve(CLI::App& app, ServeOptions& o) {
  add_served(app, o.served);
  app.add_option("--name", o.served.place.name, "this server's name, with --keys that of its certificate")->required();
  app.add_option("--listen", o.listen, "ADDRESS:PORT, port 0: any that is free")->capture_default_str();
  app.add_option("--advertise", o.advertise, "ADDRESS:PORT at which others reach it; default: --listen");
  app.add_option("--blocks", o.blocks, "FIRST:LAST, the blocks to serve, without LAST itself; default: all");
  app.add_option("--positions", o.positions, "tokens in the cache of each block, of all sessions")
      ->transform(number_from<std::int64_t>(64, std::int64_t{1} << 30))
      ->capture_default_str();
  app.add_option("--longest", o.longest, "the most tokens of one text; default: what --positions and the model allow")
      ->transform(number_from<std::int64_t>(1, std::int64_t{1} << 30));
  app.add_option("--drain", o.drain,
                 "seconds after a signal for which texts may go on elsewhere: no new ones are taken; 0: ends at once")
      ->transform(number_from<double>(0, 1e6))
      ->capture_default_str();
}

void add_generate(CLI::App& app, TextOptions& o) {
  add_served(app, o.served);
  app.add_option("--name", o.served.place.name, "with --keys: the name of the certificate");
  app.add_option("--prompt", o.prompts, "text to continue; several times: texts side by side")->allow_extra_args(false);
  app.add_option("--tokens", o.token_lists, "tokens to continue, in place of a text: \"5 17 80\"")
      ->allow_extra_args(false)
      ->excludes("--prompt");
  app.add_option("--tokenizer", o.tokenizer,
                 reef::concat(tokenizer_forms, "; default: that of the model's folder"));
  app.add_option("--new", o.new_tokens, "how many tokens to add")
      ->transform(number_from<std::int64_t>(0, 1'000'000'000))
      ->capture_default_str();
  add_draw_options(app, o);
  add_draft_options(app, o);
  add_beam_options(app, o);
  app.add_option("--answer", o.answer, "seconds of silence after which a server is asked again, then replaced")
      ->transform(number_from<double>(0.1, 1e6))
      ->capture_default_str();
  app.add_option("--step", o.step, "the longest that a token takes, in seconds, after which all fails")
      ->transform(number_from<double>(0.1, 1e9))
      ->capture_default_str();
  app.add_flag("--same-bits", o.same_bits,
               "waits where servers of this machine's numerics class do not have all blocks; default: others are asked "
               "too, and that bits may differ is told");
  app.add_flag("--json", o.json, "answer with one object: tokens, logprobs, text");
  app.add_flag("--quiet", o.quiet, "tells nothing of servers on standard error");
}

}  // namespace reef_examples
