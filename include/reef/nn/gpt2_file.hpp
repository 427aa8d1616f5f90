#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <ranges>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <reef/core/element.hpp>
#include <reef/core/error.hpp>
#include <reef/core/finite.hpp>
#include <reef/core/shape.hpp>
#include <reef/core/text.hpp>
#include <reef/graph/dag.hpp>
#include <reef/io/read_reals.hpp>
#include <reef/io/safetensors.hpp>
#include <reef/io/safetensors_files.hpp>
#include <reef/nn/gpt.hpp>

namespace reef {
inline namespace v0 {
namespace nn {

namespace detail {

inline constexpr std::string_view gpt2_prefix = "transformer.";
inline constexpr std::string_view gpt2_tokens = "transformer.wte.weight";
inline constexpr std::string_view gpt2_head = "lm_head.weight";

/// "h.0.ln_1.weight" of "module._orig_mod.transformer.h.0.ln_1.weight": a name without the parts that
/// Hugging Face's models, torch.compile, DistributedDataParallel, FSDP, activation checkpoints and
/// trainers set into it.
inline std::string gpt2_bare_name(std::string_view name) {
  constexpr std::array<std::string_view, 7> wrappers{"transformer",
                                                     "_orig_mod",
                                                     "module",
                                                     "model",
                                                     "base_model",
                                                     "_fsdp_wrapped_module",
                                                     "_checkpoint_wrapped_module"};
  std::string bare;
  for (bool more = true; more;) {
    const std::size_t dot = name.find('.');
    more = dot != std::string_view::npos;
    const std::string_view part = name.substr(0, dot);
    if (more) name.remove_prefix(dot + 1);
    if (more && std::ranges::find(wrappers, part) != wrappers.end()) continue;
    bare += concat(part, more ? "." : "");
  }
  return bare;
}

/// "h.3.attn.bias" and "h.3.attn.masked_bias": the causal mask, which older files hold.
inline bool is_gpt2_mask(std::string_view name) {
  if (!name.starts_with("h.")) return false;
  const std::size_t digits = name.find_first_not_of("0123456789", 2);
  if (digits == 2 || digits == std::string_view::npos) return false;
  const std::string_view rest = name.substr(digits);
  return rest == ".attn.bias" || rest == ".attn.masked_bias";
}

/// The shape that a parameter has in a file: wte without the rows that only pad the vocabulary.
inline Shape gpt2_shape(const graph::Parameter& parameter, std::int64_t vocabulary) {
  const Shape& shape = parameter.spec.shape;
  if (parameter.name != gpt2_tokens) return shape;
  if (vocabulary < 1 || vocabulary > shape[0]) {
    throw OptionError("reef::nn: the vocabulary is ", vocabulary, ", but wte has ", shape[0],
                      " rows.\n  fix: 1 to ", shape[0], ", as in the model's GptConfig.");
  }
  return {vocabulary, shape[1]};
}

/// Whether a tensor is what gpt2_shape says; of wte it may have further rows, which pad the vocabulary:
/// in files they are up to a multiple of as much as 1024, and for some tokens to come.
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
/// | place  | a file, an index of several, or a folder, as SafetensorsFiles                               |
/// | names  | those of GPT2LMHeadModel ("transformer.wte.weight") or of GPT2Model ("wte.weight", as in   |
/// |        | the hub's "gpt2"), also where a compiled or wrapped model has written them                  |
/// |        | ("_orig_mod.transformer.wte.weight"); projections are (in, out) in all                      |
/// | wte    | may have more rows than the vocabulary, which pad it: up to 1024 or an eighth               |
/// | head   | lm_head.weight may be there and is then wte, byte by byte: the model's head is tied; it may |
/// |        | stand for both                                                                              |
/// | masks  | h.N.attn.bias and h.N.attn.masked_bias are passed over                                      |
/// | dtypes | F32, F16, BF16 or F64, converted as read_reals does                                         |
/// | errors | FileError and DecodeError as SafetensorsFiles; DecodeError, with file and tensor, for one   |
/// |        | that is missing, unknown, there twice, of another shape, no real numbers, or NaN or         |
/// |        | infinite somewhere, and for an untied head                                                  |
///
/// The number of heads is in no tensor: a file is read with any that divides the channels.
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
  explicit Gpt2File(const std::filesystem::path& path) : files_(path) {
    for (const io::TensorInFile& found : files_.tensors()) {
      const auto [other, is_new] =
          by_name_.emplace(detail::gpt2_bare_name(found.tensor->name), found);
      if (is_new) continue;
      refuse(concat("'", found.tensor->name, "' and '", other->second.tensor->name,
                    "' are both a model's '", other->first, "'"),
             "a file of one model");
    }
    const auto head = by_name_.find(detail::gpt2_head);
    const std::string_view tokens = without_prefix(detail::gpt2_tokens);
    if (head != by_name_.end()) by_name_.emplace(tokens, head->second);  // where only that was kept
    if (!by_name_.contains(tokens)) {
      refuse(concat("it has no tensor 'wte.weight' or 'transformer.wte.weight'",
                    path.filename().string().find("-of-") == std::string::npos
                        ? ""
                        : ", and is one file of several"),
             "name a GPT-2, of several files their index or folder");
    }
  }

  /// The file or the index that was found.
  [[nodiscard]] const std::filesystem::path& path() const& { return files_.path(); }
  [[nodiscard]] std::filesystem::path path() const&& { return files_.path(); }

  /// Layers, channels, vocabulary (with the rows that pad it) and context, as the shapes say; C / 64 heads, as all of OpenAI's
  /// have; biases where the first projection has one.
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

  /// Calls set(name, values) for each parameter of a gpt(). All that can be wrong with the file is
  /// found before the first call: it is read twice. Holds one parameter at a time.
  ///
  /// Rows that pad the model's wte are zeros. Their logits are too, and the loss counts them: OpenAI's
  /// models, whose logits lie far below zero, are to be read without padding.
  template <real T, class Set>
  void read(const graph::Dag& model, std::int64_t vocabulary, Set&& set) const {
    check_model(model, vocabulary);
    for (const graph::Parameter& parameter : model.parameters)
      require_finite<T>(*find(parameter.name), values_of<T>(parameter, vocabulary));
    for (const graph::Parameter& parameter : model.parameters) {
      const std::vector<T> values = values_of<T>(parameter, vocabulary);
      set(parameter.name, values);
    }
  }

private:
  using StoredShape = std::vector<std::int64_t>;

  [[noreturn]] void refuse(const std::string& why, const std::string& fix) const {
    refuse(files_.path(), why, fix);
  }
  [[noreturn]] static void refuse(const std::filesystem::path& path, const std::string& why,
                                  const std::string& fix) {
    throw DecodeError("reef::nn: cannot read '", path.string(), "' as GPT-2: ", why,
                      ".\n  fix: ", fix, ".");
  }

  static std::string_view without_prefix(std::string_view name) {
    return name.substr(detail::gpt2_prefix.size());
  }
  /// The tensor of a parameter, or null.
  [[nodiscard]] const io::TensorInFile* find(std::string_view parameter) const {
    if (!parameter.starts_with(detail::gpt2_prefix)) return nullptr;
    const auto found = by_name_.find(without_prefix(parameter));
    return found == by_name_.end() ? nullptr : &found->second;
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
      refuse(concat("'", without_prefix(parameter), "' is no matrix in it"), "name a GPT-2");
    }
    return stored->tensor->shape;
  }

  template <real T>
  [[nodiscard]] std::vector<T> values_of(const graph::Parameter& parameter,
                                         std::int64_t vocabulary) const {
    const Shape stored = detail::gpt2_shape(parameter, vocabulary);
    std::vector<T> values(static_cast<std::size_t>(parameter.spec.shape.size()), T(0));
    const io::TensorInFile& found = *find(parameter.name);
    io::read_first_reals(*found.file, *found.tensor,
                         std::span(values).first(static_cast<std::size_t>(stored.size())));
    return values;
  }

  template <real T>
  static void require_finite(const io::TensorInFile& found, const std::vector<T>& values) {
    const auto bad = std::ranges::find_if_not(values, [](T value) { return is_finite(value); });
    if (bad == values.end()) return;
    refuse(
        found.file->path(),
        concat("element ", bad - values.begin(), " of tensor '", found.tensor->name, "', which is ",
               found.tensor->dtype, " ", io::detail::shape_text(found.tensor->shape),
               ", is NaN or infinite as ", name_of(element_of<T>)),
        "a file of weights from before they were lost");
  }

  /// Of a model that has other parameters than the file.
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
        refuse(concat("it has no tensor for the model's '", parameter.name, "'"),
               fix_of_layers());
      }
      const io::StoredTensor& stored = *found->tensor;
      const Shape wanted = detail::gpt2_shape(parameter, vocabulary);
      std::array<std::int64_t, Shape::max_rank> extents{};
      if (!io::is_real_dtype(stored.dtype)) {
        refuse(found->file->path(),
               concat("tensor '", stored.name, "' is ", stored.dtype, " ",
                      io::detail::shape_text(stored.shape), ", a dtype that is not read"),
               "write it again as F32, F16, BF16 or F64");
      }
      if (!detail::fits_gpt2(stored, parameter, wanted)) {
        const std::span<const std::int64_t> expected = io::detail::extents_of(wanted, extents);
        refuse(found->file->path(),
               concat("tensor '", stored.name, "' is ", stored.dtype, " ",
                      io::detail::shape_text(stored.shape), ", the model's is ",
                      name_of(parameter.spec.element), " ", wanted.text()),
               std::equal(stored.shape.rbegin(), stored.shape.rend(), expected.begin(), expected.end())
                   ? "transpose it: a GPT-2's projections are (in, out)"
                   : "give the model the file's channels, vocabulary and context");
      }
      parameters.insert(&stored);
    }
    for (const auto& [name, found] : by_name_) {
      if (name == detail::gpt2_head) {
        check_head(found);
      } else if (!parameters.contains(found.tensor) && !detail::is_gpt2_mask(name)) {
        refuse(found.file->path(),
               concat("the model has no parameter for its tensor '", found.tensor->name, "'"),
               fix_of_layers());
      }
    }
  }

  /// The head is wte, or the model cannot be a gpt().
  void check_head(const io::TensorInFile& head) const {
    const io::TensorInFile& tokens = *find(detail::gpt2_tokens);
    if (head.tensor == tokens.tensor) return;
    const auto differ = [&]() {
      refuse(head.file->path(),
             "lm_head.weight is not wte.weight, but a gpt() has one tensor for both",
             "name a file with a tied head");
    };
    if (head.tensor->dtype != tokens.tensor->dtype || head.tensor->shape != tokens.tensor->shape)
      differ();
    const Bytes size = head.tensor->bytes();
    std::vector<std::byte> a(std::min<std::size_t>(size, std::size_t{1} << 20));
    std::vector<std::byte> b(a.size());
    for (Bytes done = 0; done < size; done += a.size()) {
      a.resize(std::min<std::size_t>(a.size(), size - done));
      b.resize(a.size());
      head.file->read(*head.tensor, done, a);
      tokens.file->read(*tokens.tensor, done, b);
      if (a != b) differ();
    }
  }

  io::SafetensorsFiles files_;
  std::map<std::string, io::TensorInFile, std::less<>> by_name_;  // without what wraps it
};

