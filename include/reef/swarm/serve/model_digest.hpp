#pragma once

#include <filesystem>

#include <reef/swarm/core/digest.hpp>

namespace reef {
inline namespace v0 {
namespace swarm {

/// Returns a digest of a folder of Hugging Face: of its config.json and of its safetensors files, each whole. Servers
/// and clients of one digest have the same model.
///
/// | cost   | a pass over all bytes of the files, which are not kept    |
/// | errors | OptionError: a file that cannot be read, a folder without |
///
/// \code
/// const std::string model = swarm::to_hex(swarm::model_digest("llama"));
/// \endcode
Digest model_digest(const std::filesystem::path& folder);

}  // namespace swarm
}  // namespace v0
}  // namespace reef

#ifndef REEF_COMPILED
#include <reef/swarm/serve/model_digest.ipp>
#endif
