#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <CLI/CLI.hpp>

#include <reef/comm/stop_request.hpp>
#include <reef/swarm/core/session_message.hpp>
#include <reef/swarm/net/endpoint_options.hpp>

#include "../support/generation_options.hpp"
#include "options.hpp"

namespace reef_examples {

/// What servers and clients of a model's blocks say alike.
struct ServedModelOptions : RowOptions {
  LogPlace place;
  std::string job = "reef";
  bool plain_loopback = false;
  std::string model;  ///< a folder

  /// Returns the outliers of 256 inputs: those of reef-generate's default.
  [[nodiscard]] std::int64_t outliers() const { return weights == "int8" ? 1 : 0; }
  /// Returns the settings of the network. Throws OptionError without keys, unless all is on one machine.
  [[nodiscard]] reef::swarm::EndpointOptions network(const std::string& name) const;
  /// Returns the name by which servers and clients know that they have the same weights in the same form.
  [[nodiscard]] std::string model_name() const;
};

/// The options of `reef-swarm serve`.
struct ServeOptions {
  ServedModelOptions served;
  std::string listen = "127.0.0.1:0";
  std::string advertise;
  std::string blocks;  ///< "FIRST:LAST"; empty: all
  std::int64_t positions = 1 << 14;
  std::int64_t longest = 0;  ///< 0: as many as the model has, up to `positions`
  double drain = 10;         ///< seconds after a signal for which sessions may leave
};

/// The options of `reef-swarm generate`.
struct TextOptions : DrawOptions, DraftOptions, BeamSearchOptions {
  ServedModelOptions served;
  std::vector<std::string> prompts;
  std::vector<std::string> token_lists;
  std::string tokenizer;
  std::int64_t new_tokens = 100;
  double answer = 30;
  double step = 600;
  bool same_bits = false;
  bool json = false;
  bool quiet = false;
};

void add_serve(CLI::App& app, ServeOptions& options);
void add_generate(CLI::App& app, TextOptions& options);

/// Each returns an exit status.
int run_serve(const ServeOptions& options, const reef::comm::StopRequest& stop);
int run_generate(const TextOptions& options);

}  // namespace reef_examples
