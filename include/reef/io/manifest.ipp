#pragma once

#include <set>
#include <utility>

#include <reef/core/finite.hpp>
#include <reef/core/inline.hpp>
#include <reef/io/atomic_file.hpp>
#include <reef/io/file.hpp>
#include <reef/io/manifest.hpp>

namespace reef {
inline namespace v0 {
namespace io {

REEF_INLINE Json to_json(const Shard& shard) {
  Json tensors = Json::object();
  for (const TensorChecksum& tensor : shard.tensors) tensors[tensor.name] = tensor.crc32c;
  return {{"file", shard.file},
          {"bytes", shard.bytes},
          {"header_crc32c", shard.header_crc32c},
          {"tensors", std::move(tensors)}};
}

REEF_INLINE Shard shard_from_json(const Json& json, std::string_view source) {
  const JsonSource written(source, checkpoint_fix);
  const auto refuse = [&](const std::string& why) {
    throw DecodeError("reef::io: ", source, ": ", why, ".\n  fix: ", checkpoint_fix);
  };
  Shard shard;
  shard.file = require<std::string>(json, "file", written);
  shard.bytes = require<Bytes>(json, "bytes", written);
  shard.header_crc32c = require<std::uint32_t>(json, "header_crc32c", written);
  if (!is_plain_name(shard.file)) {
    refuse(concat("the shard ", json_string(shard.file), " is no file of its folder"));
  }
  const auto tensors = require<Json>(json, "tensors", written);
  if (!tensors.is_object()) refuse("'tensors' is no object");
  for (const auto& [name, checksum] : tensors.items()) {
    shard.tensors.push_back(
        {name, detail::convert_or_throw<std::uint32_t>(checksum, name, written)});
  }
  return shard;
}

namespace detail {

REEF_INLINE std::uint32_t crc32c_of_manifest(Json manifest) {
  manifest.erase("crc32c");
  const std::string text = manifest.dump();
  return crc32c(std::as_bytes(std::span(text)));
}

}  // namespace detail

REEF_INLINE Manifest manifest_from_json(const Json& json, const std::string& source) {
  const JsonSource written(source, checkpoint_fix);
  if (value_or<std::string>(json, "format", "", written) != "reef.checkpoint") {
    throw DecodeError("reef::io: ", source, " is no manifest.\n  fix: ", checkpoint_fix);
  }
  if (const int version = require<int>(json, "version", written); version != Manifest::version) {
    throw DecodeError("reef::io: ", source, " is a manifest of version ", version, ", not ", Manifest::version,
                      ".\n  fix: read it with the Reef that wrote it.");
  }
  Manifest manifest;
  manifest.facts = require<Json>(json, "facts", written);
  std::set<std::string> names;
  for (const Json& shard : require<std::vector<Json>>(json, "shards", written)) {
    manifest.shards.push_back(shard_from_json(shard, source));
    const std::string& name = manifest.shards.back().file;
    if (names.insert(name).second) continue;
    throw DecodeError("reef::io: ", source, ": the shard ", json_string(name),
                      " is named twice.\n  fix: ", checkpoint_fix);
  }
  return manifest;
}

REEF_INLINE void require_text(const Json& value, const std::string& name, int depth) {
  const auto refuse = [&](std::string_view what, std::string_view fix) {
    throw OptionError("reef::io: ", name, " ", what, ".\n  fix: ", fix);
  };
  const auto require_utf8 = [&](const std::string& text) {
    try {
      static_cast<void>(Json(text).dump());
    } catch (const Json::exception&) {
      refuse("is a text that is not UTF-8", "write its bytes in hexadecimal digits, or base64.");
    }
  };
  const bool nests = value.is_structured();
  if (nests && depth >= JsonLimits{}.depth) {
    refuse(concat("nests deeper than ", JsonLimits{}.depth), "fewer objects inside each other.");
  }
  if (value.is_object()) {
    for (const auto& [key, inside] : value.items()) {
      const std::string path = concat(name, ".", in_quotes(key));
      try {
        static_cast<void>(Json(key).dump());
      } catch (const Json::exception&) {
        throw OptionError("reef::io: the name ", path, " is not UTF-8.\n  fix: one that is.");
      }
      require_text(inside, path, depth + 1);
    }
  } else if (value.is_array()) {
    for (std::size_t i = 0; i < value.size(); ++i) {
      require_text(value[i], concat(name, "[", i, "]"), depth + 1);
    }
  } else if (value.is_number_float() && !is_finite(value.get<double>())) {
    refuse(concat("is ", value.get<double>(), ", a number that JSON does not have"),
           "leave it out, or write it as a text.");
  } else if (value.is_string()) {
    require_utf8(value.get_ref<const std::string&>());
  } else if (value.is_binary()) {
    refuse("is binary, which JSON's text does not have",
           "a text of hexadecimal digits, or base64.");
  } else if (value.is_discarded()) {
    refuse("is no value", "leave it out.");
  }
}

REEF_INLINE void write_manifest(const std::filesystem::path& folder, const Manifest& manifest) {
  require_text(manifest.facts, "facts", 1);
  Json shards = Json::array();
  for (const Shard& shard : manifest.shards) shards.push_back(to_json(shard));
  Json json{{"format", "reef.checkpoint"},
            {"version", Manifest::version},
            {"facts", manifest.facts},
            {"shards", std::move(shards)}};
  json["crc32c"] = detail::crc32c_of_manifest(json);
  const std::string text = json.dump(1) + "\n";
  if (text.size() > JsonLimits{}.bytes) {
    throw OptionError("reef::io: a manifest of ", format_bytes(text.size()), " for '",
                      folder.string(), "' is more than is read, ", format_bytes(JsonLimits{}.bytes),
                      ".\n  fix: fewer facts in it.");
  }
  write_atomically(folder / Manifest::file, text);
}

REEF_INLINE Manifest read_manifest(const std::filesystem::path& folder) {
  const std::filesystem::path path = folder / Manifest::file;
  const Json json = read_json(path, {}, checkpoint_fix);
  const std::string source = concat("'", path.string(), "'");
  const JsonSource written(source, checkpoint_fix);
  // First, where there is one: of what is damaged nothing else is worth telling.
  const bool sealed = json.is_object() && json.contains("crc32c");
  if (sealed &&
      require<std::uint32_t>(json, "crc32c", written) != detail::crc32c_of_manifest(json)) {
    throw DecodeError("reef::io: ", source,
                      " is damaged: its checksum differs.\n  fix: ", checkpoint_fix);
  }
  Manifest manifest = manifest_from_json(json, source);
  if (!sealed) require<std::uint32_t>(json, "crc32c", written);
  return manifest;
}

REEF_INLINE CheckedShard::CheckedShard(const std::filesystem::path& folder, Shard expected)
    : file_(folder / expected.file, checkpoint_fix), expected_(std::move(expected)) {
  if (file_.size() != expected_.bytes) {
    refuse(concat("it has ", file_.size(), " bytes, the manifest says ", expected_.bytes));
  }
  if (file_.header_crc32c() != expected_.header_crc32c) refuse("its header is damaged");
  std::sort(expected_.tensors.begin(), expected_.tensors.end(),
            [](const TensorChecksum& a, const TensorChecksum& b) { return a.name < b.name; });
}

REEF_INLINE void CheckedShard::read(std::string_view name, const AnyView& to) const {
  auto* const data = static_cast<std::byte*>(to.data());
  read(
      name, to.shape(), to.element(), [data](Bytes offset, Bytes) { return data + offset; },
      [](Bytes, std::span<const std::byte>) {});
}

REEF_INLINE std::uint32_t CheckedShard::checksum_of(std::string_view name) const {
  const auto found = std::lower_bound(
      expected_.tensors.begin(), expected_.tensors.end(), name,
      [](const TensorChecksum& checksum, std::string_view n) { return checksum.name < n; });
  if (found == expected_.tensors.end() || found->name != name) {
    refuse(concat("the manifest has no checksum of tensor '", name, "'"));
  }
  return found->crc32c;
}

REEF_INLINE void CheckedShard::refuse(const std::string& why) const {
  throw DecodeError("reef::io: '", file_.path().string(), "': ", why, ".\n  fix: ", checkpoint_fix);
}

}  // namespace io
}  // namespace v0
}  // namespace reef
