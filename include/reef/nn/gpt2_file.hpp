#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <reef/core/element.hpp>
#include <reef/core/error.hpp>
#include <reef/core/shape.hpp>
#include <reef/core/text.hpp>
#include <reef/graph/dag.hpp>
#include <reef/io/read_reals.hpp>
#include <reef/io/safetensors.hpp>
#include <reef/nn/gpt.hpp>

namespace reef::inline v0::nn {

namespace detail {

inline constexpr std::string_view gpt2_prefix = "transformer.";
inline constexpr std::string_view gpt2_tokens = "transformer.wte.weight";
inline constexpr std::string_view gpt2_head = "lm_head.weight";

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

inline bool has_shape(const io::StoredTensor& stored, const Shape& shape) {
  std::array<std::int64_t, Shape::max_rank> extents{};
  return std::ranges::equal(stored.shape, io::detail::extents_of(shape, extents));
}

}  // namespace detail

/// A GPT-2 in a safetensors file with Hugging Face's names, open for reading.
///
/// | names  | those of GPT2LMHeadModel ("transformer.wte.weight") or of GPT2Model ("wte.weight", as in   |
/// |        | the hub's "gpt2"); projections are (in, out) in both, as in a gpt()                        |
/// | head   | lm_head.weight may be there and is then wte, byte by byte: the model's head is tied         |
/// | masks  | h.N.attn.bias and h.N.attn.masked_bias are passed over                                      |
/// | dtypes | F32, F16, BF16 or F64, converted as read_reals does                                         |
/// | errors | FileError and DecodeError as SafetensorsFile; DecodeError, with the tensor, for one that    |
/// |        | is missing, unknown, of another shape or no real numbers, and for an untied head            |
///
/// The number of heads is in no tensor: a file is read with any that divides the channels.
///
/// Source: huggingface/transformers, models/gpt2/modeling_gpt2.py.
class Gpt2File {
public:
  explicit Gpt2File(const std::filesystem::path& path) : file_(path) {
    if (file_.find(detail::gpt2_tokens) != nullptr) {
      prefix_ = detail::gpt2_prefix;
    } else if (file_.find(without_prefix(detail::gpt2_tokens)) == nullptr) {
      refuse("it has no tensor 'wte.weight' or 'transformer.wte.weight'", "name a GPT-2");
    }
  }

  /// Layers, channels, vocabulary and context, as the shapes say; C / 64 heads, as all of OpenAI's
  /// have; biases where the first projection has one.
  [[nodiscard]] GptConfig config() const {
    GptConfig config;
    const StoredShape tokens = matrix(detail::gpt2_tokens);
    config.vocabulary = tokens[0];
    config.channels = tokens[1];
    config.context = matrix("transformer.wpe.weight")[0];
    config.heads = config.channels % 64 == 0 ? config.channels / 64 : 1;
    config.bias = find("transformer.h.0.attn.c_attn.bias") != nullptr;
    config.layers = 0;
    while (find(concat("transformer.h.", config.layers, ".ln_1.weight")) != nullptr) {
      ++config.layers;
    }
    return config;
  }

  /// Calls set(name, values) for each parameter of a gpt(). All that can be wrong with the file is
  /// found before the first call. Holds one parameter at a time.
  ///
  /// Rows that pad wte are zeros. Their logits are too, and the loss counts them: OpenAI's models, whose
  /// logits lie far below zero, are to be read without padding.
  template <real T, class Set>
  void read(const graph::Dag& model, std::int64_t vocabulary, Set&& set) const {
    check(model, vocabulary);
    for (const graph::Parameter& parameter : model.parameters) {
      const Shape stored = detail::gpt2_shape(parameter, vocabulary);
      std::vector<T> values(static_cast<std::size_t>(parameter.spec.shape.size()), T(0));
      io::read_reals(file_, *find(parameter.name),
                     std::span(values).first(static_cast<std::size_t>(stored.size())));
      set(parameter.name, std::as_const(values));
    }
  }

private:
  using StoredShape = std::vector<std::int64_t>;

  [[noreturn]] void refuse(const std::string& why, const std::string& fix) const {
    throw DecodeError("reef::nn: cannot read '", file_.path().string(), "' as GPT-2: ", why,
                      ".\n  fix: ", fix, ".");
  }

  static std::string_view without_prefix(std::string_view name) {
    return name.substr(detail::gpt2_prefix.size());
  }
  /// The tensor of a parameter, or null.
  [[nodiscard]] const io::StoredTensor* find(std::string_view parameter) const {
    if (!parameter.starts_with(detail::gpt2_prefix)) return nullptr;
    return file_.find(concat(prefix_, without_prefix(parameter)));
  }
  [[nodiscard]] const StoredShape& matrix(std::string_view parameter) const {
    const io::StoredTensor* const stored = find(parameter);
    if (stored == nullptr || stored->shape.size() != 2) {
      refuse(concat("'", without_prefix(parameter), "' is no matrix in it"), "name a GPT-2");
    }
    return stored->shape;
  }
  [[nodiscard]] bool is_mask(std::string_view name) const {
    return name.starts_with(prefix_) && detail::is_gpt2_mask(name.substr(prefix_.size()));
  }

  void check(const graph::Dag& model, std::int64_t vocabulary) const {
    std::set<const io::StoredTensor*> parameters;
    for (const graph::Parameter& parameter : model.parameters) {
      const io::StoredTensor* const stored = find(parameter.name);
      if (stored == nullptr) {
        refuse(concat("it has no tensor for the model's '", parameter.name, "'"),
               "give the model the file's layers and biases");
      }
      const Shape wanted = detail::gpt2_shape(parameter, vocabulary);
      if (!io::is_real_dtype(stored->dtype) || !detail::has_shape(*stored, wanted)) {
        refuse(concat("tensor '", stored->name, "' is ", stored->dtype, " ",
                      io::detail::shape_text(stored->shape), ", the model's is ",
                      name_of(parameter.spec.element), " ", wanted.text()),
               "give the model the file's channels, vocabulary and context");
      }
      parameters.insert(stored);
    }
    for (const io::StoredTensor& stored : file_.tensors()) {
      if (stored.name == detail::gpt2_head) {
        check_head(stored);
      } else if (!parameters.contains(&stored) && !is_mask(stored.name)) {
        refuse(concat("the model has no parameter for its tensor '", stored.name, "'"),
               "give the model the file's layers and biases");
      }
    }
  }

  /// The head is wte, or the model cannot be a gpt().
  void check_head(const io::StoredTensor& head) const {
    const io::StoredTensor& tokens = *find(detail::gpt2_tokens);
    const auto differ = [&]() {
      refuse("lm_head.weight is not wte.weight, but a gpt() has one tensor for both",
             "name a file with a tied head");
    };
    if (head.dtype != tokens.dtype || head.shape != tokens.shape) differ();
    std::vector<std::byte> a(std::min<std::size_t>(head.bytes(), std::size_t{1} << 20));
    std::vector<std::byte> b(a.size());
    for (Bytes done = 0; done < head.bytes(); done += a.size()) {
      a.resize(std::min<std::size_t>(a.size(), head.bytes() - done));
      b.resize(a.size());
      file_.read(head, done, a);
      file_.read(tokens, done, b);
      if (a != b) differ();
    }
  }

  io::SafetensorsFile file_;
  std::string_view prefix_;
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

}  // namespace reef::inline v0::nn
