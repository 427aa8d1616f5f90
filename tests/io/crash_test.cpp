// A process that dies, a disk that fails, and power that is cut, at every system call of writing a
// checkpoint, and of removing some.

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include <reef/io/checkpoint_folders.hpp>
#include <reef/io/manifest.hpp>
#include <support/temporary_folder.hpp>

#include "file_layer.hpp"

namespace {

using namespace reef;
using test::Fault;
using test::FileLayer;
using test::PowerCut;
namespace fs = std::filesystem;

/// What the shards of a step hold.
std::vector<float> values_of(std::uint64_t step) {
  std::vector<float> values;
  for (std::size_t i = 0; i < 6; ++i) values.push_back(static_cast<float>(100 * step + i));
  return values;
}

/// Writes a checkpoint: its folder, two shards, and last the manifest.
void save(const fs::path& directory, std::uint64_t step) {
  const fs::path folder = io::checkpoint_folder(directory, step);
  io::create_folders(folder);
  std::vector<float> values = values_of(step);
  const std::vector<io::NamedView> model{{"w", TensorView<float>(values.data(), {2, 3})},
                                         {"b", TensorView<float>(values.data(), {3})}};
  const std::vector<io::NamedView> state{{"m", TensorView<float>(values.data(), {6})}};
  io::Manifest manifest;
  manifest.facts = {{"step", step}};
  manifest.shards.push_back(io::write_safetensors(folder / "model.safetensors", model));
  manifest.shards.push_back(io::write_safetensors(folder / "optimizer-0.safetensors", state));
  io::write_manifest(folder, manifest);
}

/// Whether the checkpoint of that step holds what was saved, every byte of it.
testing::AssertionResult is_whole(const fs::path& directory, std::uint64_t step) {
  try {
    const fs::path folder = io::checkpoint_folder(directory, step);
    const io::Manifest manifest = io::read_manifest(folder);
    if (io::require<std::uint64_t>(manifest.facts, "step") != step || manifest.shards.size() != 2) {
      return testing::AssertionFailure() << "another manifest";
    }
    const auto read = [&](std::size_t shard, const char* name, const Shape& shape) {
      std::vector<float> got(static_cast<std::size_t>(shape.size()));
      io::CheckedShard(folder, manifest.shards[shard])
          .read(name, AnyView(got.data(), shape, Element::float32));
      const std::vector<float> all = values_of(step);
      return std::equal(got.begin(), got.end(), all.begin());
    };
    if (!read(0, "w", {2, 3}) || !read(0, "b", {3}) || !read(1, "m", {6})) {
      return testing::AssertionFailure() << "other values";
    }
  } catch (const Error& error) {
    return testing::AssertionFailure() << error.what();
  }
  return testing::AssertionSuccess();
}

/// What is there is whole, and it is the old checkpoint alone or the old one and the new one.
void expect_old_or_new(const fs::path& directory, bool new_is_certain) {
  const std::vector<std::uint64_t> steps = io::complete_checkpoints(directory);
  ASSERT_FALSE(steps.empty()) << "the old checkpoint is lost";
  EXPECT_EQ(steps.front(), 1U);
  EXPECT_LE(steps.size(), 2U);
  if (new_is_certain) {
    EXPECT_EQ(steps.back(), 2U) << "what was saved is lost";
  }
  for (const std::uint64_t step : steps) EXPECT_TRUE(is_whole(directory, step)) << "step " << step;
}

bool has_temporary_file(const fs::path& directory) {
  return std::ranges::any_of(fs::recursive_directory_iterator(directory), [](const auto& entry) {
    return entry.path().filename().string().find(".tmp.") != std::string::npos;
  });
}

std::vector<PowerCut> power_cuts() {
  std::vector<PowerCut> cuts;
  for (const bool names : {false, true}) {
    for (const auto data : {PowerCut::Data::none, PowerCut::Data::half, PowerCut::Data::zeros,
                            PowerCut::Data::whole}) {
      cuts.push_back({.names = names, .data = data});
    }
  }
  for (std::uint64_t seed = 0; seed < 8; ++seed) cuts.push_back({.drawn = true, .seed = seed});
  return cuts;
}

/// A directory with the checkpoint of step 1.
class Crash : public testing::Test {
protected:
  Crash() {
    fs::create_directory(old_);
    const FileLayer layer(old_);  // which spares the disk the syncs
    save(old_, 1);
  }

