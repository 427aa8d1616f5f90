#include <reef/torch/module.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <exception>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include <reef/comm/communicator.hpp>
#include <reef/comm/mpi.hpp>
#include <reef/pipeline/ordered.hpp>
#include <reef/trainer/checkpoint.hpp>

#include "../support/small_gpt.hpp"
#include "counting_allocator.hpp"
#include "mixed_model.hpp"

// Models of native operators and of libtorch modules, trained on several ranks.

namespace torch_modules {

enum class Thrown { std_exception, of_reef, of_libtorch, integer };

/// y = x, until its forward number `last`.
struct FuseImpl : torch::nn::Module {
  FuseImpl(int forwards, Thrown thrown) : left(forwards), what(thrown) {}
  torch::Tensor forward(const torch::Tensor& x) {
    if (left-- != 0) return x * 1;
    if (what == Thrown::of_reef) throw reef::DecodeError("the fuse has blown");
    if (what == Thrown::integer) throw 42;
    TORCH_CHECK(what != Thrown::of_libtorch, "the fuse has blown");
    throw std::runtime_error("the fuse has blown");
  }
  int left;
  Thrown what;
};
TORCH_MODULE(Fuse);

}  // namespace torch_modules

namespace reef::test {
namespace {

using testing::HasSubstr;
using Whole = Trainer<optim::Ddp<optim::AdamW>>;
using Staged = Trainer<pipeline::Ordered, optim::Ddp<optim::AdamW>>;
using Model = graph::Graph<device::Host, float>;

Model mixed_model(std::uint64_t seed = 3, const torch_modules::Fuse& fuse = nullptr, const torch::ModuleOptions& options = {}) {
  return MixedModel<device::Host>{.seed = seed, .options = options}([&](Model& g, int x) {
    return fuse.is_empty() ? x : g.add("fuse", torch::Module(fuse), {x})[0];
  });
}

template <class TrainerType>
TrainerType mixed_trainer(const typename TrainerType::Options& options, const comm::Communicator& ranks,
                          Model model = mixed_model()) {
  return TrainerType(std::move(model), small_source(), options, small_source(), ranks);
}

TEST(TorchInATrainer, replicas_train_to_the_bits_of_one_process) {
  const comm::Communicator world;
  const comm::Communicator self = world.split(world.rank(), 0, "self");
  Whole alone = mixed_trainer<Whole>(alone_options<Whole>(uneven_counts(world.size())), self);
  Whole spread = mixed_trainer<Whole>(uneven_options<Whole>(), world);
  const auto wanted = outcome_of(alone, 3);
  EXPECT_GT(wanted.norms[0], 0.5);  // so that gradients are clipped
  EXPECT_NE(wanted.losses[0], wanted.losses[1]);
  EXPECT_EQ(outcome_of(spread, 3), wanted);
}

TEST(TorchInATrainer, parameters_begin_with_the_values_of_the_module) {
  const comm::Communicator self = comm::Communicator().split(world_rank(), 0, "self");
  Whole trainer = mixed_trainer<Whole>(small_options<Whole>(), self);
  ::torch::manual_seed(3);
  const torch_modules::GptBlock block(small_config().channels, small_config().heads);
  const ::torch::Tensor wanted = block->c_fc->weight.detach().contiguous();
  const std::vector<float> weight = trainer.parameter("block.0.c_fc.weight");
  ASSERT_EQ(static_cast<std::int64_t>(weight.size()), wanted.numel());
  EXPECT_TRUE(std::equal(weight.begin(), weight.end(), wanted.data_ptr<float>()));
}

TEST(TorchInATrainer, what_modules_take_in_a_call_is_estimated_beside_what_is_planned) {
  const Model model = mixed_model();
  const StepEstimate step = Whole::estimate(model, small_options<Whole>(), 1);
  Bytes most = 0;
  for (const graph::Node& node : model.dag().nodes) most = std::max(most, node.signature.heap_bytes);
  EXPECT_EQ(step.heap_bytes, most);
  // A block keeps more of a micro-batch than its scores and its hidden layer.
  const auto config = small_config();
  const std::int64_t scores = config.batch * config.heads * config.context * config.context;
  const std::int64_t hidden = config.batch * config.context * 4 * config.channels;
  EXPECT_GT(most, static_cast<Bytes>(4 * (scores + hidden)));
  EXPECT_LT(most, static_cast<Bytes>(4 * 20 * (scores + hidden)));
  EXPECT_THAT(step.text(), HasSubstr(concat("beside these, of operators ", format_bytes(most))));
}

/// Three micro-batches over the stages, cut at these nodes.
Staged::Options staged_options(std::vector<int> cuts, int stages, const char* schedule) {
  auto options = small_options<Staged>();
  options.micro_batches = {3};
  options.cuts = std::move(cuts);
  options.topology = run::Topology(1, stages);
  options.pipeline.schedule = schedule;
  return options;
}

/// What one process leaves behind that does as these stages for two steps.
auto wanted_of_stages() {
  const comm::Communicator self = comm::Communicator().split(world_rank(), 0, "self");
  auto options = small_options<Whole>();
  options.micro_batches = {3};
  Whole alone = mixed_trainer<Whole>(options, self);
  return outcome_of(alone, 2);
}

TEST(TorchInATrainer, stages_of_any_cut_train_to_the_bits_of_one_process) {
  const comm::Communicator world;
  const auto wanted = wanted_of_stages();
  const int nodes = mixed_model().dag().node_count();
  std::vector<int> everywhere;
  for (int cut = 1; cut < nodes; ++cut) everywhere.push_back(cut);
  std::vector<std::pair<std::vector<int>, const char*>> cases{{everywhere, "1f1b"}, {everywhere, "zb-v"}};
  if (world.size() == 2) {
    for (int cut = 1; cut < nodes; ++cut) cases.push_back({{cut}, "gpipe"});
  }
  for (const auto& [cuts, schedule] : cases) {
    SCOPED_TRACE(concat(schedule, ", the first of ", cuts.size(), " cuts at ", cuts.front()));
    Staged spread = mixed_trainer<Staged>(staged_options(cuts, world.size(), schedule), world);
    EXPECT_EQ(outcome_of(spread, 2), wanted);
  }
}

/// Of several micro-batches under way a module keeps the graph of the last alone: the others run again.
TEST(TorchInATrainer, stages_whose_modules_keep_graphs_train_to_the_bits_of_one_process) {
  const comm::Communicator world;
  const auto wanted = wanted_of_stages();
  for (const char* const schedule : {"gpipe", "1f1b"}) {
    SCOPED_TRACE(schedule);
    Staged spread = mixed_trainer<Staged>(staged_options({2, 6}, world.size(), schedule), world, mixed_model(3, nullptr, {.keeps_graph = true}));
    EXPECT_EQ(outcome_of(spread, 2), wanted);
  }
}

/// A backward has the weights of its forward, whatever has been updated since.
TEST(TorchInATrainer, stages_that_update_within_a_step_have_the_same_bits_where_graphs_are_kept) {
  const comm::Communicator world;
  for (const char* const schedule : {"pipedream", "2bw"}) {
    SCOPED_TRACE(schedule);
    auto options = staged_options({2, 6}, world.size(), schedule);
    options.micro_batches = {2 * world.size()};  // two updates of 2bw
    options.clip_norm = 0;
    options.non_finite = optim::NonFinite::ignore;
    const auto outcome = [&](bool keeps) {
      Staged staged = mixed_trainer<Staged>(options, world, mixed_model(3, nullptr, {.keeps_graph = keeps}));
      return outcome_of(staged, 3);
    };
    EXPECT_EQ(outcome(true), outcome(false));
  }
}

/// The graphs of all nodes of a rank add up, and the estimate knows.
TEST(TorchInATrainer, modules_that_keep_graphs_take_no_more_memory_than_is_stated_for_all_of_them) {
  const comm::Communicator world;
  const auto expect_stated = [](auto& trainer, Bytes stated, bool adds_up) {
    trainer.step();
    const Bytes taken = torch_memory_of([&] { trainer.step(); });
    EXPECT_LE(taken, stated);
    EXPECT_GT(2 * taken, stated);
    if (!adds_up) return;
    for (const graph::Node& node : trainer.model().dag().nodes) EXPECT_GT(taken, node.signature.heap_bytes) << node.name;
  };
  const auto model = [] { return mixed_model(3, nullptr, {.keeps_graph = true}); };
  Whole whole = mixed_trainer<Whole>(small_options<Whole>(), world, model());
  expect_stated(whole, Whole::estimate(model(), small_options<Whole>(), world.size()).heap_bytes, true);
  for (const char* const schedule : {"gpipe", "1f1b"}) {
    SCOPED_TRACE(schedule);
    const auto options = staged_options({2, 6}, world.size(), schedule);
    Staged staged = mixed_trainer<Staged>(options, world, model());
    expect_stated(staged, Staged::estimate(model(), options, world.size(), world.rank()).heap_bytes, world.size() == 1);
  }
}

TEST(TorchInATrainer, recomputed_activations_give_the_same_bits) {
  const comm::Communicator self = comm::Communicator().split(world_rank(), 0, "self");
  Whole kept = mixed_trainer<Whole>(small_options<Whole>(), self);
  auto options = small_options<Whole>();
  options.activations = {Activations::recompute};
  Whole recomputed = mixed_trainer<Whole>(options, self);
  EXPECT_EQ(outcome_of(recomputed, 2), outcome_of(kept, 2));
}

TEST(TorchInATrainer, resumes_on_other_ranks_to_the_bits_of_the_undisturbed_run) {
  const comm::Communicator world;
  const comm::Communicator self = world.split(world.rank(), 0, "self");
  const SharedFolder folder("torch");
  auto of_one = small_options<Whole>();
  of_one.micro_batches = {3};
  Whole undisturbed = mixed_trainer<Whole>(of_one, self);
  outcome_of(undisturbed, 2);
  {
    Staged first = mixed_trainer<Staged>(staged_options({3, 6}, world.size(), "1f1b"), world);
    outcome_of(first, 2);
    checkpoint::save(first, folder.path());
  }
  MPI_Barrier(MPI_COMM_WORLD);
  if (world.rank() == 0) {
    // What its modules begin with is another's: the checkpoint's values count.
    Whole second = mixed_trainer<Whole>(of_one, self, mixed_model(4));
    EXPECT_TRUE(checkpoint::resume(second, folder.path()).has_value());
    EXPECT_EQ(outcome_of(second, 2), outcome_of(undisturbed, 2));
  }
}

TEST(TorchInATrainer, ranks_whose_modules_begin_otherwise_are_refused) {
  if (world_size() < 2) GTEST_SKIP() << "one rank does not differ";
  try {
    const Whole trainer = mixed_trainer<Whole>(small_options<Whole>(), comm::Communicator(), mixed_model(world_rank() == 1 ? 9 : 3));
    ADD_FAILURE() << "no exception";
  } catch (const OptionError& error) {
    EXPECT_THAT(error.what(), HasSubstr("values that parameters begin with"));
  }
}

TEST(TorchInATrainer, an_exception_of_a_module_names_it_the_rank_and_the_micro_batch_on_all_ranks) {
  if (world_size() < 2) GTEST_SKIP() << "there is nobody to be told";
  using torch_modules::Thrown;
  const bool fails = world_rank() == 1;
  auto options = small_options<Whole>();
  options.micro_batches = {3};
  options.communication.abort_on_deadline = false;
  const comm::Communicator world;
  for (const Thrown thrown : {Thrown::std_exception, Thrown::of_reef, Thrown::of_libtorch, Thrown::integer}) {
    const std::string words = thrown == Thrown::integer ? "it has thrown what is no std::exception" : "the fuse has blown";
    SCOPED_TRACE(static_cast<int>(thrown));
    // The node's addition takes two forwards, the first micro-batch two: the third is that of micro-batch 1.
    Whole trainer = mixed_trainer<Whole>(options, world, mixed_model(3, torch_modules::Fuse(fails ? 4 : 1000, thrown)));
    MPI_Barrier(MPI_COMM_WORLD);  // else the failure may overtake the end of the constructor elsewhere
    try {
      trainer.step();
      ADD_FAILURE() << "no exception";
    } catch (const graph::OperatorError& error) {
      EXPECT_TRUE(fails);
      EXPECT_THAT(error.what(), HasSubstr("on rank 1, micro-batch 1, "));
      EXPECT_THAT(error.what(), HasSubstr("forward of the node 'fuse' of kind TorchModule"));
      EXPECT_THAT(error.what(), HasSubstr(concat("torch_modules::FuseImpl: ", words)));
      const auto again = [&] { std::rethrow_exception(error.cause()); };
      switch (thrown) {
        case Thrown::std_exception: EXPECT_THROW(again(), std::runtime_error); break;
        case Thrown::of_reef: EXPECT_THROW(again(), DecodeError); break;
        case Thrown::of_libtorch: EXPECT_THROW(again(), c10::Error); break;
        case Thrown::integer: EXPECT_THROW(again(), int); break;
      }
    } catch (const comm::PeerError& error) {
      EXPECT_FALSE(fails);
      EXPECT_THAT(error.what(), HasSubstr("rank 1 reported: "));
      EXPECT_THAT(error.what(), HasSubstr("micro-batch 1, "));
      EXPECT_THAT(error.what(), HasSubstr(concat("torch_modules::FuseImpl: ", words)));
    }
    MPI_Barrier(MPI_COMM_WORLD);
  }
}

}  // namespace
}  // namespace reef::test
