#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <filesystem>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <reef/core/error.hpp>
#include <reef/core/shape.hpp>
#include <reef/core/text.hpp>
#include <reef/graph/dag.hpp>
#include <reef/io/safetensors.hpp>
#include <reef/nn/class_head.hpp>
#include <reef/nn/detail/named_tensors.hpp>
#include <reef/nn/gpt.hpp>

namespace reef {
inline namespace v0 {
namespace nn {

namespace detail {

inline constexpr std::string_view gpt2_prefix = "transformer.";
inline constexpr std::string_view gpt2_tokens = "transformer.wte.weight";
inline constexpr std::string_view gpt2_head = "lm_head.weight";

/// Returns true if a name is that of a causal mask, as older files have: "h.3.attn.bias" or "h.3.attn.masked_bias".
inline bool is_gpt2_mask(std::string_view name) {
  if (!name.starts_with("h.")) return false;
  const std::size_t digits = name.find_first_not_of("0123456789", 2);
  if (digits == 2 || digits == std::string_view::npos) return false;
  const std::string_view rest = name.substr(digits);
  return rest == ".attn.bias" || rest == ".attn.masked_bias";
}

/// Returns the shape of a parameter in a GPT-2 file: the token table wte is stored without the rows that only pad the
/// vocabulary.
inline Shape gpt2_shape(const graph::Parameter& parameter, std::int64_t vocabulary) {
  const Shape& shape = parameter.spec.shape;
  if (parameter.name != gpt2_tokens) return shape;
  if (vocabulary < 1 || vocabulary > shape[0]) {
    throw OptionError("reef::nn: the vocabulary is ", vocabulary, ", but wte has ", shape[0],
                      " rows.\n  fix: 1 to ", shape[0], ", as in the model's GptConfig.");
  }
  return {vocabulary, shape[1]};
}

/// Returns true if a tensor has the shape of gpt2_shape; the token table wte may have further rows, which pad the
/// vocabulary: files pad it up to a multiple of at most 1024, and reserve rows for some further tokens.
inline bool fits_gpt2(const io::StoredTensor& stored, const graph::Parameter& parameter,
                      const Shape& shape) {
  std::array<std::int64_t, Shape::max_rank> extents{};
  const auto wanted = io::detail::extents_of(shape, extents);
  if (parameter.name != gpt2_tokens || stored.shape.size() != 2)
    return std::ranges::equal(stored.shape, wanted);
  const std::int64_t padding = stored.shape[0] - wanted[0];
  return stored.shape[1] == wanted[1] && padding >= 0 &&
         padding <= std::max<std::int64_t>(1024, wanted[0] / 8);
}

}  // namespace detail

/// A GPT-2 in safetensors files with Hugging Face's names, open for reading.
///
/// | place  | a file, an index of several, or a folder, as for SafetensorsFiles                        |
/// | names  | those of GPT2LMHeadModel ("transformer.wte.weight") or of GPT2Model ("wte.weight", as in |
/// |        | the hub's "gpt2"), also where a compiled or wrapped model has written them               |
/// |        | ("_orig_mod.transformer.wte.weight"); projections are (in, out) in all                   |
/// | wte    | may have more rows than the vocabulary, which pad it: up to 1024 or an eighth            |
/// | head   | lm_head.weight may exist and then equals wte, byte by byte: the model's head is tied; a  |
/// |        | file may have lm_head.weight alone, for both                                             |
/// | class  | score.weight, of a model with a class head; such a file needs no lm_head.weight          |
/// | masks  | h.N.attn.bias and h.N.attn.masked_bias are ignored                                       |
/// | dtypes | F32, F16, BF16 or F64, converted as read_reals does                                      |
/// | errors | FileError and DecodeError as SafetensorsFiles; DecodeError, with file and tensor, for a  |
/// |        | tensor that is missing, unknown, duplicate, of another shape, not of real numbers, or    |
/// |        | with a NaN or infinity, and for an untied head                                           |
///
/// No tensor tells the number of heads: a file can be read with any number that divides the channels.
///
/// Source: huggingface/transformers, models/gpt2/modeling_gpt2.py.
///
/// \code
/// const nn::Gpt2File file("gpt2");  // a folder of Hugging Face
/// const nn::GptConfig config = file.config();
/// const auto model = nn::gpt<device::Host, float>(config);
/// std::map<std::string, std::vector<float>> weights;
/// file.read<float>(model.dag(), config.vocabulary,
///                  [&](const auto& name, const auto& values) { weights[name] = values; });
/// \endcode
class Gpt2File {
public:
  explicit Gpt2File(const std::filesystem::path& path) : tensors_(path, "GPT-2") {
    const std::string_view tokens = without_prefix(detail::gpt2_tokens);
    const io::TensorInFile* const head = tensors_.find(detail::gpt2_head);
    if (head != nullptr) tensors_.alias(tokens, *head);  // the file may have kept the head alone
    if (tensors_.find(tokens) == nullptr) {
      tensors_.refuse(concat("it has no tensor 'wte.weight' or 'transformer.wte.weight'",
                             path.filename().string().find("-of-") == std::string::npos
                                 ? ""
                                 : ", and is one file of several"),
                      "name a GPT-2, of several files their index or folder");
    }
  }

  /// Returns the path of the GPT-2 file or the index that was found.
  [[nodiscard]] const std::filesystem::path& path() const& { return tensors_.path(); }
  [[nodiscard]] std::filesystem::path path() const&& { return tensors_.path(); }

  /// Returns the configuration of the GPT-2: layers, channels, vocabulary (with the rows that pad it) and context from
  /// the shapes of tensors; C / 64 heads, as all of OpenAI's models have; biases if the first projection has one.
  [[nodiscard]] GptConfig config() const {
    GptConfig config;
    const StoredShape tokens = matrix(detail::gpt2_tokens);
    config.vocabulary = tokens[0];
    config.channels = tokens[1];
    config.context = matrix("transformer.wpe.weight")[0];
    config.heads = config.channels % 64 == 0 ? config.channels / 64 : 1;
    config.bias = has_biases();
    config.layers = layers();
    return config;
  }

  /// Calls set(name, values) for each parameter of a gpt(). All errors of the file are
  /// found before the first call: the file is read twice. Holds one parameter in memory at a time.
  ///
  /// Rows that pad the model's wte are set to zeros. Their logits are zeros too, and the loss includes them: OpenAI's
  /// models, whose logits are far below zero, must be read without padding. Of parameters that are not `wanted` (empty:
  /// all are) no element is read.
  template <real T, class Set>
  void read(const graph::Dag& model, std::int64_t vocabulary, Set&& set,
            const detail::WantedParameters& wanted = {}) const {
    check_model(model, vocabulary);
    tensors_.read<T>(
        model, [this](std::string_view name) { return find(name); },
        [&](const graph::Parameter& parameter) { return detail::gpt2_shape(parameter, vocabulary).size(); },
        std::forward<Set>(set), wanted);
  }

  /// Throws DecodeError unless the layers, the channels, the vocabulary and the context of the file are those of a
  /// configuration: no graph is built for a config.json of another model.
  void require_sizes(const GptConfig& wanted) const {
    const GptConfig found = config();
    const auto require_size = [&](const char* field, std::int64_t has, std::int64_t is) {
      if (has == is) return;
      tensors_.refuse(concat("its tensors are of ", field, " ", has, ", and its configuration of ", is),
                      "give all files of the model, and its own config.json");
    };
    require_size("n_layer", found.layers, wanted.layers);
    require_size("n_embd", found.channels, wanted.channels);
    require_size("n_positions", found.context, wanted.context);
    // A file may have more rows than tokens: its padding.
    if (found.vocabulary < wanted.vocabulary) require_size("vocab_size", found.vocabulary, wanted.vocabulary);
  }

private:
  using StoredShape = std::vector<std::int64_t>;

  static std::string_view without_prefix(std::string_view name) {
    return name.substr(detail::gpt2_prefix.size());
  }
  /// Returns the file's tensor of a parameter, or null if the file has none.
  [[nodiscard]] const io::TensorInFile* find(std::string_view parameter) const {
    if (is_of_class_head(parameter)) return tensors_.find(parameter);
    if (!parameter.starts_with(detail::gpt2_prefix)) return nullptr;
    return tensors_.find(without_prefix(parameter));
  }
  [[nodiscard]] std::int64_t layers() const {
    std::int64_t count = 0;
    while (find(concat("transformer.h.", count, ".ln_1.weight")) != nullptr) ++count;
    return count;
  }
  [[nodiscard]] bool has_biases() const { return find("transformer.h.0.attn.c_attn.bias") != nullptr; }
  [[nodiscard]] const StoredShape& matrix(std::string_view parameter) const {
    const io::TensorInFile* const stored = find(parameter);
    if (stored == nullptr || stored->tensor->shape.size() != 2) {
      tensors_.refuse(concat("'", without_prefix(parameter), "' is no matrix in it"), "name a GPT-2");
    }
    return stored->tensor->shape;
  }

  /// Returns the fix in the error text for a model that has other parameters than the file.
  [[nodiscard]] std::string fix_of_layers() const {
    const std::int64_t count = layers();
    return concat("give the model the file's layers and biases: it has ", count,
                  count == 1 ? " layer, with" : " layers, with", has_biases() ? "" : "out", " biases");
  }

  void check_model(const graph::Dag& model, std::int64_t vocabulary) const {
    std::set<const io::StoredTensor*> parameters;
    for (const graph::Parameter& parameter : model.parameters) {
      const io::TensorInFile* const found = find(parameter.name);
      if (found == nullptr) {
        tensors_.refuse(concat("it has no tensor for the model's '", parameter.name, "'"),
                        is_of_class_head(parameter.name) ? detail::fix_of_class_head : fix_of_layers());
      }
      const Shape wanted = detail::gpt2_shape(parameter, vocabulary);
      const bool classifies = is_of_class_head(parameter.name);
      tensors_.require_real(*found);
      tensors_.require_shape(*found, detail::fits_gpt2(*found->tensor, parameter, wanted), parameter, wanted,
                             classifies ? "transpose it: a class head is (classes, C)"
                                        : "transpose it: a GPT-2's projections are (in, out)",
                             classifies ? detail::fix_of_class_shape
                                        : "give the model the file's channels, vocabulary and context");
      parameters.insert(found->tensor);
    }
    for (const auto& [name, found] : tensors_.all()) {
      if (name == detail::gpt2_head) {
        check_head(found);
      } else if (!parameters.contains(found.tensor) && !detail::is_gpt2_mask(name)) {
        tensors_.refuse(found.file->path(),
                        concat("the model has no parameter for its tensor '", found.tensor->name, "'"),
                        fix_of_layers());
      }
    }
  }

  /// Throws DecodeError unless the output head equals the token table wte: a gpt() has a tied head.
  void check_head(const io::TensorInFile& head) const {
    if (detail::NamedTensors::are_same(head, *find(detail::gpt2_tokens))) return;
    tensors_.refuse(head.file->path(),
                    "lm_head.weight is not wte.weight, but a gpt() has one tensor for both",
                    "name a file with a tied head");
  }

  detail::NamedTensors tensors_;
};

/// Writes the parameters of a gpt() to a safetensors file that GPT2LMHeadModel reads.
///
/// values(name) returns a parameter's elements. wte is written without its padding; the head is not
/// written, since it is tied. A model without biases gives a file without them: Hugging Face then uses
/// zeros, with the same results.
///
/// | memory | all parameters once                                                     |
/// | errors | OptionError if values(name) gives another number of elements; FileError |
/// |        | as AtomicFile: an older file of that name is unchanged                  |
template <real T, class Values>
void write_gpt2(const std::filesystem::path& path, const graph::Dag& model, std::int64_t vocabulary,
                Values&& values) {
  detail::write_tensors<T>(
      path, model, "reef::nn::write_gpt2",
      [&](const graph::Parameter& parameter) { return detail::gpt2_shape(parameter, vocabulary); },
      std::forward<Values>(values));
}

}  // namespace nn
}  // namespace v0
}  // namespace reef