/// Writes the parameters of a gpt() to a safetensors file that GPT2LMHeadModel reads.
///
/// values(name) gives a parameter's elements. wte is written without its padding, the head not at
/// all, since it is tied. A model without biases lacks them in the file too: Hugging Face then takes
/// zeros, which come to the same.
///
/// | memory | all parameters once                                                     |
/// | errors | OptionError where values gives another number of elements; FileError    |
/// |        | as AtomicFile: an older file of that name is unchanged                  |
template <real T, class Values>
void write_gpt2(const std::filesystem::path& path, const graph::Dag& model, std::int64_t vocabulary,
                Values&& values) {
  std::vector<std::vector<T>> kept;  // moving a vector leaves its elements where they are
  std::vector<io::NamedView> tensors;
  for (const graph::Parameter& parameter : model.parameters) {
    kept.push_back(values(parameter.name));
    const auto elements = static_cast<std::size_t>(parameter.spec.shape.size());
    if (kept.back().size() != elements) {
      throw OptionError("reef::nn::write_gpt2: ", kept.back().size(), " elements for '",
                        parameter.name, "'.\n  fix: values(name) gives all ", elements, ".");
    }
    tensors.push_back(
        {parameter.name,
         {kept.back().data(), detail::gpt2_shape(parameter, vocabulary), element_of<T>}});
  }
  io::write_safetensors(path, tensors, {{"format", "pt"}});
}

}  // namespace nn
}  // namespace v0
}  // namespace reef
