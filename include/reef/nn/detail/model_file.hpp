#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <filesystem>
#include <set>
#include <string>
#include <string_view>
#include <utility>

#include <reef/core/shape.hpp>
#include <reef/core/text.hpp>
#include <reef/graph/dag.hpp>
#include <reef/io/safetensors.hpp>
#include <reef/nn/class_head.hpp>
#include <reef/nn/detail/named_tensors.hpp>

namespace reef {
inline namespace v0 {
namespace nn::detail {

/// What a family of models calls its tensors, by bare names.
///
/// | kind    | what errors call such a model: "a Llama" without its article            |
/// | head    | of a tied model it may be in the file too, and is then that of `tokens` |
/// | ignored | the ends of names of tensors that hold nothing that is trained          |
struct ModelFileNames {
  std::string_view kind;
  std::string_view head;
  std::string_view tokens;
  std::array<std::string_view, 3> ignored{};
};

/// The weights of a model in safetensors files with Hugging Face's names, open for reading: what LlamaFile, BloomFile
/// and GptNeoxFile say. Every parameter of the graph has a tensor of its name and shape.
class ModelFile {
public:
  ModelFile(const std::filesystem::path& path, const ModelFileNames& names)
      : names_(names), tensors_(path, names.kind) {}

  /// Returns the path of the file or the index that was found.
  [[nodiscard]] const std::filesystem::path& path() const& { return tensors_.path(); }
  [[nodiscard]] std::filesystem::path path() const&& { return tensors_.path(); }

  /// Calls set(name, values) for each parameter of the model. All errors of the file are
  /// found before the first call: it is read twice. Holds one parameter at a time. Of parameters that are not wanted
  /// no element is read.
  template <real T, class Set>
  void read(const graph::Dag& model, Set&& set, const WantedParameters& wanted = {}) const {
    check_model(model);
    tensors_.read<T>(
        model, [this](std::string_view name) { return tensors_.find(bare_name(name)); },
        [](const graph::Parameter& parameter) { return parameter.spec.shape.size(); },
        std::forward<Set>(set), wanted);
  }

  /// Throws DecodeError unless the file has the tensors of so many layers, with their shapes. `one` is the model with
  /// one layer: no graph of many is built for a config.json that is of another model.
  ///
  /// | cost | one look-up for each tensor of the file, however many layers are asked for |
  void require_layers(const graph::Dag& one, std::int64_t layers) const {
    const std::int64_t found = layers_of(tensors_);
    if (found != layers) {
      tensors_.refuse(concat("it has tensors of ", found, found == 1 ? " layer" : " layers", ", and its configuration ",
                             layers),
                      "give all files of the model, and its own config.json");
    }
    for (const graph::Parameter& parameter : one.parameters) {
      const std::string name = bare_name(parameter.name);
      if (name == names_.head) continue;
      if (!layer_number(name)) static_cast<void>(tensor_of(parameter));
    }
    for (std::int64_t layer = 0; layer < layers; ++layer) {
      for (graph::Parameter parameter : one.parameters) {
        const std::size_t at = parameter.name.find(".0.");
        if (!layer_number(bare_name(parameter.name)) || at == std::string::npos) continue;
        parameter.name.replace(at, 3, concat(".", layer, "."));
        static_cast<void>(tensor_of(parameter));
      }
    }
  }

private:
  /// Returns the tensor of a parameter, of the parameter's shape. Throws DecodeError if there is none.
  [[nodiscard]] const io::TensorInFile& tensor_of(const graph::Parameter& parameter) const {
    const std::string name = bare_name(parameter.name);
    const io::TensorInFile* const found = tensors_.find(name);
    if (found == nullptr) {
      tensors_.refuse(concat("it has no tensor for the model's '", parameter.name, "'"),
                      is_of_class_head(name) ? fix_of_class_head
                      : name == names_.head
                          ? "give its config.json tie_word_embeddings, if its head is tied"
                          : "give all files of the model, and its own config.json");
    }
    const Shape& wanted = parameter.spec.shape;
    std::array<std::int64_t, Shape::max_rank> extents{};
    tensors_.require_real(*found);
    tensors_.require_shape(
        *found, std::ranges::equal(found->tensor->shape, io::detail::extents_of(wanted, extents)),
        parameter, wanted, concat("transpose it: a ", names_.kind, "'s projections are (out, in)"),
        is_of_class_head(name) ? fix_of_class_shape : "give the model its own config.json");
    return *found;
  }

  void check_model(const graph::Dag& model) const {
    std::set<const io::StoredTensor*> parameters;
    for (const graph::Parameter& parameter : model.parameters) parameters.insert(tensor_of(parameter).tensor);
    for (const auto& [name, found] : tensors_.all()) {
      if (parameters.contains(found.tensor) || is_ignored(name)) continue;
      if (name == names_.head) {
        check_head(found);
      } else {
        tensors_.refuse(
            found.file->path(),
            concat("the model has no parameter for its tensor '", found.tensor->name, "'"),
            "give the model its own config.json");
      }
    }
  }

  [[nodiscard]] bool is_ignored(std::string_view name) const {
    return std::ranges::any_of(names_.ignored,
                               [&](std::string_view end) { return !end.empty() && name.ends_with(end); });
  }

  /// Throws DecodeError unless the file's head equals the embedding, for a model whose head is tied.
  void check_head(const io::TensorInFile& found) const {
    if (NamedTensors::are_same(found, *tensors_.find(names_.tokens))) return;
    tensors_.refuse(
        found.file->path(),
        concat(names_.head, " is not ", names_.tokens, ", but the model has one tensor for both"),
        "tie_word_embeddings: false in its config.json, or a file with a tied head");
  }

  ModelFileNames names_;
  NamedTensors tensors_;
};

/// Writes the parameters of a model as they are to a safetensors file: values(name) gives a parameter's elements.
/// `whose` names the function in errors.
template <real T, class Values>
void write_model(const std::filesystem::path& path, const graph::Dag& model, const char* whose, Values&& values) {
  write_tensors<T>(
      path, model, whose, [](const graph::Parameter& parameter) { return parameter.spec.shape; },
      std::forward<Values>(values));
}

}  // namespace nn::detail
}  // namespace v0
}  // namespace reef
