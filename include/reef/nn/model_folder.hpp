#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <utility>
#include <variant>

#include <reef/core/error.hpp>
#include <reef/device/cores.hpp>
#include <reef/device/host.hpp>
#include <reef/graph/dag.hpp>
#include <reef/graph/graph.hpp>
#include <reef/io/safetensors_files.hpp>
#include <reef/nn/bloom.hpp>
#include <reef/nn/bloom_file.hpp>
#include <reef/nn/class_head.hpp>
#include <reef/nn/class_labels.hpp>
#include <reef/nn/gpt.hpp>
#include <reef/nn/gpt2_file.hpp>
#include <reef/nn/gpt_neox.hpp>
#include <reef/nn/gpt_neox_file.hpp>
#include <reef/nn/llama.hpp>
#include <reef/nn/llama_file.hpp>
#include <reef/nn/model_config.hpp>

namespace reef {
inline namespace v0 {
namespace nn {

/// Builds the graph of a model from its configuration, by gpt(), llama(), bloom() or gpt_neox().
template <class Device, real T>
graph::Graph<Device, T> model_of(const ModelConfig& config,
                                 int threads = device::available_cores()) {
  if (const auto* const gpt2 = std::get_if<GptConfig>(&config))
    return gpt<Device, T>(*gpt2, threads);
  if (const auto* const own = std::get_if<BloomConfig>(&config)) return bloom<Device, T>(*own, threads);
  if (const auto* const own = std::get_if<GptNeoxConfig>(&config)) return gpt_neox<Device, T>(*own, threads);
  return llama<Device, T>(std::get<LlamaConfig>(config), threads);
}

/// Throws DecodeError, naming file and tensor, unless the weights at a place are of the layers and the shapes that a
/// configuration gives: before model_of builds a graph of as many layers as a file may claim.
///
/// | cost   | the headers of the files, and a graph of one layer                       |
/// | errors | FileError and DecodeError as read_weights; a head is read_weights' affair |
///
/// \code
/// const nn::ModelConfig config = nn::read_model_config("llama/config.json");
/// nn::require_weights("llama", config);
/// const auto model = nn::model_of<device::Host, float>(config);
/// \endcode
template <class Device = device::Host>
void require_weights(const std::filesystem::path& place, const ModelConfig& config) {
  if (const auto* const gpt2 = std::get_if<GptConfig>(&config)) return Gpt2File(place).require_sizes(*gpt2);
  ModelConfig of_one_layer = with_batch(config, {.batch = 1, .sequence = 1});
  const std::int64_t layers = std::visit([](auto& own) { return std::exchange(own.layers, 1); }, of_one_layer);
  const auto one = model_of<Device, float>(of_one_layer, 1);
  if (std::holds_alternative<BloomConfig>(config)) return BloomFile(place).require_layers(one.dag(), layers);
  if (std::holds_alternative<GptNeoxConfig>(config)) return GptNeoxFile(place).require_layers(one.dag(), layers);
  LlamaFile(place).require_layers(one.dag(), layers);
}

/// Builds the graph of the model in a folder in Hugging Face's layout, by its config.json; read_weights reads the
/// weights.
///
/// | folder | config.json; for read_weights also safetensors, in one file or in several with an index               |
/// | class  | a model for sequence classification has a head of as many classes as read_class_labels reads          |
/// | errors | those of read_model_config, such as for an unknown architecture, or for a field that changes results; |
/// |        | those of require_weights, where there are weights; OptionError for a sequence longer than             |
/// |        | longest_sequence                                                                                      |
///
/// \code
/// #include <reef/nn/generator.hpp>
/// device::Host host;
/// const auto model = nn::model_of<device::Host, float>("llama", {.sequence = 512}, host.threads());
/// nn::Generator<device::Host, float> generator(host, model);
/// nn::read_weights<float>("llama", model.dag(), [&](const auto& name, const auto& values) {
///   generator.set_parameter(name, values);
/// });
/// const auto tokens = generator.generate(std::vector<std::int32_t>{1, 15043}, {.tokens = 20});
/// \endcode
template <class Device, real T>
graph::Graph<Device, T> model_of(const std::filesystem::path& folder, const BatchShape& batch = {},
                                 int threads = device::available_cores()) {
  const std::filesystem::path place = folder / "config.json";
  const ModelConfig config = read_model_config(place);
  using io::SafetensorsFiles;
  if (exists(folder / SafetensorsFiles::whole_name) || exists(folder / SafetensorsFiles::index_name))
    require_weights<Device>(folder, config);
  const auto model = model_of<Device, T>(with_batch(config, batch), threads);
  const auto labels = read_class_labels(place);
  return labels ? with_class_head(model, {.classes = labels->classes()}) : model;
}

namespace detail {

/// Reads the parameters of a model from an open weight file, and returns the file's path.
template <real T, class Set>
std::filesystem::path read_from(const ModelFile& file, const graph::Dag& model, Set&& set,
                                const WantedParameters& wanted) {
  file.read<T>(model, std::forward<Set>(set), wanted);
  return file.path();
}

}  // namespace detail

/// Calls set(name, values) for each parameter of a model, as Gpt2File, LlamaFile, BloomFile or GptNeoxFile reads it:
/// the type of `config` decides which. Returns the path of the file or index that was read. `wanted`, given the name of
/// a parameter, says whether it is read; empty: all are.
template <real T, class Set>
std::filesystem::path read_weights(const std::filesystem::path& place, const ModelConfig& config,
                                   const graph::Dag& model, Set&& set,
                                   const detail::WantedParameters& wanted = {}) {
  if (const auto* const gpt2 = std::get_if<GptConfig>(&config)) {
    const Gpt2File file(place);
    file.read<T>(model, gpt2->vocabulary, std::forward<Set>(set), wanted);
    return file.path();
  }
  if (std::holds_alternative<BloomConfig>(config))
    return detail::read_from<T>(BloomFile(place), model, std::forward<Set>(set), wanted);
  if (std::holds_alternative<GptNeoxConfig>(config))
    return detail::read_from<T>(GptNeoxFile(place), model, std::forward<Set>(set), wanted);
  return detail::read_from<T>(LlamaFile(place), model, std::forward<Set>(set), wanted);
}
template <real T, class Set>
std::filesystem::path read_weights(const std::filesystem::path& folder, const graph::Dag& model,
                                   Set&& set) {
  return read_weights<T>(folder, read_model_config(folder / "config.json"), model,
                         std::forward<Set>(set));
}

/// Writes a model's parameters as write_gpt2, write_llama, write_bloom or write_gpt_neox does.
template <real T, class Values>
void write_weights(const std::filesystem::path& path, const ModelConfig& config,
                   const graph::Dag& model, Values&& values) {
  if (const auto* const gpt2 = std::get_if<GptConfig>(&config)) {
    write_gpt2<T>(path, model, gpt2->vocabulary, std::forward<Values>(values));
  } else if (std::holds_alternative<BloomConfig>(config)) {
    write_bloom<T>(path, model, std::forward<Values>(values));
  } else if (std::holds_alternative<GptNeoxConfig>(config)) {
    write_gpt_neox<T>(path, model, std::forward<Values>(values));
  } else {
    write_llama<T>(path, model, std::forward<Values>(values));
  }
}

}  // namespace nn
}  // namespace v0
}  // namespace reef