  /// A copy of it, in which step 2 was saved with that fault.
  template <class F>
  void save_with(Fault fault, const F& check) const {
    const test::TemporaryFolder folder;
    fs::copy(old_, folder / "run", fs::copy_options::recursive);
    FileLayer layer(folder / "run", fault);
    bool saved = true;
    try {
      save(folder / "run", 2);
    } catch (const FileError&) {
      saved = false;
    }
    layer.rest();
    check(folder / "run", layer, saved);
  }

  [[nodiscard]] std::size_t calls_of_a_save() const {
    std::size_t calls = 0;
    save_with({}, [&](const fs::path& run, const FileLayer& layer, bool saved) {
      EXPECT_TRUE(saved);
      expect_old_or_new(run, true);
      calls = layer.calls();
    });
    return calls;
  }

private:
  test::TemporaryFolder folder_;
  fs::path old_ = folder_ / "old";
};

TEST_F(Crash, every_call_that_changes_files_is_seen) {
  save_with({}, [&](const fs::path& /*run*/, const FileLayer& layer, bool /*saved*/) {
    // The folder; then length, header and 2 tensors, length, header and 1 tensor, and the manifest.
    const std::vector<std::string> begin{"mkdir", "open", "fsync", "close"};
    const std::vector<std::string> end{"fsync", "close", "rename", "open", "fsync", "close"};
    std::vector<std::string> all = begin;
    for (const int writes : {4, 3, 1}) {
      all.emplace_back("open");
      all.insert(all.end(), static_cast<std::size_t>(writes), "write");
      all.insert(all.end(), end.begin(), end.end());
    }
    EXPECT_EQ(layer.names(), all);
  });
}

TEST_F(Crash, a_process_that_stops_at_any_call_leaves_the_old_checkpoint_or_the_new_one) {
  const std::size_t calls = calls_of_a_save();
  for (const Fault::Kind kind : {Fault::Kind::stops, Fault::Kind::tears}) {
    for (std::size_t call = 0; call < calls; ++call) {
      SCOPED_TRACE(testing::Message() << "kind " << static_cast<int>(kind) << ", call " << call);
      save_with({kind, call}, [&](const fs::path& run, const FileLayer& /*layer*/, bool saved) {
        expect_old_or_new(run, saved);
      });
    }
  }
}

TEST_F(Crash, a_power_cut_at_any_call_leaves_the_old_checkpoint_or_the_new_one) {
  const std::size_t calls = calls_of_a_save();
  std::set<std::pair<test::Disk, bool>> seen;  // many cuts leave the same
  for (std::size_t call = 0; call <= calls; ++call) {
    save_with(
        {Fault::Kind::tears, call}, [&](const fs::path& run, const FileLayer& layer, bool saved) {
          for (const PowerCut& cut : power_cuts()) {
            const test::Disk disk = layer.disk_after(cut);
            if (!seen.emplace(disk, saved).second) continue;
            SCOPED_TRACE(testing::Message() << "call " << call << ", seed " << cut.seed);
            const fs::path rebuilt = run.parent_path() / ("cut-" + std::to_string(seen.size()));
            test::write_disk(disk, rebuilt);
            expect_old_or_new(rebuilt, saved);
          }
        });
  }
  EXPECT_GT(seen.size(), calls);
}

/// A directory with the checkpoints of steps 1 to 3, of which the newest is to be left.
class CrashOfARemoval : public testing::Test {
protected:
  CrashOfARemoval() {
    fs::create_directory(three_);
    const FileLayer layer(three_);  // which spares the disk the syncs
    for (const std::uint64_t step : {1, 2, 3}) save(three_, step);
  }

  template <class F>
  void remove_with(Fault fault, const F& check) const {
    const test::TemporaryFolder folder;
    fs::copy(three_, folder / "run", fs::copy_options::recursive);
    FileLayer layer(folder / "run", fault);
    bool removed = false;
    try {
      removed = io::remove_old_checkpoints(folder / "run", 1) == std::vector<std::uint64_t>{1, 2};
    } catch (const FileError&) {
    }
    layer.rest();
    check(folder / "run", layer, removed);
  }

