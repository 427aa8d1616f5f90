// Purpose  Continues several prompts of other lengths side by side: a pass multiplies each matrix once for all of them.
//          A text is the same alone and in any batch.
// Command  build/release/examples/batch-of-prompts tests/data/llama_grouped 5,17,80,33,90,2,61 5,17 42
// Output   5 17 80 33 90 2 61 | 90 66 92 51 54 18 29 32
//          5 17 | 59 93 70 22 67 96 69 40
//          42 | 72 72 72 72 72 72 72 72
//          the bits of each alone: yes
// links: reef::compiled
// arguments: tests/data/llama_grouped 5,17,80,33,90,2,61 5,17 42
// prints: 5 17 80 33 90 2 61 | 90 66 92 51 54 18 29 32
// prints: the bits of each alone: yes
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <reef/device/host.hpp>
#include <reef/nn/generate.hpp>
#include <reef/nn/host.hpp>
#include <reef/nn/model_folder.hpp>
#include <reef/nn/session.hpp>

#include "support/numbers.hpp"

using namespace reef;
using Prompt = std::vector<std::int32_t>;

Prompt prompt_of(std::string_view text) {
  Prompt tokens;
  while (!text.empty()) {
    const std::string_view part = text.substr(0, text.find(','));
    const auto number = reef_examples::parse_number<std::int32_t>(part);
    if (!number) throw OptionError(in_quotes(part), " is no token's number.");
    tokens.push_back(*number);
    text.remove_prefix(std::min(part.size() + 1, text.size()));
  }
  return tokens;
}

int main(int argc, char** argv) try {
  if (argc < 3) {
    std::fprintf(stderr, "batch-of-prompts FOLDER TOKEN,TOKEN,... ...\n");
    return 2;
  }
  const std::filesystem::path folder = argv[1];
  std::vector<Prompt> prompts;
  for (int i = 2; i < argc; ++i) prompts.push_back(prompt_of(argv[i]));

  device::Host device;
  const auto model = nn::model_of<device::Host, float>(folder, {}, device.threads());
  nn::Session<device::Host, float> session(device, model,
                                           {.positions = 64, .sequences = static_cast<std::int64_t>(prompts.size())});
  nn::read_weights<float>(folder, model.dag(), [&](const std::string& name, const std::vector<float>& values) {
    session.set_parameter(name, values);
  });

  const nn::GenerateOptions options{.tokens = 8, .temperature = 0};
  const auto together = nn::generate(session, prompts, options);
  bool are_same = true;
  for (std::size_t i = 0; i < prompts.size(); ++i) {
    for (const std::int32_t token : prompts[i]) std::printf("%d ", token);
    std::printf("|");
    for (const std::int32_t token : together[i].tokens) std::printf(" %d", token);
    std::printf("\n");
    const auto alone = nn::generate(session, std::span(&prompts[i], 1), options);
    are_same = are_same && alone[0].tokens == together[i].tokens &&
               alone[0].log_probabilities == together[i].log_probabilities;
  }
  std::printf("the bits of each alone: %s\n", are_same ? "yes" : "no");
} catch (const std::exception& error) {
  std::fprintf(stderr, "batch-of-prompts: %s\n", error.what());
  return EXIT_FAILURE;
}
