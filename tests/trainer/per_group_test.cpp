// Update rules by parameter group: the laws of a step, and the bits of each rule alone.

#include <reef/optim/per_group.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include <reef/comm/mpi.hpp>
#include <reef/graph/graph_json.hpp>
#include <reef/nn/registry.hpp>
#include <reef/optim/diloco.hpp>
#include <reef/optim/muon.hpp>
#include <reef/optim/sgd.hpp>
#include <reef/run/operator_groups.hpp>

#include "../laws/trainer.hpp"
#include "../support/overlapping_trainers.hpp"

namespace reef::test {

/// By AdamW the embeddings, by Sgd biases and the last norm, by Muon the hidden layers: small_options.
using MixedRule = optim::PerGroup<optim::AdamW, optim::Sgd, optim::Muon>;
INSTANTIATE_TYPED_TEST_SUITE_P(PerGroup, TrainerLaws, SynchronousCases<MixedRule>);

static_assert(optim::OptimizerPolicy<optim::DiLoCo<MixedRule>>);
static_assert(!rules::matrices_stay_whole<optim::Acco<MixedRule>>);

namespace {

using Mixed = Trainer<optim::Zero1<MixedRule>>;
using AdamWAlone = Trainer<optim::Zero1<optim::AdamW>>;
using SgdAlone = Trainer<optim::Ddp<optim::Sgd>>;
using MuonAlone = Trainer<optim::Ddp<optim::Muon>>;

/// Options whose groups, constants and clipping leave nothing in common to parameters of different rules.
template <class TrainerType>
typename TrainerType::Options options_of(std::vector<run::ParameterGroup> groups) {
  auto options = small_options<TrainerType>();
  options.micro_batches = {2};
  options.groups = std::move(groups);
  options.clip_norm = 0;
  return options;
}

template <class TrainerType>
Outcome<float> alone(int steps) {
  return train<TrainerType>(options_of<TrainerType>({}), steps);
}

TEST(PerGroup, gives_all_parameters_the_bits_of_the_first_rule_or_of_the_one_that_a_group_names) {
  const auto mixed = [](std::vector<run::ParameterGroup> groups) { return train<Mixed>(options_of<Mixed>(std::move(groups)), 4); };
  EXPECT_EQ(mixed({}), alone<AdamWAlone>(4));
  EXPECT_EQ(mixed({{.pattern = "*", .rule = 1}}), alone<SgdAlone>(4));
  EXPECT_EQ(mixed({{.pattern = "*", .rule = 2}}), alone<MuonAlone>(4));
}

TEST(PerGroup, gives_each_parameter_the_bits_of_its_own_rule) {
  auto options = small_options<Mixed>();
  options.micro_batches = {2};
  options.clip_norm = 0;
  const comm::Communicator world;
  auto trainer = small_trainer<Mixed>(options, world);
  const auto mixed = outcome_of(trainer, 1).weights;
  const std::vector by_rule{alone<AdamWAlone>(1).weights, alone<SgdAlone>(1).weights, alone<MuonAlone>(1).weights};
  std::set<int> met;
  for (std::size_t p = 0; p < mixed.size(); ++p) {
    const int rule = trainer.plan().rule_of(p);
    met.insert(rule);
    EXPECT_EQ(mixed[p], by_rule[static_cast<std::size_t>(rule)][p]) << trainer.model().dag().parameters[p].name;
  }
  EXPECT_EQ(met.size(), by_rule.size());
}

TEST(PerGroup, keeps_of_each_parameter_the_states_of_its_own_rule) {
  const comm::Communicator self(MPI_COMM_SELF);
  auto trainer = small_trainer<Mixed>(small_options<Mixed>(), self);
  std::map<std::string, std::set<std::int64_t>> kept;  // by state: the weights, by place in the layout
  for (const auto& range : trainer.state_ranges()) {
    for (std::int64_t i = 0; i < range.elements; ++i) EXPECT_TRUE(kept[range.name].insert(range.begin + i).second);
  }
  for (std::size_t p = 0; p < trainer.model().dag().parameters.size(); ++p) {
    const graph::Parameter& parameter = trainer.model().dag().parameters[p];
    const std::size_t states = trainer.plan().rule_of(p) == 1 ? 0 : trainer.plan().matrices.of(p) ? 1 : 2;
    for (const std::int64_t at : {std::int64_t{0}, parameter.spec.shape.size() - 1}) {
      const std::int64_t place = trainer.plan().layout.parameters[p] + at;
      EXPECT_EQ(kept["state.0"].count(place) + kept["state.1"].count(place), states) << parameter.name;
    }
  }
  const auto estimate = Mixed::estimate(trainer.model(), trainer.options());
  EXPECT_EQ(estimate.optimizer_state, sizeof(float) * (kept["state.0"].size() + kept["state.1"].size()));
}

/// Of rounds that overlap new weights leave as each rule makes them: one with another's place, and constants.
using Overlapping = Trainer<optim::Acco<optim::PerGroup<optim::Sgd, optim::AdamW, optim::AdamW>>>;

TEST(PerGroup, has_the_same_rule_with_other_constants_and_runs_in_rounds_that_overlap) {
  using Acco = Trainer<optim::Acco<optim::AdamW>>;
  auto options = options_of<Overlapping>({{.pattern = "*.h.*", .rule = 2}, {.pattern = "*", .rule = 1}});
  EXPECT_EQ(train<Overlapping>(options), train<Acco>(options_of<Acco>({})));
  std::get<2>(options.rule.rules).options.beta2 = 0.5;
  const auto other = train<Overlapping>(options);
  EXPECT_NE(other, train<Acco>(options_of<Acco>({})));
  options.groups.back().pattern = "*.bias";  // the rest by Sgd
  const auto mixed = train<Overlapping>(options);
  EXPECT_NE(mixed, other);
  auto alone = options;
  alone.virtual_ranks = world_size();
  alone.micro_batches.assign(static_cast<std::size_t>(world_size()), 2);
  EXPECT_EQ(mixed, train<Overlapping>(alone, 4, MPI_COMM_SELF));

  const SharedFolder folder("per_group");
  const comm::Communicator world;
  auto saved = small_trainer<Overlapping>(options, world);
  outcome_of(saved, 2);
  checkpoint::save(saved, folder.path());
  const auto rest = outcome_of(saved, 2);
  EXPECT_EQ(rest.weights, mixed.weights);
  auto resumed = small_trainer<Overlapping>(options, world);
  EXPECT_TRUE(checkpoint::resume(resumed, folder.path()).has_value());
  EXPECT_EQ(outcome_of(resumed, 2), rest);

  options.groups.front().rule = 1;
  auto changed = small_trainer<Overlapping>(options, world);
  try {
    checkpoint::resume(changed, folder.path());
    ADD_FAILURE() << "no error";
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), testing::HasSubstr("another rule: per_group(sgd, adamw, adamw)"));
  }
}

