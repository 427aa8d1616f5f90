#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <dlfcn.h>
#include <fcntl.h>
#include <sys/resource.h>

#include <cmath>
#include <csignal>
#include <cstdarg>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include <reef/comm/mpi.hpp>
#include <reef/io/checkpoint_folders.hpp>
#include <reef/io/directory_lock.hpp>
#include <reef/io/manifest.hpp>
#include <reef/optim/adamw.hpp>
#include <reef/optim/ddp.hpp>
#include <reef/optim/zero1.hpp>
#include <reef/trainer/checkpoint.hpp>

#include "../support/small_gpt.hpp"

namespace {

/// This process finds another file in the place of one, once it has opened it so many times.
struct Changes {
  std::string path;
  std::string to;
  int after = 0;
};
Changes changes;  // NOLINT(cppcoreguidelines-avoid-non-const-global-variables)

}  // namespace

// In the place of the library's own, which is the next of that name.
extern "C" int open(const char* path, int flags, ...) {
  static const auto real =
      reinterpret_cast<int (*)(const char*, int, ...)>(::dlsym(RTLD_NEXT, "open"));
  mode_t mode = 0;
  if ((flags & O_CREAT) != 0) {
    va_list arguments;
    va_start(arguments, flags);
    mode = va_arg(arguments, mode_t);
    va_end(arguments);
  }
  const bool is_changed = changes.path == path && changes.after-- <= 0;
  return real(is_changed ? changes.to.c_str() : path, flags, mode);
}

