// A checkpoint's manifest, and through it the shards that it names: a.safetensors lies beside it.

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include <reef/io/manifest.hpp>

#include "../support/temporary_folder.hpp"
#include "target.hpp"

namespace {

namespace io = reef::io;

/// A checkpoint whose manifest is what the fuzzer says.
class Checkpoint {
public:
  Checkpoint() {
    std::vector<float> w{1, 2, 3, 4};
    const std::vector<io::NamedView> views{{"w", reef::TensorView<float>(w.data(), {2, 2})}};
    io::write_safetensors(folder_ / "a.safetensors", views);
    std::filesystem::create_symlink(manifest_.path(), folder_ / "manifest.json");
  }
  [[nodiscard]] const std::filesystem::path& folder() const { return folder_.path(); }
  void set(std::string_view manifest) { manifest_.set(manifest); }

private:
  reef::test::TemporaryFolder folder_;
  reef::fuzz::MemoryFile manifest_;
};

void read_shard(const std::filesystem::path& folder, const io::Shard& shard) {
  const io::CheckedShard checked(folder, shard);
  for (const io::StoredTensor& tensor : checked.file().tensors()) {
    std::vector<float> values(4);
    checked.read(tensor.name, reef::TensorView<float>(values.data(), {2, 2}));
    reef::fuzz::demand(values == std::vector<float>({1, 2, 3, 4}),
                       "a checked shard holds its values");
  }
}

}  // namespace

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static Checkpoint checkpoint;
  checkpoint.set(reef::fuzz::text_of(data, size));
  reef::fuzz::reads([&] { static_cast<void>(io::read_manifest(checkpoint.folder())); });
  reef::fuzz::reads([&] {
    // Behind its checksum, which hardly any change of a file leaves right.
    const io::Manifest manifest = io::manifest_from_json(
        io::read_json(checkpoint.folder() / io::Manifest::file), "the manifest");
    for (const io::Shard& shard : manifest.shards) {
      reef::fuzz::demand((checkpoint.folder() / shard.file).parent_path() == checkpoint.folder(),
                         "a shard lies in the folder of its manifest");
      reef::fuzz::demand(io::shard_from_json(io::to_json(shard), "its own JSON") == shard,
                         "a shard, written and read again, is the same");
      reef::fuzz::reads([&] { read_shard(checkpoint.folder(), shard); });
    }
  });
  return 0;
}
