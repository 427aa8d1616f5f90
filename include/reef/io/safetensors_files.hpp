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

/// A tensor, and the file that holds it.
struct TensorInFile {
  const SafetensorsFile* file = nullptr;
  const StoredTensor* tensor = nullptr;
};

/// The tensors of a model in Hugging Face's layout: of one safetensors file, or of several with an index.
///
/// | place  | a file; an index, .json, whose weight_map says which file of its folder has which tensor;   |
/// |        | or a folder with model.safetensors, else with model.safetensors.index.json                  |
/// | errors | FileError and DecodeError as SafetensorsFile, also for a file that is missing; DecodeError   |
/// |        | for an index that is none, names a file of another folder or a tensor that its file has     |
/// |        | not or another has too, and for a tensor that it does not name                              |
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
  SafetensorsFiles(SafetensorsFiles&&) = default;  // files stay where they are
  SafetensorsFiles& operator=(SafetensorsFiles&&) = default;

  /// Returns the files of a place: the one file, or the index and the files that it names. Reads the index
  /// alone, and throws as the constructor for an error in it.
  [[nodiscard]] static std::vector<std::filesystem::path> paths(const std::filesystem::path& place);

  /// The path of the file or the index that was found.
  [[nodiscard]] const std::filesystem::path& path() const& { return path_; }
  [[nodiscard]] std::filesystem::path path() const&& { return path_; }
  /// The tensors, file by file, in the order of their data.
  [[nodiscard]] std::span<const TensorInFile> tensors() const& { return tensors_; }
  void tensors() const&& = delete;

private:
  /// The names of the tensors of each file, and whether the file has them.
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
