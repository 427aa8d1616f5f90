// Purpose  Continues tokens by a GPT-2 of Hugging Face: a model from a file, without a Trainer.
// Command  build/release/examples/continue-gpt2 tests/data/gpt2_hub.safetensors 2 3 14 15
// Output   2 layers, 2 heads, 12 channels, vocabulary 37, context 10
//          3 14 15 15 15 15 15 3 3 28 28 28 5
// links: reef::compiled
// arguments: tests/data/gpt2_hub.safetensors 2 3 14 15
// prints: 2 layers, 2 heads, 12 channels, vocabulary 37, context 10
// prints: 3 14 15 15 15 15 15 3 3 28 28 28 5
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <limits>
#include <string>
#include <vector>

#include <reef/device/host.hpp>
#include <reef/nn/generator.hpp>
#include <reef/nn/gpt2_file.hpp>
#include <reef/nn/host.hpp>

#include "support/numbers.hpp"

using namespace reef;

namespace {

std::int32_t whole_number(const char* text) {
  const auto number = reef_examples::parse_number<std::int32_t>(text);
  if (!number || *number < 0) {
    throw OptionError(in_quotes(text), " is not a whole number from 0 to ",
                      std::numeric_limits<std::int32_t>::max(), ", in decimal digits.");
  }
  return *number;
}

}  // namespace

int main(int argc, char** argv) try {
  if (argc < 4) {
    std::fprintf(stderr, "continue-gpt2 FILE.safetensors|INDEX.json|FOLDER HEADS TOKEN...\n");
    return 2;
  }
  const nn::Gpt2File file(argv[1]);
  nn::GptConfig config = file.config();
  config.heads = whole_number(argv[2]);  // no tensor says it
  std::printf("%d layers, %d heads, %d channels, vocabulary %d, context %d\n",
              static_cast<int>(config.layers), static_cast<int>(config.heads),
              static_cast<int>(config.channels), static_cast<int>(config.vocabulary),
              static_cast<int>(config.context));

  device::Host device;
  const auto model = nn::gpt<device::Host, float>(config, device.threads());
  nn::Generator<device::Host, float> generator(device, model);
  file.read<float>(model.dag(), config.vocabulary,
                   [&](const std::string& name, const std::vector<float>& values) {
                     generator.set_parameter(name, values);
                   });

  std::vector<std::int32_t> tokens;
  for (int i = 3; i < argc; ++i) tokens.push_back(whole_number(argv[i]));
  for (const std::int32_t token : generator.generate(tokens, {.tokens = 10, .temperature = 0})) {
    std::printf("%d ", token);
  }
  std::printf("\n");
} catch (const std::exception& error) {
  std::fprintf(stderr, "continue-gpt2: %s\n", error.what());
  return EXIT_FAILURE;
}