  [[nodiscard]] std::size_t calls_of_a_removal() const {
    std::size_t calls = 0;
    remove_with({}, [&](const fs::path& run, const FileLayer& layer, bool removed) {
      EXPECT_TRUE(removed);
      expect_newest_of_a_stop(run, removed);
      calls = layer.calls();
    });
    return calls;
  }

  /// What is there is whole, the newest checkpoint among it.
  static std::vector<std::uint64_t> expect_newest(const fs::path& directory) {
    const std::vector<std::uint64_t> steps = io::complete_checkpoints(directory);
    EXPECT_TRUE(!steps.empty() && steps.back() == 3) << "the newest is lost; there are " << testing::PrintToString(steps);
    for (const std::uint64_t step : steps) EXPECT_TRUE(is_whole(directory, step)) << "step " << step;
    return steps;
  }

  /// The same where calls fail from one on: the oldest is the first to go, and what was removed does not come back.
  static void expect_newest_of_a_stop(const fs::path& directory, bool removed) {
    const std::vector<std::uint64_t> steps = expect_newest(directory);
    const std::vector<std::uint64_t> all{1, 2, 3};
    EXPECT_TRUE(std::equal(steps.rbegin(), steps.rend(), all.rbegin(), all.rbegin() + std::ssize(steps)))
        << "there are " << testing::PrintToString(steps);
    if (removed) {
      EXPECT_EQ(steps.size(), 1U) << "of removed ones there are " << testing::PrintToString(steps);
    }
  }

private:
  test::TemporaryFolder folder_;
  fs::path three_ = folder_ / "three";
};

TEST_F(CrashOfARemoval, makes_a_checkpoint_none_before_its_first_shard_goes) {
  remove_with({}, [&](const fs::path& run, const FileLayer& layer, bool /*removed*/) {
    std::vector<std::string> all{"open", "close", "open", "close", "open", "close"};  // three manifests are read
    for (int checkpoint = 0; checkpoint < 2; ++checkpoint) {
      // The manifest is read, and goes durably; two shards; the folder.
      all.insert(all.end(), {"open", "close", "unlink", "open", "fsync", "close", "unlink", "unlink", "rmdir"});
    }
    EXPECT_EQ(layer.names(), all);
    EXPECT_FALSE(fs::exists(io::checkpoint_folder(run, 1)));
  });
}

TEST_F(CrashOfARemoval, at_any_call_leaves_checkpoints_that_are_whole) {
  const std::size_t calls = calls_of_a_removal();
  for (const Fault::Kind kind : {Fault::Kind::stops, Fault::Kind::fails_once}) {
    for (std::size_t call = 0; call < calls; ++call) {
      SCOPED_TRACE(testing::Message() << "kind " << static_cast<int>(kind) << ", call " << call);
      remove_with({kind, call}, [&](const fs::path& run, const FileLayer& /*layer*/, bool removed) {
        if (kind == Fault::Kind::stops) {
          expect_newest_of_a_stop(run, removed);
        } else {
          expect_newest(run);
        }
      });
    }
  }
}

TEST_F(CrashOfARemoval, and_a_power_cut_at_any_call_leave_no_manifest_that_names_what_is_gone) {
  const std::size_t calls = calls_of_a_removal();
  std::set<std::pair<test::Disk, bool>> seen;  // many cuts leave the same
  for (const Fault::Kind kind : {Fault::Kind::stops, Fault::Kind::fails_once}) {
    for (std::size_t call = 0; call <= calls; ++call) {
      remove_with({kind, call}, [&](const fs::path& run, const FileLayer& layer, bool removed) {
        for (const PowerCut& cut : power_cuts()) {
          const test::Disk disk = layer.disk_after(cut);
          if (!seen.emplace(disk, removed).second) continue;
          SCOPED_TRACE(testing::Message() << (kind == Fault::Kind::stops ? "stopped at call " : "with an error of call ")
                                          << call << (call < layer.names().size() ? ", " + layer.names()[call] : "")
                                          << ", seed " << cut.seed);
          const fs::path rebuilt = run.parent_path() / ("cut-" + std::to_string(seen.size()));
          test::write_disk(disk, rebuilt);
          if (kind == Fault::Kind::stops) {
            expect_newest_of_a_stop(rebuilt, removed);
          } else {
            expect_newest(rebuilt);
          }
        }
      });
    }
  }
  EXPECT_GT(seen.size(), calls / 2);
}

TEST_F(Crash, what_a_crash_left_is_in_nobodys_way) {
  const std::size_t calls = calls_of_a_save();
  for (std::size_t call = 0; call <= calls; ++call) {
    SCOPED_TRACE(testing::Message() << "call " << call);
    const test::TemporaryFolder folder;
    const fs::path left = folder / "left";
    save_with({Fault::Kind::tears, call},
              [&](const fs::path& /*run*/, const FileLayer& layer, bool /*saved*/) {
                test::write_disk(layer.disk_after({.drawn = true, .seed = call}), left);
              });
    const FileLayer again(left);  // which spares the disk the syncs
    save(left, 2);
    expect_old_or_new(left, true);
  }
}

TEST_F(Crash, one_call_that_fails_is_an_error_that_leaves_no_temporary_file) {
  const std::size_t calls = calls_of_a_save();
  int errors = 0;
  for (std::size_t call = 0; call < calls; ++call) {
    SCOPED_TRACE(testing::Message() << "call " << call);
    save_with({Fault::Kind::fails_once, call},
              [&](const fs::path& run, const FileLayer& layer, bool saved) {
                expect_old_or_new(run, saved);
                EXPECT_FALSE(has_temporary_file(run)) << layer.names()[call];
                // Closing a folder that is synced already has nothing left to lose.
                EXPECT_TRUE(!saved || layer.names()[call] == "close");
                errors += saved ? 0 : 1;
              });
  }
  EXPECT_EQ(errors, static_cast<int>(calls) - 4);
}

TEST_F(Crash, writes_that_end_early_go_on_where_they_ended) {
  save_with({Fault::Kind::shortens, 0},
            [&](const fs::path& run, const FileLayer& layer, bool saved) {
              EXPECT_TRUE(saved);
              EXPECT_GT(std::ranges::count(layer.names(), "write"), 20);
              expect_old_or_new(run, true);
            });
}

// The layer itself: it would notice a writer that forgets what AtomicFile does.
TEST(FileLayer, shows_what_a_missing_sync_loses) {
  const test::TemporaryFolder folder;
  fs::create_directory(folder / "run");
  const fs::path file = folder / "run/a";
  const auto write = [&](bool sync_file, bool sync_folder, const PowerCut& cut) {
    const test::TemporaryFolder after;
    test::write_file(file, "old");
    {
      const FileLayer layer(folder / "run");
      io::detail::Descriptor out(
          ::open((file.string() + ".new").c_str(), O_WRONLY | O_CREAT, 0600));
      EXPECT_EQ(::write(out.get(), "new", 3), 3);
      EXPECT_EQ(sync_file ? ::fsync(out.get()) : 0, 0);
      out.close();
      EXPECT_EQ(::rename((file.string() + ".new").c_str(), file.c_str()), 0);
      EXPECT_EQ(sync_folder ? io::detail::sync_folder(folder / "run") : 0, 0);
      test::write_disk(layer.disk_after(cut), after / "cut");
    }
    return io::read_file(after / "cut/a", 100);
  };
  EXPECT_EQ(write(true, true, {}), "new");
  EXPECT_EQ(write(true, false, {}), "old");
  EXPECT_EQ(write(true, false, {.names = true}), "new");
  EXPECT_EQ(write(false, true, {}), "");
  EXPECT_EQ(write(false, true, {.data = PowerCut::Data::half}), "n");
  EXPECT_EQ(write(false, true, {.data = PowerCut::Data::zeros}), std::string(3, '\0'));
}

TEST(CreateFolders, makes_all_levels_durably_and_does_not_mind_those_that_are_there) {
  const test::TemporaryFolder folder;
  fs::create_directory(folder / "run");
  const test::TemporaryFolder after;
  {
    const FileLayer layer(folder / "run");
    io::create_folders(folder / "run/a/b/c");
    test::write_disk(layer.disk_after({}), after / "cut");
  }
  EXPECT_TRUE(fs::is_directory(after / "cut/a/b/c"));
  EXPECT_NO_THROW(io::create_folders(folder / "run/a/b/c"));
  test::write_file(folder / "run/file", "x");
  EXPECT_THROW(io::create_folders(folder / "run/file"), FileError);
  EXPECT_THROW(io::create_folders(folder / "run/file/below"), FileError);
  EXPECT_THROW(io::create_folders("/proc/no/such/place"), FileError);
}

}  // namespace
