#pragma once

#include <exception>
#include <filesystem>
#include <system_error>
#include <vector>

#include <reef/io/safetensors_files.hpp>

namespace reef_examples {

/// The files that weights at this place are read from: of an index those too that it names.
inline std::vector<std::filesystem::path> files_of_weights(const std::filesystem::path& place) {
  try {
    return reef::io::SafetensorsFiles::paths(place);
  } catch (const std::exception&) {  // who reads it says what it is
    return {place};
  }
}

/// The files of an adapter in this folder, as PEFT calls them: its configuration, and its weights.
inline std::vector<std::filesystem::path> files_of_adapter(const std::filesystem::path& folder) {
  return {folder / "adapter_config.json", folder / "adapter_model.safetensors"};
}

/// Where Hugging Face lays the configuration of the weights in this file or folder.
inline std::filesystem::path config_beside(const std::filesystem::path& weights) {
  std::error_code unknown;
  const bool folder = std::filesystem::is_directory(weights, unknown);
  return (folder ? weights : weights.parent_path()) / "config.json";
}

}  // namespace reef_examples
