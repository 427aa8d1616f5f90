#pragma once

#include <algorithm>
#include <array>
#include <charconv>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <limits>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

#include <reef/core/element.hpp>
#include <reef/core/error.hpp>
#include <reef/core/finite.hpp>
#include <reef/core/shape.hpp>
#include <reef/core/text.hpp>
#include <reef/core/units.hpp>
#include <reef/graph/dag.hpp>
#include <reef/io/read_reals.hpp>
#include <reef/io/safetensors.hpp>
#include <reef/io/safetensors_files.hpp>

namespace reef {
inline namespace v0 {
namespace nn::detail {

/// "h.0.ln_1.weight" of "module._orig_mod.transformer.h.0.ln_1.weight": a name without the parts that
/// Hugging Face's models, torch.compile, DistributedDataParallel, FSDP, activation checkpoints and
/// trainers set into it.
inline std::string bare_name(std::string_view name) {
  constexpr std::array<std::string_view, 8> wrappers{"transformer",
                                                     "gpt_neox",
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

/// Returns the layer that a bare name is of, 12 of "layers.12.mlp.up_proj.weight" or "h.12.mlp.c_fc.weight"; nothing
/// for a name that is of none.
inline std::optional<std::int64_t> layer_number(std::string_view bare) {
  std::int64_t layer = 0;
  for (const std::string_view prefix : {"layers.", "h."}) {
    if (!bare.starts_with(prefix)) continue;
    const char* const end = bare.data() + bare.size();
    const auto [stop, error] = std::from_chars(bare.data() + prefix.size(), end, layer);
    if (error == std::errc() && stop != end && *stop == '.') return layer;
  }
  return std::nullopt;
}

/// The fixes in errors for a file that has no class head, or one of another shape than the model's.
inline constexpr const char* fix_of_class_head =
    "a file of a model for sequence classification, or the config.json of a language model";
inline constexpr const char* fix_of_class_shape =
    "an id2label in config.json with as many classes as the file's head, (classes, C), has rows";

/// Returns whether a parameter of that name is to be read; empty: all are.
using WantedParameters = std::function<bool(std::string_view name)>;

/// The tensors of a model of Hugging Face, by their bare names; `kind` is what errors call such a model.
class NamedTensors {
public:
  NamedTensors(const std::filesystem::path& place, std::string_view kind)
      : files_(place), kind_(kind) {
    for (const io::TensorInFile& found : files_.tensors()) {
      const auto [other, is_new] = by_name_.emplace(bare_name(found.tensor->name), found);
      if (is_new) continue;
      refuse(concat("'", found.tensor->name, "' and '", other->second.tensor->name,
                    "' are both a model's '", other->first, "'"),
             "a file of one model");
    }
  }

  [[nodiscard]] const std::filesystem::path& path() const& { return files_.path(); }
  [[nodiscard]] std::filesystem::path path() const&& { return files_.path(); }
  [[nodiscard]] const std::map<std::string, io::TensorInFile, std::less<>>& all() const& {
    return by_name_;
  }
  void all() const&& = delete;

  /// The tensor of that bare name, or null.
  [[nodiscard]] const io::TensorInFile* find(std::string_view bare) const& {
    const auto found = by_name_.find(bare);
    return found == by_name_.end() ? nullptr : &found->second;
  }
  void find(std::string_view bare) const&& = delete;

  /// Lets a tensor stand for another too, unless that is there.
  void alias(std::string_view bare, const io::TensorInFile& found) {
    by_name_.emplace(bare, found);
  }

  [[noreturn]] void refuse(const std::string& why, const std::string& fix) const {
    refuse(files_.path(), why, fix);
  }
  [[noreturn]] void refuse(const std::filesystem::path& path, const std::string& why,
                           const std::string& fix) const {
    throw DecodeError("reef::nn: cannot read '", path.string(), "' as ", kind_, ": ", why,
                      ".\n  fix: ", fix, ".");
  }

  /// Refuses a dtype that is not read.
  void require_real(const io::TensorInFile& found) const {
    const io::StoredTensor& stored = *found.tensor;
    if (io::is_real_dtype(stored.dtype)) return;
    refuse(found.file->path(),
           concat("tensor '", stored.name, "' is ", stored.dtype, " ",
                  io::detail::shape_text(stored.shape), ", a dtype that is not read"),
           "write it again as F32, F16, BF16 or F64");
  }

  /// Refuses a tensor of another shape than the model's, unless it `fits`.
  void require_shape(const io::TensorInFile& found, bool fits, const graph::Parameter& parameter,
                     const Shape& wanted, const std::string& transposed,
                     const std::string& otherwise) const {
    if (fits) return;
    const io::StoredTensor& stored = *found.tensor;
    std::array<std::int64_t, Shape::max_rank> extents{};
    const std::span<const std::int64_t> expected = io::detail::extents_of(wanted, extents);
    refuse(found.file->path(),
           concat("tensor '", stored.name, "' is ", stored.dtype, " ",
                  io::detail::shape_text(stored.shape), ", the model's is ",
                  name_of(parameter.spec.element), " ", wanted.text()),
           std::equal(stored.shape.rbegin(), stored.shape.rend(), expected.begin(), expected.end())
               ? transposed
               : otherwise);
  }

  /// Whether two tensors have the same bytes.
  [[nodiscard]] static bool are_same(const io::TensorInFile& one, const io::TensorInFile& other) {
    if (one.tensor == other.tensor) return true;
    if (one.tensor->dtype != other.tensor->dtype || one.tensor->shape != other.tensor->shape)
      return false;
    const Bytes size = one.tensor->bytes();
    std::vector<std::byte> a(std::min<std::size_t>(size, std::size_t{1} << 20));
    std::vector<std::byte> b(a.size());
    for (Bytes done = 0; done < size; done += a.size()) {
      a.resize(std::min<std::size_t>(a.size(), size - done));
      b.resize(a.size());
      one.file->read(*one.tensor, done, a);
      other.file->read(*other.tensor, done, b);
      if (a != b) return false;
    }
    return true;
  }

  /// Calls set(name, values) for each parameter; found(parameter) is its tensor, elements(parameter) how many of it are
  /// read: what is left is zeros. Refuses what is not finite before the first call: reads twice, and holds one
  /// parameter. Of parameters that are not wanted no element is read.
  template <real T, class Found, class Elements, class Set>
  void read(const graph::Dag& model, const Found& found, const Elements& elements, Set&& set,
            const WantedParameters& wanted = {}) const {
    const auto is_wanted = [&](const graph::Parameter& parameter) {
      return !wanted || wanted(parameter.name);
    };
    const auto values_of = [&](const graph::Parameter& parameter) {
      std::vector<T> values(static_cast<std::size_t>(parameter.spec.shape.size()), T(0));
      const io::TensorInFile& stored = *found(parameter.name);
      io::read_first_reals(*stored.file, *stored.tensor,
                           std::span(values).first(static_cast<std::size_t>(elements(parameter))));
      return values;
    };
    for (const graph::Parameter& parameter : model.parameters) {
      if (is_wanted(parameter)) require_finite<T>(*found(parameter.name), values_of(parameter));
    }
    for (const graph::Parameter& parameter : model.parameters) {
      if (!is_wanted(parameter)) continue;
      const std::vector<T> values = values_of(parameter);
      set(parameter.name, values);
    }
  }

private:
  template <real T>
  void require_finite(const io::TensorInFile& found, const std::vector<T>& values) const {
    const auto bad = std::ranges::find_if_not(values, [](T value) { return is_finite(value); });
    if (bad == values.end()) return;
    refuse(
        found.file->path(),
        concat("element ", bad - values.begin(), " of tensor '", found.tensor->name, "', which is ",
               found.tensor->dtype, " ", io::detail::shape_text(found.tensor->shape),
               ", is NaN or infinite as ", name_of(element_of<T>)),
        "a file of weights from before they were lost");
  }

  io::SafetensorsFiles files_;
  std::string_view kind_;
  std::map<std::string, io::TensorInFile, std::less<>> by_name_;
};

/// Returns one more than the largest layer that a tensor is of; 0 where there is none.
inline std::int64_t layers_of(const NamedTensors& tensors) {
  std::int64_t count = 0;
  for (const auto& [name, found] : tensors.all()) {
    if (const auto layer = layer_number(name); layer && *layer < (std::numeric_limits<std::int64_t>::max)())
      count = (std::max)(count, *layer + 1);
  }
  return count;
}

/// Writes parameters to a safetensors file of Hugging Face's: values(name) gives a parameter's elements,
/// shape(parameter) what of them is written. `whose` names the function in errors.
template <real T, class ShapeOf, class Values>
void write_tensors(const std::filesystem::path& path, const graph::Dag& model, const char* whose,
                   const ShapeOf& shape, Values&& values) {
  std::vector<std::vector<T>> kept;  // moving a vector leaves its elements where they are
  std::vector<io::NamedView> tensors;
  for (const graph::Parameter& parameter : model.parameters) {
    kept.push_back(values(parameter.name));
    const auto elements = static_cast<std::size_t>(parameter.spec.shape.size());
    if (kept.back().size() != elements) {
      throw OptionError(whose, ": ", kept.back().size(), " elements for '", parameter.name,
                        "'.\n  fix: values(name) gives all ", elements, ".");
    }
    tensors.push_back({parameter.name, {kept.back().data(), shape(parameter), element_of<T>}});
  }
  io::write_safetensors(path, tensors, {{"format", "pt"}});
}

}  // namespace nn::detail
}  // namespace v0
}  // namespace reef
