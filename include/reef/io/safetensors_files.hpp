#pragma once

#include <cstddef>
#include <filesystem>
#include <list>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include <reef/core/error.hpp>
#include <reef/core/text.hpp>
#include <reef/io/file.hpp>
#include <reef/io/json.hpp>
#include <reef/io/safetensors_file.hpp>

namespace reef::inline v0::io {

/// A tensor, and the file that has it.
struct TensorInFile {
  const SafetensorsFile* file = nullptr;
  const StoredTensor* tensor = nullptr;
};

/// The tensors of a model of Hugging Face: of one safetensors file, or of several with an index.
///
/// | place  | a file; an index, .json, whose weight_map says which file of its folder has which tensor;   |
/// |        | or a folder with model.safetensors, else with model.safetensors.index.json                  |
/// | errors | FileError and DecodeError as SafetensorsFile, also for a file that is missing; DecodeError   |
/// |        | for an index that is none, names a file of another folder or a tensor that its file has     |
/// |        | not or another has too, and for a tensor that it does not name                              |
///
/// Source: huggingface/transformers, utils/hub.py (get_checkpoint_shard_files).
class SafetensorsFiles {
public:
  static constexpr std::string_view whole_name = "model.safetensors";
  static constexpr std::string_view index_name = "model.safetensors.index.json";

  explicit SafetensorsFiles(std::filesystem::path place) : path_(std::move(place)) {
    path_ = model_at(path_);
    if (path_.extension() == ".json") {
      open_index();
    } else {
      add(path_);
    }
  }
  SafetensorsFiles(SafetensorsFiles&&) = default;  // files stay where they are
  SafetensorsFiles& operator=(SafetensorsFiles&&) = default;

  /// The files of a place: the one, or the index and what it names. Reads the index alone. Errors as
  /// the constructor's for what is wrong with that.
  [[nodiscard]] static std::vector<std::filesystem::path> paths(
      const std::filesystem::path& place) {
    std::vector<std::filesystem::path> files{model_at(place)};
    if (files.front().extension() != ".json") return files;
    for (const auto& [file, tensors] : read_index(files.front()))
      files.push_back(files.front().parent_path() / file);
    return files;
  }

  /// The file or the index that was found.
  [[nodiscard]] const std::filesystem::path& path() const { return path_; }
  /// File by file, in the order of their data.
  [[nodiscard]] std::span<const TensorInFile> tensors() const { return tensors_; }

private:
  /// The tensors of each file, and whether they are there.
  using Index = std::map<std::string, std::map<std::string, bool>>;

  [[noreturn]] static void refuse(const std::filesystem::path& path, const std::string& why) {
    throw DecodeError("reef::io: cannot read '", path.string(), "': ", why,
                      ".\n  fix: all files of one model as they were written, in one folder.");
  }

  static std::filesystem::path model_at(const std::filesystem::path& folder) {
    std::error_code unknown;
    if (!std::filesystem::is_directory(folder, unknown)) return folder;
    for (const std::string_view name : {whole_name, index_name}) {
      if (std::filesystem::exists(folder / name)) return folder / name;
    }
    throw FileError("reef::io: '", folder.string(), "' has neither ", whole_name, " nor ",
                    index_name, ".\n  fix: name the file, or a folder that has one.");
  }

  void add(const std::filesystem::path& file) {
    const SafetensorsFile& opened = files_.emplace_back(file);
    for (const StoredTensor& tensor : opened.tensors()) tensors_.push_back({&opened, &tensor});
  }

  static Index read_index(const std::filesystem::path& path) {
    const Json index = read_json(path);
    const std::string source = concat("'", path.string(), "'");
    const auto map = require<Json>(index, "weight_map", JsonSource(source));
    if (!map.is_object() || map.empty())
      refuse(path, "its weight_map is no object of tensors and files");
    Index wanted;
    for (const auto& [tensor, file] : map.items()) {
      if (!file.is_string() || !is_plain_name(file.get_ref<const std::string&>())) {
        refuse(path, concat("its tensor ", in_quotes(tensor), " is in ", in_quotes(file.dump()),
                            ", which is no file of its folder"));
      }
      wanted[file.get<std::string>()][tensor] = false;
    }
    return wanted;
  }

  void open_index() {
    Index wanted = read_index(path_);
    std::map<std::string_view, std::string_view> file_of;
    for (const auto& [file, tensors] : wanted) {
      for (const auto& [name, there] : tensors) file_of[name] = file;
    }
    for (auto& [file, tensors] : wanted) {
      const std::size_t before = tensors_.size();
      const std::filesystem::path place = path_.parent_path() / file;
      if (!std::filesystem::exists(place))
        refuse(path_, concat("its file ", in_quotes(file), " is not there"));
      add(place);
      for (const TensorInFile& found : std::span(tensors_).subspan(before)) {
        const std::string& name = found.tensor->name;
        const auto listed = file_of.find(name);
        if (listed == file_of.end())
          refuse(path_,
                 concat("it does not name the tensor ", in_quotes(name), " of ", in_quotes(file)));
        if (listed->second != file) {
          refuse(path_, concat("its tensor ", in_quotes(name), " is in two files, ",
                               in_quotes(file), " and ", in_quotes(listed->second)));
        }
        tensors[name] = true;
      }
      for (const auto& [name, there] : tensors) {
        if (!there)
          refuse(path_, concat("its tensor ", in_quotes(name), " is not in ", in_quotes(file)));
      }
    }
  }

  std::filesystem::path path_;
  std::list<SafetensorsFile> files_;
  std::vector<TensorInFile> tensors_;
};

}  // namespace reef::inline v0::io
