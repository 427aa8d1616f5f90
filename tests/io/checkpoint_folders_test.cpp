#include <reef/io/checkpoint_folders.hpp>

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <initializer_list>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include <reef/core/error.hpp>
#include <reef/io/file.hpp>
#include <reef/io/safetensors.hpp>

#include <support/temporary_folder.hpp>

namespace {

using namespace reef;

class CheckpointFolders : public testing::Test {
protected:
  std::filesystem::path make(std::uint64_t step, std::initializer_list<const char*> files) {
    const auto folder = io::checkpoint_folder(folder_.path(), step);
    std::filesystem::create_directory(folder);
    for (const char* file : files) reef::test::write_file(folder / file, file);
    return folder;
  }
  static std::vector<std::string> files_of(const std::filesystem::path& folder) {
    std::vector<std::string> names;
    for (const auto& entry : std::filesystem::directory_iterator(folder))
      names.push_back(entry.path().filename());
    std::sort(names.begin(), names.end());
    return names;
  }
  using Names = std::vector<std::string>;

  reef::test::TemporaryFolder folder_;
};

TEST_F(CheckpointFolders, have_shards_of_two_kinds_of_names) {
  for (const char* name : {"model.safetensors", "model.1.safetensors", "optimizer-0.safetensors",
                           "optimizer-12.1.safetensors"}) {
    EXPECT_TRUE(io::is_shard_name(name)) << name;
    EXPECT_TRUE(io::detail::is_temporary(concat(name, ".tmp.123.4"))) << name;
  }
  for (const char* name :
       {"best.safetensors", "model.2.safetensors", "model.safetensors.index.json",
        "model-00001-of-00002.safetensors", "my-model.safetensors", "optimizer-.safetensors",
        "optimizer--1.safetensors", "optimizer-01.safetensors", "optimizer-x.safetensors",
        "optimizer-1.1.1.safetensors", ".safetensors", "model.safetensors~", "MODEL.safetensors"}) {
    EXPECT_FALSE(io::is_shard_name(name)) << name;
  }
  for (const char* name :
       {"model.safetensors", "model.safetensors.tmp", "model.safetensors.tmp.1",
        "model.safetensors.tmp.1.x", "model.safetensors.tmp.1.2.3", "best.safetensors.tmp.1.2",
        "notes.txt.tmp.1.2", ".model.safetensors.Xy1234", "manifest.json"}) {
    EXPECT_FALSE(io::detail::is_temporary(name)) << name;
  }
  EXPECT_TRUE(io::detail::is_temporary("manifest.json.tmp.5.6"));
}

TEST_F(CheckpointFolders, lose_temporary_files_of_jobs_that_were_ended_and_nothing_else) {
  const char* const torn_model = "model.safetensors.tmp.123.4";
  const char* const torn_manifest = "manifest.json.tmp.5.6";
  const auto torn = make(1, {torn_model, torn_manifest});
  const auto copied =
      make(2, {"model.safetensors", "optimizer-0.safetensors"});  // manifest to come
  const auto of_a_user = make(3, {"best.safetensors", "best.safetensors.tmp.1.2", "notes.txt"});
  const auto complete = make(4, {"model.safetensors", "model.1.safetensors", torn_model});
  io::write_manifest(complete, {io::Json::object(), {{"model.safetensors", 5, 0, {}}}});
  const auto damaged = make(5, {"manifest.json", "model.1.safetensors", torn_manifest});
  const auto empty = make(6, {});
  const auto no_folder = io::checkpoint_folder(folder_.path(), 7);
  reef::test::write_file(no_folder, "a user's");
  reef::test::write_file(folder_ / torn_model, "elsewhere");
  io::remove_temporaries(folder_.path());
  EXPECT_FALSE(std::filesystem::exists(torn));
  EXPECT_EQ(files_of(copied), (Names{"model.safetensors", "optimizer-0.safetensors"}));
  EXPECT_EQ(files_of(of_a_user),
            (Names{"best.safetensors", "best.safetensors.tmp.1.2", "notes.txt"}));
  EXPECT_EQ(files_of(complete),
            (Names{"manifest.json", "model.1.safetensors", "model.safetensors"}));
  EXPECT_EQ(files_of(damaged), (Names{"manifest.json", "model.1.safetensors"}));
  EXPECT_TRUE(std::filesystem::exists(empty));
  EXPECT_EQ(io::read_file(no_folder, 100), "a user's");
  EXPECT_TRUE(std::filesystem::exists(folder_ / torn_model));
  EXPECT_NO_THROW(io::remove_temporaries(folder_ / "none"));
}

TEST_F(CheckpointFolders, lose_what_a_failed_save_wrote_and_nothing_else) {
  const auto torn = make(1, {"model.safetensors", "optimizer-1.safetensors.tmp.123.4"});
  const auto with_others = make(2, {"model.safetensors", "best.safetensors"});
  const auto complete = make(3, {"model.safetensors", "model.1.safetensors", "best.safetensors"});
  io::write_manifest(complete, {io::Json::object(), {{"model.safetensors", 5, 0, {}}}});
  const auto damaged = make(4, {"manifest.json", "model.safetensors"});
  for (const auto& folder : {torn, with_others, complete, damaged, folder_ / "none"})
    io::remove_failed_save(folder);
  EXPECT_FALSE(std::filesystem::exists(torn));
  EXPECT_EQ(files_of(with_others), Names{"best.safetensors"});
  EXPECT_EQ(files_of(complete), (Names{"best.safetensors", "manifest.json", "model.safetensors"}));
  EXPECT_EQ(files_of(damaged), (Names{"manifest.json", "model.safetensors"}));
}

TEST_F(CheckpointFolders, only_checkpoints_with_a_manifest_are_complete) {
  EXPECT_TRUE(io::complete_checkpoints(folder_ / "none").empty());
  for (const std::uint64_t step : {1000U, 20U, 300U}) {
    const auto folder = io::checkpoint_folder(folder_.path(), step);
    std::filesystem::create_directory(folder);
    if (step != 300) io::write_manifest(folder, {});
  }
  for (const char* name : {"step-", "step-x", "step-1", "step-0000000001x", "other"}) {
    std::filesystem::create_directory(folder_ / name);
    io::write_manifest(folder_ / name, {});
  }
  EXPECT_EQ(io::complete_checkpoints(folder_.path()), (std::vector<std::uint64_t>{20, 1000}));
  EXPECT_EQ(io::checkpoint_folder("d", 20).string(), "d/step-000000020");
}

/// Makes a checkpoint of one shard, which holds nothing.
void make_checkpoint(const std::filesystem::path& folder) {
  std::filesystem::create_directory(folder);
  io::Manifest manifest;
  manifest.shards.push_back(io::stream_safetensors(folder / "model.safetensors", {}));
  io::write_manifest(folder, manifest);
}

TEST_F(CheckpointFolders,
       of_old_checkpoints_the_newest_are_kept_and_of_a_removed_one_what_others_put_there) {
  namespace fs = std::filesystem;
  for (const std::uint64_t step : {1U, 2U, 3U, 4U, 5U, 6U})
    make_checkpoint(io::checkpoint_folder(folder_.path(), step));
  const fs::path first = io::checkpoint_folder(folder_.path(), 1);
  reef::test::write_file(first / "own.safetensors", "somebody's");
  reef::test::write_file(io::checkpoint_folder(folder_.path(), 3) / "manifest.json", "damaged");
  fs::create_directory(io::checkpoint_folder(folder_.path(), 0));  // of a save that goes on
  reef::test::write_file(io::checkpoint_folder(folder_.path(), 0) / "model.safetensors", "");
  reef::test::write_file(folder_ / "metrics.jsonl", "");

  EXPECT_EQ(io::remove_old_checkpoints(folder_.path(), 5), (std::vector<std::uint64_t>{}));
  EXPECT_EQ(io::remove_old_checkpoints(folder_.path(), 2), (std::vector<std::uint64_t>{1, 2, 4}));
  EXPECT_EQ(io::complete_checkpoints(folder_.path()), (std::vector<std::uint64_t>{3, 5, 6}));
  EXPECT_EQ(io::read_file(first / "own.safetensors", 100), "somebody's");
  EXPECT_FALSE(fs::exists(first / "model.safetensors"));
  EXPECT_FALSE(fs::exists(first / "manifest.json"));
  EXPECT_FALSE(fs::exists(io::checkpoint_folder(folder_.path(), 2)));
  EXPECT_TRUE(fs::exists(io::checkpoint_folder(folder_.path(), 3) / "model.safetensors"));
  EXPECT_TRUE(fs::exists(io::checkpoint_folder(folder_.path(), 0) / "model.safetensors"));
  EXPECT_TRUE(fs::exists(folder_ / "metrics.jsonl"));
  EXPECT_TRUE(io::remove_old_checkpoints(folder_.path(), 2).empty());
}

}  // namespace
