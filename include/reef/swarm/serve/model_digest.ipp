#pragma once

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <fstream>
#include <span>
#include <string>
#include <system_error>
#include <vector>

#include <reef/core/error.hpp>
#include <reef/core/inline.hpp>
#include <reef/core/units.hpp>
#include <reef/swarm/net/sha256.hpp>
#include <reef/swarm/serve/model_digest.hpp>

namespace reef {
inline namespace v0 {
namespace swarm {

REEF_INLINE Digest model_digest(const std::filesystem::path& folder) {
  const auto refuse = [](const std::filesystem::path& path, const char* why) {
    throw OptionError("reef::swarm::model_digest: '", path.string(), "' ", why,
                      ".\n  fix: a folder of Hugging Face: config.json and safetensors files.");
  };
  std::vector<std::filesystem::path> files;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(folder, error)) {
    if (entry.path().extension() == ".safetensors") files.push_back(entry.path());
  }
  if (error || files.empty()) refuse(folder, "has no safetensors file that can be listed");
  std::sort(files.begin(), files.end());
  files.insert(files.begin(), folder / "config.json");
  constexpr std::size_t part = 1_MiB;
  // The digest so far, and the next part of a file behind it.
  std::vector<std::byte> bytes(sizeof(Digest) + part);
  Digest digest{};
  for (const std::filesystem::path& path : files) {
    std::ifstream file(path, std::ios::binary);
    if (!file) refuse(path, "cannot be opened");
    do {
      std::memcpy(bytes.data(), digest.bytes.data(), sizeof digest);
      file.read(reinterpret_cast<char*>(bytes.data() + sizeof digest), part);
      const auto count = static_cast<std::size_t>(file.gcount());
      digest = sha256(std::span<const std::byte>(bytes).first(sizeof digest + count));
    } while (file);
    if (!file.eof()) refuse(path, "cannot be read to its end");
  }
  return digest;
}

}  // namespace swarm
}  // namespace v0
}  // namespace reef
