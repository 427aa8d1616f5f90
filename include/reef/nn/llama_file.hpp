#pragma once

#include <algorithm>
#include <array>
#include <filesystem>
#include <set>
#include <string>
#include <string_view>
#include <utility>

#include <reef/core/shape.hpp>
#include <reef/core/text.hpp>
#include <reef/graph/dag.hpp>
#include <reef/io/safetensors.hpp>
#include <reef/nn/detail/named_tensors.hpp>

namespace reef {
inline namespace v0 {
namespace nn {

/// The weights of a Llama, Mistral, Qwen 2 or Qwen 3 in safetensors files with Hugging Face's names, open for reading.
///
/// | place  | a file, an index of several, or a folder, as SafetensorsFiles                                  |
/// | names  | those of LlamaForCausalLM ("model.layers.0.self_attn.q_proj.weight"), also where a compiled or |
/// |        | wrapped model has written them ("_orig_mod.model..."), or without "model."                     |
/// | head   | of a tied model lm_head.weight may be there and is then the embedding, byte by byte            |
/// | others | rotary_emb.inv_freq, which older files hold, is passed over                                    |
/// | dtypes | F32, F16, BF16 or F64, converted as read_reals does                                            |
/// | errors | FileError and DecodeError as SafetensorsFiles; DecodeError, with file and tensor, for one      |
/// |        | that is missing, unknown, there twice, of another shape, no real numbers, or NaN or            |
/// |        | infinite somewhere, and for an untied head where the model's head is tied                      |
///
/// No tensor holds the model's configuration: read_llama_config reads it.
///
/// \code
/// #include <reef/nn/llama.hpp>
/// #include <reef/nn/llama_json.hpp>
/// const nn::LlamaConfig config = nn::read_llama_config("llama/config.json");
/// const auto model = nn::llama<device::Host, float>(config);
/// std::map<std::string, std::vector<float>> weights;
/// nn::LlamaFile("llama").read<float>(
///     model.dag(), [&](const auto& name, const auto& values) { weights[name] = values; });
/// \endcode
class LlamaFile {
public:
  explicit LlamaFile(const std::filesystem::path& path) : tensors_(path, "Llama") {}

  /// Returns the path of the file or the index that was found.
  [[nodiscard]] const std::filesystem::path& path() const& { return tensors_.path(); }
  [[nodiscard]] std::filesystem::path path() const&& { return tensors_.path(); }

  /// Calls set(name, values) for each parameter of a llama(). All errors of the file are
  /// found before the first call: it is read twice. Holds one parameter at a time.
  template <real T, class Set>
  void read(const graph::Dag& model, Set&& set) const {
    check_model(model);
    tensors_.read<T>(
        model, [this](std::string_view name) { return tensors_.find(detail::bare_name(name)); },
        [](const graph::Parameter& parameter) { return parameter.spec.shape.size(); },
        std::forward<Set>(set));
  }

private:
  static constexpr std::string_view head = "lm_head.weight";
  static constexpr std::string_view tokens = "embed_tokens.weight";

  void check_model(const graph::Dag& model) const {
    std::set<const io::StoredTensor*> parameters;
    for (const graph::Parameter& parameter : model.parameters) {
      const std::string name = detail::bare_name(parameter.name);
      const io::TensorInFile* const found = tensors_.find(name);
      if (found == nullptr) {
        tensors_.refuse(concat("it has no tensor for the model's '", parameter.name, "'"),
                        name == head
                            ? "give its config.json tie_word_embeddings, if its head is tied"
                            : "give all files of the model, and its own config.json");
      }
      const Shape& wanted = parameter.spec.shape;
      std::array<std::int64_t, Shape::max_rank> extents{};
      tensors_.require_real(*found);
      tensors_.require_shape(
          *found, std::ranges::equal(found->tensor->shape, io::detail::extents_of(wanted, extents)),
          parameter, wanted, "transpose it: a Llama's projections are (out, in)",
          "give the model its own config.json");
      parameters.insert(found->tensor);
    }
    for (const auto& [name, found] : tensors_.all()) {
      if (parameters.contains(found.tensor) || name.ends_with("rotary_emb.inv_freq")) continue;
      if (name == head) {
        check_head(found);
      } else {
        tensors_.refuse(
            found.file->path(),
            concat("the model has no parameter for its tensor '", found.tensor->name, "'"),
            "give the model its own config.json");
      }
    }
  }

  /// Throws DecodeError unless the file's head equals the embedding, for a model whose head is tied.
  void check_head(const io::TensorInFile& found) const {
    if (detail::NamedTensors::are_same(found, *tensors_.find(tokens))) return;
    tensors_.refuse(
        found.file->path(),
        "lm_head.weight is not embed_tokens.weight, but the model has one tensor for both",
        "tie_word_embeddings: false in its config.json, or a file with a tied head");
  }

  detail::NamedTensors tensors_;
};

/// Writes the parameters of a llama() to a safetensors file that Hugging Face's class of its family reads.
///
/// values(name) gives a parameter's elements. The head of a tied model is not written.
///
/// | memory | all parameters once                                                     |
/// | errors | OptionError if values(name) gives another number of elements; FileError |
/// |        | as AtomicFile: an older file of that name is unchanged                  |
template <real T, class Values>
void write_llama(const std::filesystem::path& path, const graph::Dag& model, Values&& values) {
  detail::write_tensors<T>(
      path, model, "reef::nn::write_llama",
      [](const graph::Parameter& parameter) { return parameter.spec.shape; },
      std::forward<Values>(values));
}

}  // namespace nn
}  // namespace v0
}  // namespace reef
