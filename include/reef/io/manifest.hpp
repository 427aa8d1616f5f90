#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <reef/core/element.hpp>
#include <reef/core/error.hpp>
#include <reef/core/shape.hpp>
#include <reef/core/tensor_view.hpp>
#include <reef/core/text.hpp>
#include <reef/core/units.hpp>
#include <reef/io/checksum.hpp>
#include <reef/io/json.hpp>
#include <reef/io/safetensors.hpp>

namespace reef {
inline namespace v0 {
namespace io {

/// The fix that errors recommend for a checkpoint with a damaged part.
inline constexpr std::string_view checkpoint_fix =
    "copy the checkpoint again, or remove its folder to resume from the one before.";

/// A description of a checkpoint folder's safetensors files (shards): facts that the writer chooses, and every file
/// with its checksums. The manifest's file has a checksum of its own, and is written last, so that a folder with a
/// manifest is complete.
struct Manifest {
  static constexpr std::string_view file = "manifest.json";
  static constexpr int version = 2;

  Json facts = Json::object();
  std::vector<Shard> shards;
};

/// Returns the name, size and checksums of a checkpoint's file (shard) as JSON, which a rank sends to the rank that
/// writes the manifest.
Json to_json(const Shard& shard);

/// Reads a checkpoint's file entry (shard) that to_json wrote, its tensors sorted by name. Throws DecodeError for wrong
/// content, also for a file name with a folder: a manifest may name only files of its own folder.
Shard shard_from_json(const Json& json, std::string_view source);

namespace detail {

/// Computes the CRC-32C of a manifest without its own member "crc32c"; the result does not depend on white space.
std::uint32_t crc32c_of_manifest(Json manifest);

}  // namespace detail

/// Reads a manifest from JSON, without comparing its checksum. Throws
/// DecodeError if the JSON is not a manifest, or names a shard twice.
Manifest manifest_from_json(const Json& json, const std::string& source);

/// Throws OptionError with the value's name if reading it back from JSON text would give another value: for
/// numbers that are not finite, text that is not UTF-8, binary values, and nesting beyond what readers accept.
void require_text(const Json& value, const std::string& name, int depth = 0);

/// Writes the manifest of a checkpoint's folder, atomically. Call it after every file is written. Throws OptionError
/// for facts that cannot be read back from JSON as they are.
void write_manifest(const std::filesystem::path& folder, const Manifest& manifest);

/// Reads the manifest of a checkpoint's folder. Throws FileError if there is none, DecodeError if it is damaged or is
/// not a manifest.
Manifest read_manifest(const std::filesystem::path& folder);

/// A checkpoint file (shard) that a manifest names, open for reading; its size and header, and each tensor read, are
/// checked.
///
/// | errors | DecodeError with file and tensor if size, header or a tensor differs from    |
/// |        | the manifest. After an error the content of the read's target is unspecified |
///
/// \code
/// // given: const io::Shard& written, const AnyView& weights
/// io::write_manifest("run", {.facts = {{"step", 1000}}, .shards = {written}});
/// const io::Manifest manifest = io::read_manifest("run");
/// const io::CheckedShard shard("run", manifest.shards[0]);
/// shard.read("wte.weight", weights);
/// \endcode
class CheckedShard {
public:
  CheckedShard(const std::filesystem::path& folder, Shard expected);

  [[nodiscard]] const SafetensorsFile& file() const& { return file_; }
  void file() const&& = delete;

  /// Reads a tensor, which must have the view's element type and shape, and compares its checksum with the manifest's.
  void read(std::string_view name, const AnyView& to) const;

  /// Reads a tensor in pieces of at most piece_bytes: each into the memory that room(offset, size) returns, and passes
  /// it to each(offset, bytes). The checksum is compared after the last piece: do not trust the pieces before that.
  template <class Room, class Each>
  void read(std::string_view name, const Shape& shape, Element element, const Room& room,
            const Each& each) const {
    const StoredTensor& tensor = file_.at(name, shape, element);
    const std::uint32_t expected = checksum_of(name);
    std::uint32_t crc = 0;
    for (Bytes offset = 0; offset < tensor.bytes(); offset += piece_bytes) {
      const Bytes size = (std::min)(piece_bytes, tensor.bytes() - offset);
      const std::span<std::byte> piece(room(offset, size), static_cast<std::size_t>(size));
      file_.read(tensor, offset, piece);
      crc = crc32c(piece, crc);
      each(offset, piece);
    }
    if (crc != expected) {
      refuse(concat("tensor '", name, "' is damaged: its checksum differs"));
    }
  }

private:
  [[nodiscard]] std::uint32_t checksum_of(std::string_view name) const;

  [[noreturn]] void refuse(const std::string& why) const;

  SafetensorsFile file_;
  Shard expected_;
};

}  // namespace io
}  // namespace v0
}  // namespace reef

#ifndef REEF_COMPILED
#include <reef/io/manifest.ipp>
#endif