/// Of a file that says how operators are trained.
graph::Model<device::Host, float> model_of(const std::vector<std::pair<std::string, graph::OperatorOptimizer>>& optimizers) {
  const auto registry = nn::registry<device::Host, float>();
  io::Json json = graph::to_json(nn::gpt<device::Host, float>(small_config(), 1), registry);
  for (io::Json& node : json["nodes"]) {
    for (const auto& [name, optimizer] : optimizers) {
      if (node["name"] != name) continue;
      node["optimizer"] = {{"learning_rate", optimizer.learning_rate}};
      if (!optimizer.rule.empty()) node["optimizer"]["rule"] = optimizer.rule;
      if (optimizer.weight_decay) node["optimizer"]["weight_decay"] = *optimizer.weight_decay;
    }
  }
  return graph::from_json(json, "gpt.json", registry, 1);
}

TEST(PerGroup, trains_operators_as_a_file_says) {
  auto model = model_of({{"transformer.h.0.mlp.c_fc", {"muon", 0.5, {}}}, {"lm_head", {"sgd", 2, 0.125}}});
  auto options = options_of<Mixed>(run::groups_of_operators(model.graph.dag(), model.optimizers, optim::rule_names<MixedRule>));
  ASSERT_EQ(options.groups.size(), 3U);
  const comm::Communicator world;
  Mixed trainer(std::move(model.graph), small_source(), options, small_source(), world);
  const auto found = outcome_of(trainer, 3);
  EXPECT_EQ(found, train<Mixed>(options_of<Mixed>({{.pattern = "transformer.h.0.mlp.c_fc.*", .learning_rate = 0.5, .rule = 2},
                                                   {.pattern = "transformer.wte.*", .learning_rate = 2, .weight_decay = 0.125, .rule = 1}}), 3));
  EXPECT_NE(found, train<Mixed>(options_of<Mixed>({}), 3));
}

