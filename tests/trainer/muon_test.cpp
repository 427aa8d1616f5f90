// A rule that needs whole matrices, under the optimizers, swap policies and pipelines that give it such: the laws of a
// step, and the bits of one rank.

#include <reef/optim/muon.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <map>
#include <numeric>
#include <set>
#include <span>
#include <string>
#include <vector>

#include <reef/codec/chosen.hpp>
#include <reef/comm/mpi.hpp>
#include <reef/compress/channels.hpp>
#include <reef/optim/diloco.hpp>
#include <reef/pipeline/ordered.hpp>
#include <reef/swap/atom.hpp>

#include "../laws/trainer.hpp"
#include "swapped.hpp"

namespace reef::test {

INSTANTIATE_TYPED_TEST_SUITE_P(Muon, TrainerLaws, SynchronousCases<optim::Muon>);

using MuonInBf16 = testing::Types<TrainerCase<Trainer<optim::Zero1<optim::Muon>, precision::Bf16>,
                                              Trainer<optim::Ddp<optim::Muon>, precision::Bf16>>>;
INSTANTIATE_TYPED_TEST_SUITE_P(MuonInBf16, TrainerLaws, MuonInBf16);

using MuonSwapped = testing::Types<
    TrainerCase<Trainer<swap::Atom<>, optim::Zero1<optim::Muon>>, Trainer<optim::Ddp<optim::Muon>>>>;
INSTANTIATE_TYPED_TEST_SUITE_P(MuonSwapped, TrainerLaws, MuonSwapped);

namespace {

using MuonDdp = Trainer<optim::Ddp<optim::Muon>>;
using MuonZero1 = Trainer<optim::Zero1<optim::Muon>>;
using MuonDiLoCo = Trainer<optim::DiLoCo<optim::Muon>>;
template <class Optim>
using Encoded = Trainer<compress::Channels<compress::Gradient<codec::Chosen>>, Optim>;
using MuonStages = Trainer<pipeline::Ordered, optim::Zero1<optim::Muon>>;

nn::GptConfig without_dropout() {
  nn::GptConfig config = small_config();
  config.dropout = 0;
  return config;
}

TEST(MuonTrainer, shards_cut_no_hidden_matrix_and_share_the_work) {
  const auto model = nn::gpt<device::Host, float>({.layers = 4, .heads = 2, .channels = 32, .vocabulary = 64, .context = 16}, 1);
  const graph::Dag& dag = model.dag();
  std::vector<int> cuts{0, 9, 18, 27, dag.node_count()};
  for (const int ranks : {1, 2, 3, 4}) {
    const std::vector<int> counts(static_cast<std::size_t>(ranks), 1);
    run::StepPlan plan = run::make_step_plan(dag, cuts, run::Topology(ranks), 1, counts, false);
    const std::vector<run::Bucket> elementwise = plan.buckets;
    optim::plan_whole_matrices<device::Host, float>(plan, optim::AdamW{}, 1);
    for (std::size_t b = 0; b < plan.buckets.size(); ++b) EXPECT_EQ(plan.buckets[b].shards, elementwise[b].shards);
    EXPECT_FALSE(plan.matrices.needed());

    optim::plan_whole_matrices<device::Host, float>(plan, optim::Muon{}, 1);
    std::vector<double> loads(static_cast<std::size_t>(ranks));
    double largest = 0;
    for (std::size_t p = 0; p < dag.parameters.size(); ++p) {
      const run::Bucket& bucket = plan.buckets[static_cast<std::size_t>(plan.bucket_of_parameter[p])];
      const std::int64_t at = plan.layout.parameters[p] - bucket.begin;
      const auto matrix = plan.matrices.of(p);
      const auto elements = dag.parameters[p].spec.shape.size();
      largest = std::max(largest, matrix ? matrix->flops + 128.0 * static_cast<double>(elements) : 128.0 * run::norm_block);
      int owners = 0;
      for (int r = 0; r < ranks; ++r) {
        const std::int64_t from = std::max(at, bucket.shard_begin(r));
        const std::int64_t to = std::min(at + elements, bucket.shard_begin(r) + bucket.shard_size(r));
        if (from >= to) continue;
        ++owners;
        loads[static_cast<std::size_t>(r)] += (matrix ? matrix->flops : 0) + 128.0 * static_cast<double>(to - from);
        EXPECT_EQ((from - at) % run::norm_block, 0);
      }
      if (!matrix) continue;
      EXPECT_EQ(owners, 1) << dag.parameters[p].name << " on " << ranks << " ranks";
    }
    for (std::size_t r = 0; r < loads.size(); ++r) EXPECT_EQ(static_cast<double>(plan.matrices.loads[r]), loads[r]);
    const double all = std::accumulate(loads.begin(), loads.end(), 0.0);
    EXPECT_LE(*std::max_element(loads.begin(), loads.end()), all / ranks + largest);
    EXPECT_GE(*std::min_element(loads.begin(), loads.end()), all / ranks - largest);
  }
}

TEST(MuonTrainer, keeps_momentum_alone_of_hidden_matrices) {
  const comm::Communicator world;
  auto ddp = small_trainer<MuonDdp>(small_options<MuonDdp>(), world);
  std::map<std::string, std::set<std::int64_t>> kept;  // by state: the weights, by place in the layout
  for (const auto& range : ddp.state_ranges()) {
    for (std::int64_t i = 0; i < range.elements; ++i) EXPECT_TRUE(kept[range.name].insert(range.begin + i).second);
  }
  EXPECT_EQ(kept.size(), 2U);
  const graph::Dag& dag = ddp.model().dag();
  std::int64_t matrices = 0;
  for (std::size_t p = 0; p < dag.parameters.size(); ++p) {
    const bool whole = ddp.plan().matrices.of(p).has_value();
    const std::int64_t begin = ddp.plan().layout.parameters[p];
    const std::int64_t last = begin + dag.parameters[p].spec.shape.size() - 1;
    for (const std::int64_t at : {begin, last}) {
      EXPECT_TRUE(kept["state.0"].contains(at));
      EXPECT_EQ(kept["state.1"].contains(at), !whole) << dag.parameters[p].name;
    }
    matrices += whole ? 1 : 0;
  }
  EXPECT_EQ(matrices, 4 * small_config().layers);
  const auto estimate = MuonDdp::estimate(ddp.model(), ddp.options(), ddp.ranks(), ddp.rank());
  EXPECT_GE(estimate.workspaces, ddp.plan().matrices.of(static_cast<std::size_t>(dag.parameter("transformer.h.0.mlp.c_fc.weight")))->workspace);
  EXPECT_EQ(estimate.optimizer_state, sizeof(float) * (kept["state.0"].size() + kept["state.1"].size()));
}

TEST(MuonTrainer, a_table_is_cut_between_norm_blocks_and_its_state_found_again) {
  nn::GptConfig config = small_config();
  config.padded_vocabulary = 6000;  // more work than all hidden matrices are
  const comm::Communicator world;
  for (const Bytes bucket_bytes : {Bytes{8192}, Bytes{1} << 30}) {
    const SharedFolder folder("muon_table");
    auto options = small_options<MuonZero1>();
    options.bucket_bytes = bucket_bytes;
    auto sharded = small_trainer<MuonZero1>(options, world, config);
    const auto table = sharded.plan().bucket_of_parameter[static_cast<std::size_t>(sharded.model().dag().parameter("transformer.wte.weight"))];
    const std::vector<std::int64_t>& shards = sharded.plan().buckets[static_cast<std::size_t>(table)].shards;
    EXPECT_EQ(shards[1] < 6000 * config.channels, world_size() > 1) << "the table comes first";
    auto of_all = small_options<MuonDdp>();
    of_all.bucket_bytes = bucket_bytes;
    auto whole = small_trainer<MuonDdp>(of_all, world, config);
    EXPECT_EQ(outcome_of(sharded, 2), outcome_of(whole, 2));
    checkpoint::save(sharded, folder.path());
    const auto expected = outcome_of(whole, 2);
    EXPECT_EQ(outcome_of(sharded, 2), expected);
    auto resumed = small_trainer<MuonDdp>(of_all, world, config);
    EXPECT_TRUE(checkpoint::resume(resumed, folder.path()).has_value());
    EXPECT_EQ(outcome_of(resumed, 2), expected);
    const SharedFolder other("muon_table_whole");
    checkpoint::save(resumed, other.path());
    auto again = small_trainer<MuonZero1>(options, world, config);
    EXPECT_TRUE(checkpoint::resume(again, other.path()).has_value());
    EXPECT_EQ(outcome_of(again, 2), outcome_of(resumed, 2));
  }
}

TEST(MuonTrainer, steps_by_orthogonal_matrices_where_the_graph_says_and_by_adamw_elsewhere) {
  // A first step without decay: AdamW moves each weight by the rate; of a hidden matrix W the change is made of singular
  // values from 0.68 to 1.21, at most, times rate * 0.2 sqrt(max).
  auto options = small_options<MuonDdp>();
  options.rule.options.weight_decay = 0;
  options.learning_rate = {.peak = 0.125};
  const comm::Communicator world;
  auto trainer = small_trainer<MuonDdp>(options, world);
  std::vector<std::vector<float>> before;
  for (const auto& parameter : trainer.model().dag().parameters) before.push_back(trainer.parameter(parameter.name));
  trainer.step();
  for (std::size_t p = 0; p < before.size(); ++p) {
    const graph::Parameter& parameter = trainer.model().dag().parameters[p];
    const auto after = trainer.parameter(parameter.name);
    double squares = 0;
    double largest = 0;
    for (std::size_t i = 0; i < after.size(); ++i) {
      const double change = static_cast<double>(after[i]) - static_cast<double>(before[p][i]);
      squares += change * change;
      largest = std::max(largest, std::abs(change));
    }
    if (const auto matrix = trainer.plan().matrices.of(p)) {
      const double unit = 0.125 * 0.2 * std::sqrt(static_cast<double>(std::max(matrix->rows, matrix->columns)));
      const auto k = static_cast<double>(std::min(matrix->rows, matrix->columns));
      EXPECT_GT(std::sqrt(squares), 0.3 * unit * std::sqrt(k)) << parameter.name;
      EXPECT_LT(std::sqrt(squares), 1.21 * unit * std::sqrt(k)) << parameter.name;
    } else {
      EXPECT_NEAR(largest, 0.125, 1e-3) << parameter.name;
    }
  }
}

TEST(MuonTrainer, a_group_says_what_is_a_whole_matrix) {
  const comm::Communicator self(MPI_COMM_SELF);
  auto options = small_options<MuonDdp>();
  options.groups = {{.pattern = "*.mlp.c_proj.weight", .whole_matrix = false},
                    {.pattern = "transformer.wte.weight", .whole_matrix = true}};
  auto trainer = small_trainer<MuonDdp>(options, self);
  trainer.step();
  const graph::Dag& dag = trainer.model().dag();
  const auto whole = [&](const char* name) {
    return trainer.plan().matrices.of(static_cast<std::size_t>(dag.parameter(name))).has_value();
  };
  EXPECT_TRUE(whole("transformer.wte.weight"));
  EXPECT_FALSE(whole("transformer.wpe.weight"));
  EXPECT_FALSE(whole("transformer.h.1.mlp.c_proj.weight"));
  EXPECT_TRUE(whole("transformer.h.1.mlp.c_fc.weight"));

  // All as elements: the bits of AdamW.
  options.groups = {{.pattern = "*", .whole_matrix = false}};
  using AdamWDdp = Trainer<optim::Ddp<optim::AdamW>>;
  EXPECT_EQ(train<MuonDdp>(options, 4, MPI_COMM_SELF), train<AdamWDdp>(small_options<AdamWDdp>(), 4, MPI_COMM_SELF));

  options.groups = {{.pattern = "*.bias", .whole_matrix = true}};
  EXPECT_THROW(small_trainer<MuonDdp>(options, self), OptionError);
}

TEST(MuonTrainer, swapped_gives_the_bits_of_a_model_that_stays) {
  using MuonAtom = Trainer<swap::Atom<>, optim::Ddp<optim::Muon>>;
  const auto expected = left_by<MuonDdp>(small_options<MuonDdp>(), 0.2F);
  auto options = small_options<MuonAtom>();
  options.device.link_bytes_per_second = 4e9;
  options.device.poison_freed = true;
  options.activations = {Activations::recompute};
  EXPECT_EQ(left_by<MuonAtom>(options, 0.2F), expected);
  options.device.memory_bytes = 400'000;
  options.activations.clear();
  EXPECT_EQ(left_by<MuonAtom>(options, 0.2F), expected);
}

/// As small_source, but every rank reads what one rank alone would.
run::Source of_one_rank(int ranks) {
  return [source = small_source(), ranks, batch = static_cast<std::uint64_t>(small_config().batch)](
             std::uint64_t first, std::span<const AnyView> inputs) {
    return source(first / batch / static_cast<std::uint64_t>(ranks) * batch, inputs);
  };
}

MuonDiLoCo diloco(run::OuterSchedule::Overlap overlap, const comm::Communicator& ranks) {
  auto options = small_options<MuonDiLoCo>();
  options.optim.every = 4;
  options.optim.fragments = 2;
  options.optim.overlap = overlap;
  return {nn::gpt<device::Host, float>(without_dropout(), 1), of_one_rank(ranks.size()), options,
          of_one_rank(ranks.size()), ranks};
}

TEST(MuonTrainer, ranks_that_step_on_their_own_step_as_one_alone) {
  if (world_size() == 3) GTEST_SKIP() << "the mean of three equal numbers is rounded";
  using Overlap = run::OuterSchedule::Overlap;
  const comm::Communicator world;
  const comm::Communicator self(MPI_COMM_SELF);
  for (const Overlap overlap : {Overlap::none, Overlap::mix}) {
    auto alone = diloco(overlap, self);
    const auto expected = outcome_of(alone, 9);
    auto together = diloco(overlap, world);
    EXPECT_EQ(outcome_of(together, 9), expected);
  }
  // Before the first outer step there is nothing but the inner rule.
  auto options = small_options<MuonDdp>();
  MuonDdp inner(nn::gpt<device::Host, float>(without_dropout(), 1), of_one_rank(1), options, {}, self);
  auto outer = diloco(Overlap::none, self);
  inner.step();
  outer.step();
  outer.gather_committed_weights();
  std::map<std::int64_t, float> own;
  for (const auto& range : outer.state_ranges()) {
    if (range.name != "rank.0.weights") continue;
    const auto values = outer.state(range);
    for (std::size_t i = 0; i < values.size(); ++i) own[range.begin + static_cast<std::int64_t>(i)] = static_cast<float>(values[i]);
  }
  for (std::size_t p = 0; p < inner.model().dag().parameters.size(); ++p) {
    std::int64_t at = inner.plan().layout.parameters[p];
    for (const float w : inner.parameter(inner.model().dag().parameters[p].name)) ASSERT_EQ(own.at(at++), w) << p;
  }
}

TEST(MuonTrainer, a_resumed_run_of_ranks_on_their_own_goes_on_with_its_bits) {
  const SharedFolder folder("muon_diloco");
  const comm::Communicator world;
  auto undisturbed = diloco(run::OuterSchedule::Overlap::none, world);
  outcome_of(undisturbed, 3);
  checkpoint::save(undisturbed, folder.path());
  const auto rest = outcome_of(undisturbed, 4);
  auto resumed = diloco(run::OuterSchedule::Overlap::none, world);
  EXPECT_TRUE(checkpoint::resume(resumed, folder.path()).has_value());
  EXPECT_EQ(outcome_of(resumed, 4), rest);
}

template <class TrainerType>
void expect_the_laws_of_encoded_gradients(const Outcome<float>& plain) {
  const auto of = [](auto options, const char* gradient) {
    options.compress.gradient = codec::Chosen::of(gradient);
    return options;
  };
  const auto together = uneven_options<TrainerType>();
  const auto alone = alone_options<TrainerType>(uneven_counts(world_size()));
  for (const char* const gradient : {"ef+top-k:4", "ef21+blockwise8"}) {
    SCOPED_TRACE(gradient);
    const auto encoded = train<TrainerType>(of(together, gradient));
    EXPECT_EQ(encoded, train<TrainerType>(of(alone, gradient), 4, MPI_COMM_SELF));
    EXPECT_EQ(encoded.weights == plain.weights, world_size() == 1) << "nothing is sent by one rank, and something lost by more";
  }
  EXPECT_EQ(train<TrainerType>(of(together, "dense")), plain);
}

TEST(MuonTrainer, encoded_gradients_give_the_bits_of_one_process_and_dense_ones_change_none) {
  const auto plain = train<MuonZero1>(uneven_options<MuonZero1>());
  expect_the_laws_of_encoded_gradients<Encoded<optim::Zero1<optim::Muon>>>(plain);
  expect_the_laws_of_encoded_gradients<Encoded<optim::Ddp<optim::Muon>>>(plain);
}

/// What a run of stages leaves: the losses, and all parameters.
template <class Options>
std::pair<std::vector<double>, std::vector<std::vector<float>>> stages(Options options, const comm::Communicator& ranks,
                                                                      int steps) {
  auto trainer = small_trainer<MuonStages>(options, ranks);
  std::vector<double> losses;
  for (int step = 0; step < steps; ++step) losses.push_back(trainer.step().loss);
  std::vector<std::vector<float>> weights;
  for (const auto& parameter : trainer.model().dag().parameters) weights.push_back(trainer.gather_parameter(parameter.name));
  return {losses, weights};
}

TEST(MuonTrainer, stages_give_the_bits_of_one_process) {
  auto options = small_options<MuonStages>();
  options.micro_batches = {3};
  options.pipeline.schedule = "1f1b";
  const comm::Communicator world;
  const comm::Communicator self(MPI_COMM_SELF);
  options.topology = run::Topology(1, 1);
  const auto expected = stages(options, self, 3);
  options.topology = run::Topology(1, world_size());
  EXPECT_EQ(stages(options, world, 3), expected);
}

TEST(MuonTrainer, updates_within_a_step_are_those_of_as_many_steps) {
  const comm::Communicator self(MPI_COMM_SELF);
  auto options = small_options<MuonStages>();
  options.topology = run::Topology(1, 1);
  options.pipeline.schedule = "pipedream";
  options.micro_batches = {3};
  options.clip_norm = 0;
  options.non_finite = optim::NonFinite::ignore;
  options.learning_rate = {.peak = 0.01};
  const auto within = stages(options, self, 2);
  auto each = small_options<MuonDdp>();
  each.clip_norm = 0;
  each.learning_rate = {.peak = 0.01};
  EXPECT_EQ(within.second, train<MuonDdp>(each, 6, MPI_COMM_SELF).weights);
}

}  // namespace
}  // namespace reef::test
