// reef-train on ranks whose devices differ: what op-fence lays out is what the proof takes.

#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <reef/core/text.hpp>

#include "reef_train_job.hpp"

namespace reef::test {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

class ReefTrainMachines : public ReefTrainFolder {
protected:
  ReefTrainMachines() { write("text.txt", story(400)); }

  [[nodiscard]] std::string program(const std::string& options) const {
    return concat(REEF_TRAIN, " --data ", path("text.txt"),
                  " --model 4x2x32 --context 16 --batch 4 --threads 1 --prompt-bytes 0 "
                  "--eval-tokens 64 --steps 1 ",
                  options);
  }
  [[nodiscard]] Ending train(int ranks, const std::string& options) const {
    return run_ranks(REEF_TEST_MPIEXEC, ranks, program(options));
  }
};

TEST_F(ReefTrainMachines, op_fence_lays_out_no_more_for_a_rank_than_the_proof_takes) {
  for (const char* const options :
       {"--recipe dtfm --device-memory 1200000,1200000,600000,600000",
        "--recipe dtfm --device-memory 700000,9e5,1e6,500000",
        "--recipe dtfm --micro-batches 4 --pipeline gpipe --device-memory 4e6,2500000,1e6,8e5",
        "--recipe dtfm --stages 2 --device-memory 2e6,2e6,9e5,9e5",
        "--recipe fusion --device-memory 1e6,1e6,650000,650000"}) {
    const Ending ending = train(4, concat("--layout op-fence ", options));
    EXPECT_EQ(ending.status, 0) << options << ending;
    EXPECT_THAT(ending.errors, AllOf(HasSubstr("stages: laid out for"), Not(HasSubstr("verify"))))
        << options;
  }
}

TEST_F(ReefTrainMachines, ranks_of_two_command_lines_have_the_memory_of_theirs) {
  const std::string common = "--recipe dtfm --layout op-fence --device-memory ";
  const Ending ending = run_ranks(
      REEF_TEST_MPIEXEC, {{2, program(common + "1200000")}, {2, program(common + "600000")}});
  EXPECT_EQ(ending.status, 0) << ending;
  EXPECT_THAT(ending.errors, HasSubstr("stages: laid out for"));
}

TEST_F(ReefTrainMachines, where_no_layout_fits_the_rank_that_lacks_memory_is_named) {
  const Ending ending =
      train(4, "--recipe dtfm --layout op-fence --device-memory 600000,600000,400000,400000");
  EXPECT_EQ(ending.status, 1) << ending;
  EXPECT_THAT(ending.errors,
              AllOf(HasSubstr("no layout of 4 stages was found that fits"),
                    testing::ContainsRegex("rank [0-3], stage [0-3] of 4 with operators "),
                    testing::ContainsRegex("needs [0-9.]+ KiB of [0-9.]+ KiB"), HasSubstr("fix: "),
                    Not(HasSubstr("stages: laid out"))));
}

TEST_F(ReefTrainMachines, a_list_has_one_number_for_each_rank) {
  for (const char* const option : {"--device-memory 8e6,8e6,8e6", "--device-link 1,1,1"}) {
    const Ending ending = train(2, concat("--recipe atom ", option));
    EXPECT_EQ(ending.status, 1) << ending;
    EXPECT_THAT(ending.errors, HasSubstr("has 3 numbers, and there are 2 ranks.\n  fix: one number "
                                         "for all, or one for each rank"));
  }
  // Of ranks that are to prove what does not fit the one with little memory says so.
  const Ending ending = train(2, "--recipe ddp --device-memory 8e9,300000");
  EXPECT_NE(ending.status, 0) << ending;
  EXPECT_THAT(ending.errors, HasSubstr("rank 1 needs "));
  EXPECT_THAT(ending.errors, HasSubstr("of which there are 292.97 KiB"));
  EXPECT_EQ(train(1, "--recipe ddp --device-memory 8e9").status, 0);
}

TEST_F(ReefTrainMachines, a_stage_that_is_swapped_is_laid_out_whatever_its_weights_take) {
  const Ending ending =
      train(2, "--recipe reef --layout op-fence --device-memory 9e5,8e5 --device-link 1");
  EXPECT_EQ(ending.status, 0) << ending;
  EXPECT_THAT(ending.errors, HasSubstr("stages: laid out for"));
}

}  // namespace
}  // namespace reef::test