TEST(PerGroup, refuses_what_operators_cannot_have) {
  const auto refused = [](const std::vector<std::pair<std::string, graph::OperatorOptimizer>>& optimizers) -> std::string {
    const auto model = model_of(optimizers);
    try {
      run::groups_of_operators(model.graph.dag(), model.optimizers, optim::rule_names<MixedRule>);
    } catch (const OptionError& error) {
      return error.what();
    }
    return "none";
  };
  EXPECT_THAT(refused({{"lm_head", {"lion", 1, {}}}}),
              testing::HasSubstr("the operator 'lm_head' is to be trained by the rule 'lion', and this optimizer has adamw, sgd, muon."));
  EXPECT_THAT(refused({{"lm_head", {"sgd", 1, {}}}, {"transformer.embedding", {"sgd", 2, {}}}}),
              testing::HasSubstr("the operators 'transformer.embedding' and 'lm_head' share the parameter 'transformer.wte.weight'"));
  EXPECT_EQ(refused({{"lm_head", {"sgd", 2, {}}}, {"transformer.embedding", {"sgd", 2, {}}}}), "none");
  EXPECT_EQ(optim::rule_names<optim::Muon>[0], "muon");
  graph::Graph<device::Host, float> g(1);
  g.add("fc", nn::Linear{.features = 2, .bias = false}, {g.input("x", {{4, 6}, Element::float32})}, {"w*"});
  EXPECT_THROW(run::groups_of_operators(g.dag(), {graph::OperatorOptimizer{}}, optim::rule_names<MixedRule>), OptionError);
}

template <class TrainerType>
std::string refusal(const typename TrainerType::Options& options) {
  try {
    TrainerType::estimate(nn::gpt<device::Host, float>(small_config(), 1), options);
  } catch (const OptionError& error) {
    return error.what();
  }
  return "none";
}

TEST(PerGroup, refuses_a_rule_that_is_not_there_and_what_a_rule_has_not) {
  const auto mixed = [](run::ParameterGroup group) { return refusal<Mixed>(options_of<Mixed>({std::move(group)})); };
  EXPECT_EQ(mixed({.pattern = "*", .rule = 2}), "none");
  EXPECT_THAT(mixed({.pattern = "*", .rule = 3}), testing::HasSubstr("'*' has rule 3, but per_group(adamw, sgd, muon) has rules 0 to 2"));
  EXPECT_THAT(mixed({.pattern = "*", .rule = -1}), testing::HasSubstr("has rule -1"));
  EXPECT_THAT(mixed({.pattern = "*.weight", .whole_matrix = false, .rule = 1}), testing::HasSubstr("the rule sgd goes element by element"));
  EXPECT_THAT(mixed({.pattern = "*.bias", .whole_matrix = true, .rule = 2}), testing::HasSubstr("whole matrices have two axes"));
  EXPECT_THAT(refusal<SgdAlone>(options_of<SgdAlone>({{.pattern = "*", .rule = 1}})), testing::HasSubstr("has rule 1, but sgd is one rule"));
  auto options = options_of<Mixed>({});
  std::get<1>(options.rule.rules).options.weight_decay = -1;
  EXPECT_THAT(refusal<Mixed>(options), testing::HasSubstr("Sgd: weight_decay"));
}

TEST(PerGroup, ranks_agree_on_groups_and_on_constants_of_every_rule) {
  if (world_size() == 1) GTEST_SKIP() << "needs two ranks";
  const auto refused = [](const auto& change, const char* what) {
    auto options = small_options<Mixed>();
    if (world_rank() == 0) change(options);
    const comm::Communicator world;
    try {
      small_trainer<Mixed>(options, world);
      ADD_FAILURE() << "no OptionError: " << what;
    } catch (const OptionError& error) {
      EXPECT_THAT(error.what(), testing::HasSubstr(what));
    }
  };
  refused([](auto& options) { options.groups[0].rule = 0; }, "*.bias: learning rate * 1, rule 1");
  refused([](auto& options) { std::get<1>(options.rule.rules).options.weight_decay = 0.5; }, "sgd with weight_decay 0.5");
}

}  // namespace
}  // namespace reef::test
