// A trainer's own checkpoints, with the process ended or the power cut at every system call.

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <set>
#include <utility>
#include <vector>

#include <reef/io/checkpoint_folders.hpp>
#include <reef/io/manifest.hpp>
#include <reef/optim/adamw.hpp>
#include <reef/optim/zero1.hpp>
#include <reef/trainer/checkpoint.hpp>

#include "../io/file_layer.hpp"
#include "../support/small_gpt.hpp"
#include "../support/temporary_folder.hpp"

namespace reef::test {

namespace {

using Tested = Trainer<optim::Zero1<optim::AdamW>>;
namespace fs = std::filesystem;

/// Every byte of every shard of that checkpoint is what its manifest says.
void expect_whole(const fs::path& folder) {
  const io::Manifest manifest = io::read_manifest(folder);
  ASSERT_EQ(manifest.shards.size(), 2U);
  for (const io::Shard& expected : manifest.shards) {
    const io::CheckedShard shard(folder, expected);
    for (const io::StoredTensor& tensor : shard.file().tensors()) {
      const Shape shape = tensor.shape.size() == 1 ? Shape{tensor.shape[0]}
                                                   : Shape{tensor.shape[0], tensor.shape[1]};
      std::vector<float> values(static_cast<std::size_t>(shape.size()));
      EXPECT_NO_THROW(shard.read(tensor.name, {values.data(), shape, Element::float32}));
    }
  }
}

class CheckpointFiles : public testing::Test {
protected:
  CheckpointFiles() {
    fs::create_directory(old_);
    save(old_);
  }

  /// Without the disk's syncs, with that fault; whether it came to its end.
  template <class F>
  bool save_with(const fs::path& directory, Fault fault, const F& check) {
    FileLayer layer(directory, fault);
    bool saved = true;
    try {
      checkpoint::save(trainer_, directory);
    } catch (const FileError&) {
      saved = false;
    }
    layer.rest();
    check(layer, saved);
    return saved;
  }
  void save(const fs::path& directory) {
    ASSERT_TRUE(save_with(directory, {}, [](const FileLayer&, bool) {}));
  }

  /// At every call of a save, by every cut: `steps` are there, or `more` too, and all are whole.
  void expect_survivors(const std::vector<std::uint64_t>& steps,
                        const std::vector<std::uint64_t>& more) {
    std::set<std::pair<Disk, bool>> seen;
    bool saved = false;
    for (std::size_t call = 0; !saved; ++call) {
      const TemporaryFolder folder;
      fs::copy(old_, folder / "run", fs::copy_options::recursive);
      const auto check = [&](const FileLayer& layer, bool whole) {
        std::vector<PowerCut> cuts{{.names = true, .data = PowerCut::Data::whole}, {}};
        for (std::uint64_t seed = 0; seed < 4; ++seed)
          cuts.push_back({.drawn = true, .seed = seed});
        for (const PowerCut& cut : cuts) {
          const Disk disk = layer.disk_after(cut);
          if (!seen.emplace(disk, whole).second) continue;
          SCOPED_TRACE(testing::Message() << "call " << call << ", seed " << cut.seed);
          const fs::path after = folder / ("cut-" + std::to_string(seen.size()));
          write_disk(disk, after);
          const auto found = io::complete_checkpoints(after);
          EXPECT_TRUE(found == more || (found == steps && !whole));
          for (const std::uint64_t step : found) expect_whole(io::checkpoint_folder(after, step));
        }
      };
      saved = save_with(folder / "run", {Fault::Kind::tears, call}, check);
      ASSERT_LT(call, 1000U);
    }
  }

  comm::Communicator world_;
  Tested trainer_ = small_trainer<Tested>(small_options<Tested>(), world_);
  TemporaryFolder folder_;
  fs::path old_ = folder_ / "old";
};

}  // namespace

TEST_F(CheckpointFiles, of_an_older_step_stay_whole_while_a_newer_one_is_saved) {
  trainer_.step();
  expect_survivors({0}, {0, 1});
}

TEST_F(CheckpointFiles, stay_whole_while_the_same_step_is_saved_again) {
  expect_survivors({0}, {0});
  const Shape shape = trainer_.model().dag().parameters.front().spec.shape;
  trainer_.set_parameter(trainer_.model().dag().parameters.front().name,
                         std::vector<float>(static_cast<std::size_t>(shape.size()), 0.5F));
  expect_survivors({0}, {0});
}

TEST_F(CheckpointFiles, that_were_replaced_are_gone) {
  for (int i = 0; i < 3; ++i) {
    save(old_);
    const auto files = fs::directory_iterator(io::checkpoint_folder(old_, 0));
    EXPECT_EQ(std::distance(begin(files), end(files)), 3);
  }
}

}  // namespace reef::test
