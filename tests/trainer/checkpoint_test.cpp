#include <gtest/gtest.h>

#include <mpi.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>

#include <reef/optim/adamw.hpp>
#include <reef/optim/ddp.hpp>
#include <reef/optim/zero1.hpp>
#include <reef/trainer/checkpoint.hpp>

#include "small_gpt.hpp"

namespace reef::test {

namespace {

using Tested = Trainer<optim::Zero1<optim::AdamW>>;

int world_rank() {
  int rank = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  return rank;
}

int world_size() {
  int size = 1;
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  return size;
}

/// A folder that all ranks share, empty, gone at the end.
class SharedFolder {
public:
  explicit SharedFolder(const std::string& name)
      : path_(std::filesystem::temp_directory_path() /
              ("reef-" + name + "-" + std::to_string(world_size()) + "-" + launcher())) {
    if (world_rank() == 0) std::filesystem::remove_all(path_);
    MPI_Barrier(MPI_COMM_WORLD);
  }
  ~SharedFolder() {
    MPI_Barrier(MPI_COMM_WORLD);
    if (world_rank() == 0) std::filesystem::remove_all(path_);
  }
  [[nodiscard]] const std::filesystem::path& path() const { return path_; }

private:
  /// The process number of rank 0, the same on every rank.
  static std::string launcher() {
    int id = static_cast<int>(getpid());
    MPI_Bcast(&id, 1, MPI_INT, 0, MPI_COMM_WORLD);
    return std::to_string(id);
  }
  std::filesystem::path path_;
};

Tested::Options options() {
  Tested::Options result = small_options<Tested>();
  result.micro_batches = {1 + world_rank() % 2};
  return result;
}

/// Trains `before` steps, saves, trains `after` more.
Outcome<float> train_and_save(const std::filesystem::path& folder, int before, int after) {
  const comm::Communicator world;
  Tested trainer(nn::gpt<device::Host, float>(small_config(), 1), small_source(), options(), {},
                 world);
  outcome_of(trainer, before);
  checkpoint::save(trainer, folder, {{"note", "from the test"}});
  return outcome_of(trainer, after);
}

}  // namespace

TEST(Checkpoint, a_resumed_run_goes_on_with_the_bits_of_the_undisturbed_one) {
  const SharedFolder folder("resume");
  const auto undisturbed = train_and_save(folder.path(), 3, 3);
  const comm::Communicator world;
  Tested::Options other = options();
  Tested trainer(nn::gpt<device::Host, float>(small_config(), 1), small_source(), other, {}, world);
  const auto facts = checkpoint::resume(trainer, folder.path());
  ASSERT_TRUE(facts.has_value());
  EXPECT_EQ(facts->at("note"), "from the test");
  EXPECT_EQ(trainer.progress_state().committed, 3);
  EXPECT_EQ(trainer.progress_state().micro_batch,
            3U * static_cast<unsigned>(trainer.plan().micro_batches_in_all()));
  EXPECT_EQ(outcome_of(trainer, 3), undisturbed);
}

TEST(Checkpoint, another_number_of_ranks_takes_over_the_state) {
  const SharedFolder folder("reshard");
  train_and_save(folder.path(), 3, 0);
  // One process that stands for all goes on with the bits that all ranks would have.
  std::vector<int> counts;
  for (int r = 0; r < world_size(); ++r) counts.push_back(1 + r % 2);
  const comm::Communicator world;
  Outcome<float> together;
  {
    Tested trainer(nn::gpt<device::Host, float>(small_config(), 1), small_source(), options(), {},
                   world);
    ASSERT_TRUE(checkpoint::resume(trainer, folder.path()).has_value());
    together = outcome_of(trainer, 2);
  }
  Tested::Options alone = options();
  alone.virtual_ranks = world_size();
  alone.micro_batches = counts;
  const comm::Communicator self(MPI_COMM_SELF);
  Tested trainer(nn::gpt<device::Host, float>(small_config(), 1), small_source(), alone, {}, self);
  ASSERT_TRUE(checkpoint::resume(trainer, folder.path()).has_value());
  EXPECT_EQ(outcome_of(trainer, 2), together);
}

TEST(Checkpoint, ddp_with_other_buckets_takes_over_the_state) {
  using Replicated = Trainer<optim::Ddp<optim::AdamW>>;
  const SharedFolder folder("buckets");
  const comm::Communicator world;
  const auto run = [&](Bytes bucket_bytes, bool save) {
    Replicated::Options changed = small_options<Replicated>();
    changed.clip_norm = 0;  // the norm is summed by buckets
    changed.bucket_bytes = bucket_bytes;
    Replicated trainer(nn::gpt<device::Host, float>(small_config(), 1), small_source(), changed, {},
                       world);
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
  Tested trainer(nn::gpt<device::Host, float>(small_config(), 1), small_source(), options(), {},
                 world);
  EXPECT_FALSE(checkpoint::resume(trainer, folder.path()).has_value());
  if (world_rank() == 0) {
    std::filesystem::create_directories(folder.path() / "step-000000007");
    std::ofstream(folder.path() / "step-000000007" / "model.safetensors") << "torn";
  }
  MPI_Barrier(MPI_COMM_WORLD);
  EXPECT_FALSE(checkpoint::resume(trainer, folder.path()).has_value());
}

TEST(Checkpoint, a_damaged_file_is_refused_on_every_rank) {
  const SharedFolder folder("damaged");
  train_and_save(folder.path(), 1, 0);
  if (world_rank() == 0) {
    std::fstream file(folder.path() / "step-000000001" / "model.safetensors",
                      std::ios::in | std::ios::out | std::ios::binary);
    file.seekp(-5, std::ios::end);
    file.put('x');
  }
  MPI_Barrier(MPI_COMM_WORLD);
  const comm::Communicator world;
  Tested trainer(nn::gpt<device::Host, float>(small_config(), 1), small_source(), options(), {},
                 world);
  EXPECT_THROW(checkpoint::resume(trainer, folder.path()), FileError);
}

TEST(Checkpoint, a_run_with_another_seed_is_refused) {
  const SharedFolder folder("seed");
  train_and_save(folder.path(), 1, 0);
  Tested::Options other = options();
  other.seed += 1;
  const comm::Communicator world;
  Tested trainer(nn::gpt<device::Host, float>(small_config(), 1), small_source(), other, {}, world);
  try {
    checkpoint::resume(trainer, folder.path());
    ADD_FAILURE() << "no FileError";
  } catch (const FileError& error) {
    EXPECT_NE(std::string(error.what()).find("seed"), std::string::npos) << error.what();
  }
}

TEST(Checkpoint, saving_to_a_directory_that_cannot_be_made_is_refused_on_every_rank) {
  const comm::Communicator world;
  Tested trainer(nn::gpt<device::Host, float>(small_config(), 1), small_source(), options(), {},
                 world);
  EXPECT_THROW(checkpoint::save(trainer, "/proc/no-such-place"), FileError);
  EXPECT_NO_THROW(trainer.step());
}

}  // namespace reef::test
