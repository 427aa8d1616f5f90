#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <exception>
#include <memory>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>

#include <reef/comm/error.hpp>
#include <reef/comm/mpi.hpp>
#include <reef/core/error.hpp>
#include <reef/nn/cross_entropy.hpp>
#include <reef/nn/embedding.hpp>
#include <reef/nn/linear.hpp>
#include <reef/trainer/trainer.hpp>

#include "../support/ranks.hpp"

// What the ranks hear of a rank that fails alone, and who calls MPI while a Trainer lives.

namespace {

/// Calls of MPI_Comm_free; -1: not counted.
std::atomic<int> freed{-1};  // NOLINT(cppcoreguidelines-avoid-non-const-global-variables)

}  // namespace

// In the place of the library's own, which goes by its second name.
extern "C" int MPI_Comm_free(MPI_Comm* comm) {
  if (freed >= 0) ++freed;
  return PMPI_Comm_free(comm);
}

namespace reef::test {

namespace {

using testing::HasSubstr;
using Host = device::Host;
using Plain = Trainer<>;

constexpr std::int64_t vocabulary = 7;

enum class Pass : std::uint8_t { none, forward, backward };

/// y = x, until the third pass of a kind, which throws: what any code may, or an error of Reef's.
struct Fuse {
  static constexpr std::string_view kind = "Fuse";
  Pass blows = Pass::none;
  std::shared_ptr<int> passes = std::make_shared<int>(0);

  graph::Signature signature(const auto& call) const {
    call.expect_inputs(1);
    graph::Signature result;
    result.outputs = {call.inputs[0]};
    return result;
  }

  void forward(const auto& call) const {
    burn(Pass::forward);
    std::ranges::copy(call.input(0).span(), call.output(0).data());
  }

  void backward(const auto& call) const {
    burn(Pass::backward);
    const auto dy = call.output_gradient(0).span();
    const auto dx = call.input_gradient(0).span();
    for (std::size_t i = 0; i < dx.size(); ++i) dx[i] = (call.accumulates(0) ? dx[i] : 0) + dy[i];
  }

  void burn(Pass pass) const {
    if (pass != blows || ++*passes != 3) return;
    if (pass == Pass::forward) throw std::runtime_error("the fuse has blown");
    throw OptionError("the fuse has blown");
  }
};

/// A bigram model with a fuse in its middle.
Plain::Model model(Pass blows) {
  Plain::Model g(1);
  const int tokens = g.input("tokens", {{2, 3}, Element::int32});
  const int targets = g.input("targets", {{2, 3}, Element::int32});
  int x = g.add("embedding", nn::Embedding{vocabulary, 3, 5}, {tokens})[0];
  x = g.add("fuse", Fuse{.blows = blows}, {x})[0];
  x = g.add("head", nn::Linear{.features = vocabulary}, {x})[0];
  g.loss(g.add("loss", nn::CrossEntropy{}, {x, targets})[0]);
  return g;
}

double source(std::uint64_t first, std::span<const AnyView> inputs) {
  std::int64_t next = static_cast<std::int64_t>(first);
  for (const AnyView& input : inputs) {
    for (std::int32_t& token : input.as<std::int32_t>().span()) {
      token = static_cast<std::int32_t>(next++ % vocabulary);
    }
  }
  return 1;
}

Plain::Options options() {
  Plain::Options result;
  result.device.threads = 1;
  result.communication.operation_deadline = 20;
  result.communication.abort_on_deadline = false;
  return result;
}

}  // namespace

class FailureOfOneRank : public testing::TestWithParam<Pass> {};

TEST_P(FailureOfOneRank, ends_the_step_of_all_at_once_with_the_operators_own_words) {
  const bool fails = world_rank() == 1;
  Plain trainer(model(fails ? GetParam() : Pass::none), source, options());
  try {
    for (int step = 0; step < 4; ++step) trainer.step();
    ADD_FAILURE() << "no exception";
  } catch (const comm::MpiError& error) {
    EXPECT_FALSE(fails);
    EXPECT_THAT(error.what(), HasSubstr("rank 1 reported: reef::run: on rank 1, micro-batch 0, samples from "));
    EXPECT_THAT(error.what(), HasSubstr("the fuse has blown"));
  } catch (const graph::OperatorError& error) {
    EXPECT_TRUE(fails);
    const bool forward = GetParam() == Pass::forward;
    const int first = 2 * (2 * world_size() + 1);  // of micro-batches of 2 samples, the second one's in the third step
    EXPECT_EQ(std::string(error.what()),
              concat("reef::run: on rank 1, micro-batch 0, samples from ", first, ": reef::graph: the ",
                     forward ? "forward" : "backward", " of the node 'fuse' of kind Fuse has failed: the fuse has blown"));
    if (forward) {
      EXPECT_THROW(std::rethrow_exception(error.cause()), std::runtime_error);
    } else {
      EXPECT_THROW(std::rethrow_exception(error.cause()), OptionError);
    }
  }
  // Every rank still has its Trainer: nobody was told by a destructor.
  MPI_Barrier(MPI_COMM_WORLD);
}

INSTANTIATE_TEST_SUITE_P(Passes, FailureOfOneRank, testing::Values(Pass::forward, Pass::backward),
                         [](const auto& tested) {
                           return tested.param == Pass::forward ? "forward" : "backward";
                         });

TEST(Failure, of_a_constructor_on_one_rank_reaches_the_others_with_its_cause) {
  const bool fails = world_rank() == 1;
  Plain::Options small = options();
  if (fails) small.device.memory_bytes = 64;
  try {
    const Plain trainer(model(Pass::none), source, small);
    ADD_FAILURE() << "no exception";
  } catch (const comm::MpiError& error) {
    EXPECT_FALSE(fails);
    EXPECT_THAT(error.what(), HasSubstr("rank 1 reported: reef::schedule"));
    EXPECT_THAT(error.what(), HasSubstr("64 B"));
  } catch (const ScheduleError& error) {
    EXPECT_TRUE(fails);
    EXPECT_THAT(error.what(), HasSubstr("64 B"));
  }
}

TEST(Trainer, frees_no_communicator_of_its_own_while_it_lives) {
  const auto freed_during = [](const auto&... communicator) {
    freed = 0;
    Plain trainer(model(Pass::none), source, options(), {}, communicator...);
    trainer.step();
    return freed.exchange(-1);
  };
  // What is freed with ranks that were given is freed before the progress thread starts.
  const comm::Communicator world;
  EXPECT_EQ(freed_during(), freed_during(world));
}

}  // namespace reef::test
