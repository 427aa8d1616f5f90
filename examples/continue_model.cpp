// Purpose  Continues tokens by a model of Hugging Face: a folder whose config.json says which it is.
// Command  build/release/examples/continue-model tests/data/llama_grouped 5 17 80 33 90 2 61
// Output   5 17 80 33 90 2 61 90 66 92 51 54 18 29 32 61 90
// links: reef::compiled
// arguments: tests/data/llama_grouped 5 17 80 33 90 2 61
// prints: 5 17 80 33 90 2 61 90 66 92 51 54 18 29 32 61 90
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <filesystem>
#include <string>
#include <vector>

#include <reef/device/host.hpp>
#include <reef/nn/generator.hpp>
#include <reef/nn/host.hpp>
#include <reef/nn/model_folder.hpp>

#include "support/numbers.hpp"

using namespace reef;

int main(int argc, char** argv) try {
  if (argc < 3) {
    std::fprintf(stderr, "continue-model FOLDER TOKEN...\n");
    return 2;
  }
  std::vector<std::int32_t> tokens;
  for (int i = 2; i < argc; ++i) {
    const auto number = reef_examples::parse_number<std::int32_t>(argv[i]);
    if (!number) throw OptionError(in_quotes(argv[i]), " is no token's number.");
    tokens.push_back(*number);
  }

  const std::filesystem::path folder = argv[1];
  device::Host device;
  const auto model = nn::model_of<device::Host, float>(folder, {.sequence = argc + 8}, device.threads());
  nn::Generator<device::Host, float> generator(device, model);
  nn::read_weights<float>(folder, model.dag(), [&](const std::string& name, const std::vector<float>& values) {
    generator.set_parameter(name, values);
  });

  for (const std::int32_t token : generator.generate(tokens, {.tokens = 10, .temperature = 0})) {
    std::printf("%d ", token);
  }
  std::printf("\n");
} catch (const std::exception& error) {
  std::fprintf(stderr, "continue-model: %s\n", error.what());
  return EXIT_FAILURE;
}
