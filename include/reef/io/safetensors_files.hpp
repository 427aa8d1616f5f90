#pragma once

#include <filesystem>
#include <list>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <reef/core/error.hpp>
#include <reef/io/safetensors_file.hpp>

namespace reef {
inline namespace v0 {
namespace io {

/// A tensor of a model, and the safetensors file that holds it.
struct TensorInFile {
  const SafetensorsFile* file = nullptr;
  const StoredTensor* tensor = nullptr;
};

/// The tensors of a model in Hugging Face's layout: in one safetensors file, or in several with an index.
///
/// | place  | a file; an index, a .json whose weight_map maps each tensor to a file of the index's      |
/// |        | folder; or a folder with model.safetensors, or else model.safetensors.index.json          |
/// | errors | FileError and DecodeError as SafetensorsFile, also for a missing file; DecodeError for a  |
/// |        | damaged index, or if it names a file in another folder, a tensor that is missing from its |
/// |        | file or is in another file too, or if a file has a tensor that the index does not name    |
///
/// Source: huggingface/transformers, utils/hub.py (get_checkpoint_shard_files).
///
/// \code
/// const io::SafetensorsFiles model("gpt2");  // a folder
/// for (const io::TensorInFile& found : model.tensors()) {
///   std::vector<std::byte> bytes(found.tensor->bytes());
///   found.file->read(*found.tensor, bytes);
/// }
/// \endcode
class SafetensorsFiles {
public:
  static constexpr std::string_view whole_name = "model.safetensors";
  static constexpr std::string_view index_name = "model.safetensors.index.json";

  explicit SafetensorsFiles(std::filesystem::path place);
  SafetensorsFiles(SafetensorsFiles&&) = default;  // the file objects keep their addresses
  SafetensorsFiles& operator=(SafetensorsFiles&&) = default;

  /// Returns the paths of a model's safetensors files: the one file, or the index and the files that it names. Reads
  /// only the index, and throws as the constructor does for an error in it.
  [[nodiscard]] static std::vector<std::filesystem::path> paths(const std::filesystem::path& place);

  /// Returns the path of the safetensors file or the index that was found.
  [[nodiscard]] const std::filesystem::path& path() const& { return path_; }
  [[nodiscard]] std::filesystem::path path() const&& { return path_; }
  /// Returns the tensors of all files, file by file, in the order of their data.
  [[nodiscard]] std::span<const TensorInFile> tensors() const& { return tensors_; }
  void tensors() const&& = delete;

private:
  /// A map from file name to tensor name to whether the tensor was found in the file (true: found).
  using Index = std::map<std::string, std::map<std::string, bool>>;

  [[noreturn]] static void refuse(const std::filesystem::path& path, const std::string& why);

  static std::filesystem::path model_at(const std::filesystem::path& folder);

  void add(const std::filesystem::path& file);

  static Index read_index(const std::filesystem::path& path);

  void open_index();

  std::filesystem::path path_;
  std::list<SafetensorsFile> files_;
  std::vector<TensorInFile> tensors_;
};

}  // namespace io
}  // namespace v0
}  // namespace reef

#ifndef REEF_COMPILED
#include <reef/io/safetensors_files.ipp>
#endif
