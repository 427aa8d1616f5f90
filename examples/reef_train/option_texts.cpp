#include "option_texts.hpp"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

#include <CLI/CLI.hpp>

#include <reef/codec/chosen.hpp>
#include <reef/core/error.hpp>
#include <reef/core/finite.hpp>
#include <reef/core/text.hpp>

#include "../support/lora_text.hpp"
#include "../support/model_shape.hpp"
#include "../support/numbers.hpp"
#include "../support/output_places.hpp"

namespace reef_examples {

void parse_model(const std::string& text, TrainOptions& options) {
  const auto shape = parse_model_shape(text);
  if (!shape) {
    throw CLI::ValidationError("--model",
                               "'" + text + "' is not LAYERSxHEADSxCHANNELS, as in 4x4x128");
  }
  options.layers = shape->layers;
  options.heads = shape->heads;
  options.channels = shape->channels;
  options.shape_given = true;
}

std::pair<int, double> parse_slow(const std::string& text) {
  const std::size_t colon = std::min(text.find(':'), text.size());
  const auto rank = parse_number<int>(text.substr(0, colon));
  const auto factor = parse_number<double>(text.substr(std::min(colon + 1, text.size())));
  if (!rank || *rank < 0 || !factor || *factor < 1 || *factor >= 1e6) {
    throw CLI::ValidationError("--slow",
                               "'" + text + "' is not RANK:FACTOR with a factor from 1 on");
  }
  return {*rank, *factor};
}

reef::run::ParameterGroup parse_group(const std::string& text) {
  const std::size_t first = std::min(text.find(':'), text.size());
  const std::size_t second = std::min(text.find(':', std::min(first + 1, text.size())), text.size());
  const auto number = [&](std::size_t begin, std::size_t end) {
    const auto value = parse_number<double>(text.substr(std::min(begin, end), end - std::min(begin, end)));
    return value && reef::within(*value, 0, 1000) ? value : std::nullopt;
  };
  const auto factor = number(first + 1, second);
  const auto decay = number(second + 1, text.size());
  if (first == 0 || !factor || (second < text.size() && !decay)) {
    throw CLI::ValidationError("--group", "'" + text + "' is not PATTERN:FACTOR or PATTERN:FACTOR:DECAY, with numbers "
                                          "from 0 to 1000");
  }
  return {text.substr(0, first), *factor, decay};
}

reef::nn::Lora parse_lora(const std::string& text) {
  try {
    const reef::nn::Lora lora = lora_of(text);
    if (lora.alpha == 0) {
      throw reef::OptionError(reef::in_quotes(text), " has ALPHA 0, which trains nothing.\n  fix: above 0, as 16.");
    }
    return lora;
  } catch (const reef::OptionError& error) {
    throw CLI::ValidationError("--lora", error.what());
  }
}

void parse_compress(const std::string& text, TrainOptions& o) {
  const std::size_t equals = std::min(text.find('='), text.size());
  const std::string channel = text.substr(0, equals);
  constexpr std::array<std::string_view, 4> channels{"activations", "activation-gradients", "gradients", "parameters"};
  if (equals == text.size() || std::find(channels.begin(), channels.end(), channel) == channels.end()) {
    throw CLI::ValidationError("--compress", "'" + text + "' is not CHANNEL=CODEC with activations, activation-gradients, "
                                             "gradients or parameters, as gradients=ef+top-k:100");
  }
  const std::string codec = text.substr(equals + 1);
  try {
    static_cast<void>(reef::codec::Chosen::of(codec));
  } catch (const reef::OptionError& error) {
    throw CLI::ValidationError("--compress", error.what());
  }
  o.compress[channel] = codec;
}

void parse_record_edges(const std::string& text, TrainOptions& o) {
  const std::size_t colon = std::min(text.find(':'), text.size());
  const auto step = parse_number<std::int64_t>(text.substr(0, colon));
  const std::string file = text.substr(std::min(colon + 1, text.size()));
  if (!step || *step < 1 || file.empty()) {
    throw CLI::ValidationError("--record-edges", "'" + text + "' is not STEP:FILE with a step from 1 on, as "
                                                 "100:edges.safetensors");
  }
  if (names_a_folder(file)) {  // its extension would be put behind the dot, where nobody finds the file
    throw CLI::ValidationError("--record-edges", "'" + file + "' is the name of a folder; name a file in it, as "
                                                 "100:edges.safetensors");
  }
  o.record_step = *step;
  o.record_edges = file;
}

void parse_accumulate(const std::string& text, TrainOptions& o) {
  const auto count = [&text](std::string_view kind) {
    if (!text.starts_with(kind)) return 0;
    const int number = parse_number<int>(std::string_view(text).substr(kind.size())).value_or(0);
    return number >= 1 && number <= 65536 ? number : 0;
  };
  if (text == "adaptive") {
    o.accumulation = reef::Accumulation::adaptive();
  } else if (const int most = count("cap:"); most > 0) {
    o.accumulation = reef::Accumulation::capped(most);
  } else if (text == "fixed") {
    o.accumulation = reef::Accumulation::fixed();
  } else if (const int fixed = count("fixed:"); fixed > 0) {
    o.accumulation = reef::Accumulation::fixed();
    o.micro_batches = fixed;
  } else {
    throw CLI::ValidationError(
        "--accumulate",
        "'" + text + "' is not adaptive, cap:M, fixed or fixed:N, with numbers from 1 to 65536");
  }
}

}  // namespace reef_examples
