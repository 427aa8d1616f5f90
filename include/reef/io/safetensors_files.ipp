#pragma once

#include <cstddef>
#include <system_error>
#include <utility>

#include <reef/core/inline.hpp>
#include <reef/core/text.hpp>
#include <reef/io/file.hpp>
#include <reef/io/json.hpp>
#include <reef/io/safetensors_files.hpp>

namespace reef {
inline namespace v0 {
namespace io {

REEF_INLINE SafetensorsFiles::SafetensorsFiles(std::filesystem::path place)
    : path_(std::move(place)) {
  path_ = model_at(path_);
  if (path_.extension() == ".json") {
    open_index();
  } else {
    add(path_);
  }
}

REEF_INLINE std::vector<std::filesystem::path> SafetensorsFiles::paths(
    const std::filesystem::path& place) {
  std::vector<std::filesystem::path> files{model_at(place)};
  if (files.front().extension() != ".json") return files;
  for (const auto& [file, tensors] : read_index(files.front()))
    files.push_back(files.front().parent_path() / file);
  return files;
}

REEF_INLINE void SafetensorsFiles::refuse(const std::filesystem::path& path,
                                          const std::string& why) {
  throw DecodeError("reef::io: cannot read '", path.string(), "': ", why,
                    ".\n  fix: all files of one model as they were written, in one folder.");
}

REEF_INLINE std::filesystem::path SafetensorsFiles::model_at(const std::filesystem::path& folder) {
  std::error_code unknown;
  if (!std::filesystem::is_directory(folder, unknown)) return folder;
  for (const std::string_view name : {whole_name, index_name}) {
    if (std::filesystem::exists(folder / name)) return folder / name;
  }
  throw FileError("reef::io: '", folder.string(), "' has neither ", whole_name, " nor ", index_name,
                  ".\n  fix: name the file, or a folder that has one.");
}

REEF_INLINE void SafetensorsFiles::add(const std::filesystem::path& file) {
  const SafetensorsFile& opened = files_.emplace_back(file);
  for (const StoredTensor& tensor : opened.tensors()) tensors_.push_back({&opened, &tensor});
}

REEF_INLINE SafetensorsFiles::Index SafetensorsFiles::read_index(
    const std::filesystem::path& path) {
  const Json index = read_json(path);
  if (!index.is_object() || !index.contains("weight_map")) {
    throw DecodeError("reef::io: '", path.string(),
                      "' is no index of safetensors files: it has no 'weight_map'.\n"
                      "  fix: name a safetensors file, or such an index, or the folder of one.");
  }
  const Json& map = index.at("weight_map");
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

REEF_INLINE void SafetensorsFiles::open_index() {
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
        refuse(path_, concat("its tensor ", in_quotes(name), " is in two files, ", in_quotes(file),
                             " and ", in_quotes(listed->second)));
      }
      tensors[name] = true;
    }
    for (const auto& [name, there] : tensors) {
      if (!there)
        refuse(path_, concat("its tensor ", in_quotes(name), " is not in ", in_quotes(file)));
    }
  }
}

}  // namespace io
}  // namespace v0
}  // namespace reef