namespace reef::test {

namespace {

using Tested = Trainer<optim::Zero1<optim::AdamW>>;

Tested::Options options() { return uneven_options<Tested>(); }

/// Trains `steps` and saves.
void train_and_save(const std::filesystem::path& folder, int steps) {
  const comm::Communicator world;
  Tested trainer = small_trainer<Tested>(options(), world);
  outcome_of(trainer, steps);
  checkpoint::save(trainer, folder, {{"note", "from the test"}});
}

}  // namespace

TEST(Checkpoint, a_resume_gives_back_what_the_caller_saved_with_it) {
  const SharedFolder folder("facts");
  train_and_save(folder.path(), 2);
  const comm::Communicator world;
  Tested trainer = small_trainer<Tested>(options(), world);
  const auto facts = checkpoint::resume(trainer, folder.path());
  ASSERT_TRUE(facts.has_value());
  EXPECT_EQ(facts->at("note"), "from the test");
}

TEST(Checkpoint, ddp_with_other_buckets_takes_over_the_state) {
  using Replicated = Trainer<optim::Ddp<optim::AdamW>>;
  const SharedFolder folder("buckets");
  const comm::Communicator world;
  const auto run = [&](Bytes bucket_bytes, bool save) {
    typename Replicated::Options changed = small_options<Replicated>();
    changed.bucket_bytes = bucket_bytes;
    Replicated trainer = small_trainer<Replicated>(changed, world);
    if (save) {
      outcome_of(trainer, 2);
      checkpoint::save(trainer, folder.path());
    } else {
      EXPECT_TRUE(checkpoint::resume(trainer, folder.path()).has_value());
    }
    return outcome_of(trainer, 2).weights;
  };
  const auto undisturbed = run(8192, true);
  EXPECT_EQ(run(1, false), undisturbed);
  EXPECT_EQ(run(Bytes{1} << 30, false), undisturbed);
}

TEST(Checkpoint, a_directory_without_a_complete_checkpoint_gives_nothing) {
  const SharedFolder folder("empty");
  const comm::Communicator world;
  Tested trainer = small_trainer<Tested>(options(), world);
  EXPECT_FALSE(checkpoint::resume(trainer, folder.path()).has_value());
  if (world_rank() == 0) {
    std::filesystem::create_directories(folder.path() / "step-000000007");
    std::ofstream(folder.path() / "step-000000007" / "model.safetensors") << "torn";
  }
  MPI_Barrier(MPI_COMM_WORLD);
  EXPECT_FALSE(checkpoint::resume(trainer, folder.path()).has_value());
}

TEST(Checkpoint, a_damaged_file_is_refused_on_every_rank_and_the_trainer_stays_as_it_was) {
  const SharedFolder folder("damaged");
  train_and_save(folder.path(), 1);
  const comm::Communicator world;
  Tested trainer = small_trainer<Tested>(options(), world);
  const auto flip_last = [&](const char* name) {
    MPI_Barrier(MPI_COMM_WORLD);
    if (world_rank() == 0) {
      std::fstream file(folder.path() / "step-000000001" / name,
                        std::ios::in | std::ios::out | std::ios::binary);
      file.seekg(-1, std::ios::end);
      const int last = file.get();
      file.seekp(-1, std::ios::end);
      file.put(static_cast<char>(last ^ 1));
    }
    MPI_Barrier(MPI_COMM_WORLD);
  };
  for (const char* name : {"model.safetensors", "optimizer-0.safetensors"}) {
    flip_last(name);
    EXPECT_THROW(checkpoint::resume(trainer, folder.path()), FileError) << name;
    flip_last(name);
  }
  Tested fresh = small_trainer<Tested>(options(), world);
  EXPECT_EQ(outcome_of(trainer, 2), outcome_of(fresh, 2));
}

TEST(Checkpoint, that_is_another_when_it_is_read_again_is_an_error_of_every_rank) {
  const SharedFolder folder("changes");
  train_and_save(folder.path(), 2);
  const std::filesystem::path place = folder.path() / "step-000000002";
  const comm::Communicator world;
  const int last = world.size() - 1;
  if (world.rank() == last) {
    std::filesystem::copy_file(place / "model.safetensors", folder.path() / "damaged");
    std::fstream file(folder.path() / "damaged", std::ios::in | std::ios::out | std::ios::binary);
    file.seekp(-1, std::ios::end);
    file.put('\x55');
  }
  const auto outcome_after_resume = [&](Tested& trainer) {
    EXPECT_TRUE(checkpoint::resume(trainer, folder.path()).has_value());
    return outcome_of(trainer, 2);
  };
  Tested undisturbed = small_trainer<Tested>(options(), world);
  const auto expected = outcome_after_resume(undisturbed);
  struct Case {
    const char* shard;
    const char* to;
    const char* why;
  };
  for (const auto& [shard, to, why] :
       {Case{"model.safetensors", "damaged", "is damaged: its checksum differs"},
        Case{"optimizer-0.safetensors", "gone", "No such file"}}) {
    Tested trainer = small_trainer<Tested>(options(), world);
    if (world.rank() == last)
      changes = {(place / shard).string(), (folder.path() / to).string(), 1};
    try {
      checkpoint::resume(trainer, folder.path());
      ADD_FAILURE() << "no FileError: " << why;
    } catch (const FileError& error) {
      for (const std::string& text :
           {"reading a checkpoint again failed on rank " + std::to_string(last), std::string(shard),
            std::string(why)}) {
        EXPECT_NE(std::string(error.what()).find(text), std::string::npos) << error.what();
      }
    }
    changes = {};
    EXPECT_EQ(outcome_after_resume(trainer), expected) << "a whole one takes the place of a half";
  }
}

template <class Replicated>
void expect_the_same_between_devices_and_buckets() {
  nn::GptConfig config = small_config();
  config.channels = 204;  // one tensor of 4 * 204 * 204 elements, and one bucket of them all
  config.layers = 1;
  const SharedFolder folder("pieces");
  const comm::Communicator world;
  const auto run = [&](Bytes bucket_bytes, Bytes device_bytes, bool resumes) {
    typename Replicated::Options changed = small_options<Replicated>();
    changed.bucket_bytes = bucket_bytes;
    changed.device.memory_bytes =
        device_bytes;  // if there is a limit, its memory is not the host's
    Replicated trainer = small_trainer<Replicated>(changed, world, config);
    if (resumes) {
      EXPECT_TRUE(checkpoint::resume(trainer, folder.path()).has_value());
    } else {
      outcome_of(trainer, 1);
    }
    MPI_Barrier(MPI_COMM_WORLD);
    checkpoint::save(trainer, folder.path());
    return outcome_of(trainer, 1).weights;
  };
  constexpr Bytes whole = Bytes{1} << 30;
  const auto undisturbed = run(whole, 0, false);
  EXPECT_EQ(run(500'000, 0, true), undisturbed);
  EXPECT_EQ(run(700'000, whole, true), undisturbed);
  EXPECT_EQ(run(whole, whole, true), undisturbed);
  EXPECT_EQ(run(whole, 0, true), undisturbed);
}

TEST(Checkpoint, tensors_of_many_pieces_go_between_devices_and_buckets) {
  expect_the_same_between_devices_and_buckets<Trainer<optim::Ddp<optim::AdamW>>>();
}

TEST(Checkpoint, tensors_of_many_pieces_go_between_them_in_bf16_too) {
  expect_the_same_between_devices_and_buckets<Trainer<precision::Bf16, optim::Ddp<optim::AdamW>>>();
}

TEST(Checkpoint, what_cannot_be_is_refused_though_all_checksums_are_right) {
  const SharedFolder folder("cannot-be");
  train_and_save(folder.path(), 2);
  const std::filesystem::path place = folder.path() / "step-000000002";
  const comm::Communicator world;
  Tested trainer = small_trainer<Tested>(options(), world);
  const io::Manifest good = io::read_manifest(place);
  const auto refused = [&](const io::Manifest& manifest, const std::string& text) {
    MPI_Barrier(MPI_COMM_WORLD);
    if (world.rank() == 0) io::write_manifest(place, manifest);
    MPI_Barrier(MPI_COMM_WORLD);
    try {
      checkpoint::resume(trainer, folder.path());
      ADD_FAILURE() << "no FileError: " << text;
    } catch (const FileError& error) {
      EXPECT_NE(std::string(error.what()).find(text), std::string::npos) << error.what();
    }
  };
  const auto with = [&](const char* fact, int value) {
    io::Manifest manifest = good;
    manifest.facts[fact] = value;
    return manifest;
  };
  refused(with("committed", -2), "is of step -2, its folder of step 2");
  refused(with("committed", 34), "is of step 34, its folder of step 2");
  refused(with("began", 3), "its ranks began together after step 3");
  refused(with("updates", 1), "is of step 2, but of 1 updates");
  refused(with("updates", -1), "is of step 2, but of -1 updates");
  for (const std::vector<std::uint64_t>& unused :
       {std::vector<std::uint64_t>{1, 1}, {std::uint64_t{1} << 40}}) {
    io::Manifest manifest = good;
    manifest.facts["unused"] = unused;
    refused(manifest, "unused micro-batches that do not rise");
  }
  io::Manifest without_user = good;
  without_user.facts.erase("user");
  refused(without_user, "'user' is missing");

  // All parameters but the first, and the last one once more in a file of its own.
  const auto& parameters = trainer.model().dag().parameters;
  std::vector<std::vector<float>> values;
  std::vector<io::NamedView> views;
  for (const graph::Parameter& parameter : parameters) {
    const Shape& shape = parameter.spec.shape;
    values.emplace_back(static_cast<std::size_t>(shape.size()));
    views.push_back({parameter.name, {values.back().data(), shape, Element::float32}});
  }
  io::Manifest incomplete = good;
  const auto is_model = [](const io::Shard& shard) { return shard.file.starts_with("model."); };
  std::erase_if(incomplete.shards, is_model);
  const auto add_shard = [&](const char* name, std::span<const io::NamedView> some) {
    MPI_Barrier(MPI_COMM_WORLD);
    if (world.rank() == 0) incomplete.shards.push_back(io::write_safetensors(place / name, some));
    MPI_Barrier(MPI_COMM_WORLD);
  };
  add_shard("model.8.safetensors", std::span(views).subspan(1));
  refused(incomplete, "does not hold all parameters");
  add_shard("model.9.safetensors", std::span(views).last(1));
  refused(incomplete, "'" + parameters.back().name + "' is there twice");
}

TEST(Checkpoint, a_run_with_another_seed_is_refused) {
  const SharedFolder folder("seed");
  train_and_save(folder.path(), 1);
  Tested::Options other = options();
  other.seed += 1;
  const comm::Communicator world;
  Tested trainer = small_trainer<Tested>(other, world);
  try {
    checkpoint::resume(trainer, folder.path());
    ADD_FAILURE() << "no FileError";
  } catch (const FileError& error) {
    EXPECT_NE(std::string(error.what()).find("another seed: 11, here it is 12"), std::string::npos)
        << error.what();
  }
}

TEST(Checkpoint,
     facts_come_back_equal_and_what_cannot_is_refused_by_name_before_anything_is_written) {
  const SharedFolder folder("facts-equal");
  const comm::Communicator world;
  Tested trainer = small_trainer<Tested>(options(), world);
  const io::Json facts{{"large", {9007199254740993, 18446744073709551615U, -9223372036854775807}},
                       {"reals", {0.1, -0.0, 1e300, 5e-324}},
                       {"text", std::string("nul\0 \xc3\xa4", 7)},
                       {"nested", {{"a.b", nullptr}, {"", {{}, io::Json::array()}}}}};
  for (const io::Json& some : std::vector<io::Json>{facts, nullptr, "text", 7, {1, 2}}) {
    checkpoint::save(trainer, folder.path(), some);
    const auto back = checkpoint::resume(trainer, folder.path());
    ASSERT_TRUE(back.has_value());
    EXPECT_EQ(back->dump(), some.dump());
  }
  trainer.step();
  try {
    checkpoint::save(trainer, folder.path(), {{"best", std::nan("")}});
    ADD_FAILURE() << "no FileError";
  } catch (const FileError& error) {
    EXPECT_NE(std::string(error.what()).find("facts.'best' is nan"), std::string::npos)
        << error.what();
  }
  EXPECT_EQ(io::complete_checkpoints(folder.path()), std::vector<std::uint64_t>{0});
  EXPECT_FALSE(std::filesystem::exists(folder.path() / "step-000000001"));
}

TEST(Checkpoint, of_another_job_keeps_a_directory_from_being_written_to_and_can_be_resumed_from) {
  const SharedFolder folder("claimed");
  // Every rank is a job of its own.
  const comm::Communicator self(MPI_COMM_SELF);
  Tested::Options alone = options();
  alone.micro_batches = {1};
  auto first = std::make_unique<Tested>(nn::gpt<device::Host, float>(small_config(), 1),
                                        small_source(), alone, run::Source{}, self);
  if (world_rank() == 0) checkpoint::save(*first, folder.path(), {{"of", "rank 0"}});
  MPI_Barrier(MPI_COMM_WORLD);
  Tested second(nn::gpt<device::Host, float>(small_config(), 1), small_source(), alone,
                run::Source{}, self);
  try {
    checkpoint::save(second, folder.path());
    ADD_FAILURE() << "no FileError";
  } catch (const FileError& error) {
    EXPECT_NE(std::string(error.what()).find("another job writes to '" + folder.path().string()),
              std::string::npos)
        << error.what();
  }
  EXPECT_EQ(checkpoint::resume(second, folder.path())->at("of"), "rank 0");
  EXPECT_NO_THROW(second.step());
  MPI_Barrier(MPI_COMM_WORLD);
  first.reset();
  MPI_Barrier(MPI_COMM_WORLD);
  if (world_rank() == world_size() - 1) {
    EXPECT_NO_THROW(checkpoint::save(second, folder.path()));
    EXPECT_EQ(io::complete_checkpoints(folder.path()), (std::vector<std::uint64_t>{0, 1}));
  }
}

TEST(Checkpoint, directories_that_the_ranks_do_not_share_are_found_before_anything_is_written) {
  if (world_size() == 1) GTEST_SKIP() << "needs two ranks";
  const SharedFolder folder("apart");
  const comm::Communicator world;
  Tested trainer = small_trainer<Tested>(options(), world);
  const int last = world_size() - 1;
  const auto own = folder.path() / (world_rank() == last ? "elsewhere" : "here");
  for (const bool there : {false, true}) {
    if (there) std::filesystem::create_directories(own);
    MPI_Barrier(MPI_COMM_WORLD);
    try {
      checkpoint::claim(trainer, own);
      ADD_FAILURE() << "no FileError";
    } catch (const FileError& error) {
      const std::string text = error.what();
      EXPECT_NE(text.find("rank " + std::to_string(last) + " does not see what rank 0 writes"),
                std::string::npos)
          << text;
      EXPECT_NE(text.find((folder.path() / "elsewhere").string()), std::string::npos) << text;
      EXPECT_NE(text.find("fix: give all ranks the same directory"), std::string::npos) << text;
    }
    EXPECT_EQ(std::filesystem::exists(own), there);
    EXPECT_TRUE(!there || std::filesystem::is_empty(own));
    MPI_Barrier(MPI_COMM_WORLD);
  }
  // Under other names it is one directory all the same.
  checkpoint::save(trainer, folder.path() / (world_rank() == last ? "here/../here" : "here"));
  EXPECT_EQ(io::complete_checkpoints(folder.path() / "here"), std::vector<std::uint64_t>{0});
}

TEST(Checkpoint, what_a_failed_save_wrote_is_removed_and_older_ones_stay_as_they_were) {
  const SharedFolder folder("failed");
  const comm::Communicator world;
  Tested trainer = small_trainer<Tested>(options(), world);
  checkpoint::save(trainer, folder.path());
  const auto files = [&](const char* step) {
    std::map<std::string, std::string> found;
    for (const auto& entry : std::filesystem::directory_iterator(folder.path() / step)) {
      found[entry.path().filename()] = io::read_file(entry.path(), 64_MiB);
    }
    return found;
  };
  const auto before = files("step-000000000");
  const auto save_on_a_full_disk = [&](int rank) {
    rlimit usual{};
    ::getrlimit(RLIMIT_FSIZE, &usual);
    const rlimit small{4096, usual.rlim_max};
    std::signal(SIGXFSZ, SIG_IGN);
    if (world_rank() == rank) ::setrlimit(RLIMIT_FSIZE, &small);
    EXPECT_THROW(checkpoint::save(trainer, folder.path()), FileError);
    ::setrlimit(RLIMIT_FSIZE, &usual);
    std::signal(SIGXFSZ, SIG_DFL);
    MPI_Barrier(MPI_COMM_WORLD);
  };
  for (const int rank : {0, world_size() - 1}) {
    save_on_a_full_disk(rank);
    EXPECT_EQ(files("step-000000000"), before) << "a checkpoint of the same step";
  }
  trainer.step();
  for (const int rank : {0, world_size() - 1}) {
    save_on_a_full_disk(rank);
    EXPECT_FALSE(std::filesystem::exists(folder.path() / "step-000000001"));
    EXPECT_EQ(files("step-000000000"), before) << "an older checkpoint";
  }
  EXPECT_NO_THROW(checkpoint::save(trainer, folder.path()));
  EXPECT_EQ(io::complete_checkpoints(folder.path()), (std::vector<std::uint64_t>{0, 1}));
}

TEST(Checkpoint,
     what_a_crash_left_is_gone_once_a_job_writes_there_and_what_others_put_there_stays) {
  const SharedFolder folder("crash");
  if (world_rank() == 0) {
    std::filesystem::create_directories(folder.path() / "step-000000007");
    std::filesystem::create_directories(folder.path() / "step-000000008");
    std::ofstream(folder.path() / "step-000000007" / "optimizer-1.safetensors.tmp.3.4") << "torn";
    std::ofstream(folder.path() / "step-000000008" / "best.safetensors") << "a user's";
    std::ofstream(folder.path() / "step-000000008" / "model.safetensors") << "being copied";
    std::ofstream(folder.path() / "reef.lock")
        << R"({"host": ")" << io::host_name() << R"(", "process": 1, "start": 0})";
  }
  MPI_Barrier(MPI_COMM_WORLD);
  {
    const comm::Communicator world;
    Tested trainer = small_trainer<Tested>(options(), world);
    checkpoint::claim(trainer, folder.path());
    EXPECT_TRUE(std::filesystem::exists(folder.path() / "step-000000007"))
        << "this job may be refused yet";
    MPI_Barrier(MPI_COMM_WORLD);
  }
  MPI_Barrier(MPI_COMM_WORLD);
  train_and_save(folder.path(), 1);
  MPI_Barrier(MPI_COMM_WORLD);
  for (const auto& entry : std::filesystem::directory_iterator(folder.path())) {
    EXPECT_THAT(entry.path().filename(), testing::AnyOf("step-000000001", "step-000000008"));
  }
  EXPECT_TRUE(std::filesystem::exists(folder.path() / "step-000000008" / "best.safetensors"));
  EXPECT_TRUE(std::filesystem::exists(folder.path() / "step-000000008" / "model.safetensors"));
}

TEST(Checkpoint, saving_to_a_directory_that_cannot_be_made_is_refused_on_every_rank) {
  const comm::Communicator world;
  Tested trainer = small_trainer<Tested>(options(), world);
  EXPECT_THROW(checkpoint::save(trainer, "/proc/no-such-place"), FileError);
  EXPECT_NO_THROW(trainer.step());
}

}  // namespace reef::test
