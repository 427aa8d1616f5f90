// The config.json of a model: what is read is written, and read back, as it is.

#include <cstdint>
#include <filesystem>
#include <string>
#include <variant>

#include <reef/io/file.hpp>
#include <reef/nn/model_config.hpp>

#include "../support/temporary_folder.hpp"
#include "target.hpp"

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static reef::fuzz::MemoryFile memory;
  memory.set(reef::fuzz::text_of(data, size));
  reef::fuzz::reads([&] {
    const reef::nn::ModelConfig config = reef::nn::read_model_config(memory.path());
    std::visit([](const auto& own) { own.validate(); }, config);
    static const reef::test::TemporaryFolder folder;
    const std::filesystem::path copy = folder / "config.json";
    reef::nn::write_model_config(copy, config);
    const std::string written = reef::io::read_file(copy, 1 << 20);
    reef::nn::write_model_config(copy, reef::nn::read_model_config(copy));
    reef::fuzz::demand(reef::io::read_file(copy, 1 << 20) == written, "what is written is read back");
  });
  return 0;
}
