#include "calibrate.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <utility>

#include <reef/core/error.hpp>
#include <reef/core/text.hpp>
#include <reef/core/units.hpp>
#include <reef/data/json_lines.hpp>
#include <reef/io/file.hpp>
#include <reef/io/json.hpp>
#include <reef/nn/model_config.hpp>
#include <reef/nn/session.hpp>

#include "../support/progress.hpp"
#include "../support/tokenizer.hpp"
#include "model.hpp"

namespace reef_generate {

namespace {

using Tokens = std::vector<std::int32_t>;

/// The most tokens of a text that are read as one.
constexpr std::int64_t window = 512;

/// Returns the texts of the lines of a .jsonl: "text", or a prompt with its completion.
std::vector<std::string> texts_of_lines(const std::string& name) {
  std::vector<std::string> texts;
  reef::data::for_each_json_line(name, [&](const reef::io::Json& json, const std::string& where) {
    const auto member = [&](const char* of) { return reef::io::require<std::string>(json, of, where); };
    texts.push_back(json.contains("prompt") ? member("prompt") + member("completion") : member("text"));
  });
  return texts;
}

/// Returns windows of the texts of --calibrate, of --calibrate-tokens tokens together at most.
std::vector<Tokens> windows_of(const Options& options, std::int64_t positions) {
  const auto tokenizer = tokenizer_of(options);
  if (!tokenizer) refuse_text(options, "--calibrate");
  const std::vector<std::string> texts =
      options.calibrate.ends_with(".jsonl")
          ? texts_of_lines(options.calibrate)
          : std::vector<std::string>{reef::io::read_file(options.calibrate, reef::Bytes{1} << 32)};
  std::vector<Tokens> windows;
  std::int64_t left = options.calibrate_tokens;
  for (const std::string& text : texts) {
    if (left == 0) break;
    const Tokens tokens = tokenizer->encode_begin(text);
    for (std::int64_t begin = 0; begin < std::ssize(tokens) && left > 0; begin += positions) {
      const std::int64_t count = std::min({positions, std::ssize(tokens) - begin, left});
      windows.emplace_back(tokens.begin() + begin, tokens.begin() + begin + count);
      left -= count;
    }
  }
  if (windows.empty()) {
    throw reef::DecodeError("--calibrate: ", options.calibrate,
                            " has no text.\n  fix: some text like that which is to come.");
  }
  return windows;
}

}  // namespace

reef::nn::InputMagnitudes calibrate(const Options& options, reef::device::Host& host,
                                    const reef::graph::Graph<reef::device::Host, float>& model,
                                    const std::function<void(const SetParameter&)>& read) {
  reef::nn::InputMagnitudes magnitudes;
  if (options.calibrate.empty()) return magnitudes;
  const auto config = reef::nn::read_model_config(std::filesystem::path(options.model) / "config.json");
  const std::int64_t placeholders = placeholders_of(options);
  const std::int64_t positions = std::min(window, reef::nn::longest_sequence(config) - placeholders);
  if (positions < 1) {
    throw reef::OptionError("--calibrate: the soft prompt of --adapter has ", placeholders, " positions, the model ",
                            reef::nn::longest_sequence(config), ".\n  fix: a shorter prompt.");
  }
  const std::vector<Tokens> windows = windows_of(options, positions);
  const reef::nn::SessionOptions in_bf16{
      .positions = positions + placeholders, .rows = options.rows, .weights = reef::graph::WeightForm::bf16};
  Session session(host, reef::nn::with_input_magnitudes(model, magnitudes), in_bf16);
  read([&](const std::string& name, const std::vector<float>& values) { session.set_parameter(name, values); });
  std::int64_t all = 0;
  for (const Tokens& tokens : windows) all += std::ssize(tokens);
  std::int64_t done = 0;
  reef_examples::Progress bar;
  for (Tokens tokens : windows) {
    done += std::ssize(tokens);
    tokens.insert(tokens.begin(), static_cast<std::size_t>(placeholders), 0);
    const int sequence = session.open();
    (void)session.append({{sequence, tokens}});
    session.close(sequence);
    bar.show(reef::concat("calibrating: ", done, " of ", all, " tokens"));
  }
  bar.finish();
  return magnitudes;
}

}  // namespace reef_generate
