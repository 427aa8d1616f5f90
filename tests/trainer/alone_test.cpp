// A process alone communicates, and trains, without MPI: comm::Communicator::alone.

#include <reef/comm/communicator.hpp>

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <reef/comm/environment.hpp>
#include <reef/comm/error.hpp>
#include <reef/comm/functions.hpp>
#include <reef/comm/gather.hpp>
#include <reef/comm/progress.hpp>
#include <reef/comm/shared_counter.hpp>
#include <reef/nn/gpt.hpp>

#include <support/small_gpt.hpp>

namespace reef::test {
namespace {

using comm::Communicator;
using AloneTrainer = Trainer<optim::Ddp<optim::AdamW>>;

// The last test starts MPI, and none ends it for another: so the tests come in this order.

TEST(Alone, a_communicator_has_one_rank_and_only_such_parts) {
  ASSERT_FALSE(comm::Environment::active());
  Communicator first = Communicator::alone("here");
  EXPECT_EQ(first.rank(), 0);
  EXPECT_EQ(first.size(), 1);
  EXPECT_EQ(first.name(), "here");
  EXPECT_TRUE(first.is_alone());
  EXPECT_TRUE(first.shared_node().is_alone());
  EXPECT_EQ(first.split(3, 0, "part").name(), "part");
  const Communicator second = std::move(first);
  EXPECT_TRUE(second.is_alone());
  EXPECT_FALSE(first.is_alone());  // NOLINT(bugprone-use-after-move): what was moved from is nobody's
}

TEST(Alone, its_collectives_are_of_itself) {
  comm::Progress progress(Communicator::alone());
  EXPECT_EQ(progress.rank(), 0);
  EXPECT_EQ(progress.size(), 1);
  EXPECT_EQ(comm::gather_numbers(progress, "numbers", 7), std::vector<int>{7});
  comm::SharedCounter counter(progress, "counter");
  EXPECT_EQ(counter.next(), 0U);
  EXPECT_EQ(counter.next(), 1U);
  std::vector<double> values{1, 2};
  comm::broadcast(progress, "values", 0, std::span(values));
  EXPECT_EQ(values, (std::vector<double>{1, 2}));
  EXPECT_EQ(progress.meter().total().bytes, 0U);
  EXPECT_FALSE(comm::Environment::active());
}

TEST(Alone, others_say_that_there_is_no_environment) {
  EXPECT_THAT([] { const comm::Progress progress(comm::ProgressOptions{}); },
              testing::ThrowsMessage<comm::MpiError>(testing::HasSubstr("there is no comm::Environment")));
}

TEST(Alone, a_trainer_has_the_bits_that_it_has_with_mpi) {
  const auto model = nn::gpt<device::Host, float>(small_config(), 1);
  const auto options = small_options<AloneTrainer>();
  Outcome<float> alone;
  double evaluated = 0;
  {
    AloneTrainer trainer(model, small_source(), options, small_source(), Communicator::alone());
    alone = outcome_of(trainer, 4);
    evaluated = trainer.evaluate(2);
  }
  EXPECT_FALSE(comm::Environment::active());
  int argc = 1;
  std::string name = "trainer.alone";
  char* list[] = {name.data(), nullptr};
  char** argv = list;
  const comm::Environment mpi(argc, argv);
  AloneTrainer trainer(model, small_source(), options, small_source());
  EXPECT_EQ(outcome_of(trainer, 4), alone);
  EXPECT_EQ(trainer.evaluate(2), evaluated);
}

}  // namespace
}  // namespace reef::test
