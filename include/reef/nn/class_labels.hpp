#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace reef {
inline namespace v0 {
namespace nn {

/// The classes of a model for sequence classification of Hugging Face, as its config.json has them.
struct ClassLabels {
  std::vector<std::string> names;         ///< the name of each class, by its number
  std::optional<std::int64_t> pad_token;  ///< the token that fills texts of a batch up to one length, if there is one

  /// Returns labels with the names that Hugging Face gives to classes which nobody named: LABEL_0, LABEL_1, ... Throws
  /// OptionError for a number of classes that no ClassHead has.
  static ClassLabels numbered(std::int64_t classes);

  [[nodiscard]] std::int64_t classes() const { return static_cast<std::int64_t>(names.size()); }

  /// Returns the number of tokens of a text up to its last one that is not pad_token: behind that its class is read.
  /// Of a text of pad_token alone it is 1, as in Hugging Face.
  [[nodiscard]] std::size_t length_of(std::span<const std::int32_t> text) const;

  friend bool operator==(const ClassLabels&, const ClassLabels&) = default;
};

/// Reads the classes of a model of Hugging Face from its config.json; nothing for a language model.
///
/// | classifiers | `architectures` has a class that ends with ForSequenceClassification                             |
/// | reads       | id2label, from the number of a class to its name; num_labels; pad_token_id                       |
/// | default     | where neither id2label nor num_labels is there, 2 classes: Hugging Face leaves these out         |
/// | errors      | FileError; DecodeError, with the file and the field, for an id2label whose numbers are not 0 to  |
/// |             | N - 1, or which num_labels or label2id contradicts; for a problem_type other than                |
/// |             | single_label_classification, and for one class without it, which Hugging Face takes for a number |
/// |             | to be predicted                                                                                  |
///
/// Source: huggingface/transformers, configuration_utils.py, and LlamaForSequenceClassification and similar classes.
///
/// \code
/// const auto labels = nn::read_class_labels("model/config.json");
/// if (labels) std::printf("%d classes\n", static_cast<int>(labels->classes()));
/// \endcode
std::optional<ClassLabels> read_class_labels(const std::filesystem::path& config);

}  // namespace nn
}  // namespace v0
}  // namespace reef

#ifndef REEF_COMPILED
#include <reef/nn/class_labels.ipp>
#endif
