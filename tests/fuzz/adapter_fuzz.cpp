// A folder of an adapter: adapter_config.json, which is read, written and read back as it is, and the tensors beside it.
//
// The first line of an input is the adapter_config.json; what is behind it is the header of adapter_model.safetensors if
// it begins with '{' (safetensors_input.hpp), else the file.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include <reef/graph/dag.hpp>
#include <reef/io/file.hpp>
#include <reef/nn/adapter_file.hpp>

#include "../support/temporary_folder.hpp"
#include "safetensors_input.hpp"
#include "target.hpp"

namespace {

namespace nn = reef::nn;

/// The parameters that a small model has of its adapters: one of rank 2, a class head of 2 classes.
reef::graph::Dag small_adapters() {
  const auto parameter = [](std::string name, reef::Shape shape) {
    reef::graph::Parameter made;
    made.name = std::move(name);
    made.spec = {shape, reef::Element::float32};
    return made;
  };
  reef::graph::Dag dag;
  dag.parameters = {parameter("model.layers.0.self_attn.q_proj.lora_A.weight", {2, 8}),
                    parameter("model.layers.0.self_attn.q_proj.lora_B.weight", {8, 2}),
                    parameter("score.weight", {2, 8})};
  return dag;
}

}  // namespace

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const reef::test::TemporaryFolder folder;
  static const reef::test::TemporaryFolder copy;
  static const reef::graph::Dag dag = small_adapters();
  const std::string_view input = reef::fuzz::text_of(data, size);
  const std::string_view config = input.substr(0, input.find('\n'));
  const std::string_view tensors = input.substr(std::min(config.size() + 1, input.size()));
  reef::test::write_file(folder / "adapter_config.json", std::string(config));
  reef::test::write_file(folder / "adapter_model.safetensors",
                         tensors.starts_with('{') ? reef::fuzz::whole_file(tensors) : std::string(tensors));
  reef::fuzz::reads([&] {
    const nn::Adapter adapter = nn::read_adapter_config(folder.path());
    std::visit([](const auto& own) { own.validate(); }, adapter);
    const auto written = [&](const nn::Adapter& it) {
      nn::write_adapter_config(copy.path(), it, "base", false, dag);
      return reef::io::read_file(copy / "adapter_config.json", 1 << 20);
    };
    const std::string once = written(adapter);
    reef::fuzz::demand(written(nn::read_adapter_config(copy.path())) == once, "what is written is read back");
  });
  reef::fuzz::reads([&] { (void)nn::read_adapter_classes(folder.path()); });
  reef::fuzz::reads([&] {
    std::size_t read = 0;
    nn::read_adapter<float>(folder.path(), dag, [&](const std::string& name, const std::vector<float>& values) {
      reef::fuzz::demand(!name.empty() && values.size() == 16, "a parameter has all its elements");
      ++read;
    });
    reef::fuzz::demand(read == dag.parameters.size(), "each parameter is set once");
  });
  return 0;
}
