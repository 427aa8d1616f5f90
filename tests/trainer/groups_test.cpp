// Groups of parameters that have a learning rate and a weight decay of their own, whatever the rule and the optimizer.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include <reef/optim/diloco.hpp>
#include <reef/optim/momentum.hpp>
#include <reef/optim/muon.hpp>
#include <reef/optim/nesterov.hpp>
#include <reef/optim/sgd.hpp>

#include "../support/overlapping_trainers.hpp"
#include "../support/small_gpt.hpp"

namespace reef::test {
namespace {

/// In every Trainer half the rate of a group of all is half the rate, and so is its decay; and what is in none keeps its.
template <class TrainerType>
class Groups : public testing::Test {
protected:
  static typename TrainerType::Options options() {
    auto options = small_options<TrainerType>();
    options.micro_batches = {2};
    if constexpr (requires { options.optim.every; }) options.optim.every = 2;
    options.rule.options.weight_decay = 0.25;
    return options;
  }
};

using AllTrainers =
    testing::Types<Trainer<optim::Ddp<optim::Sgd>>, Trainer<optim::Ddp<optim::Momentum>>,
                   Trainer<optim::Zero1<optim::Nesterov>>, Trainer<optim::Zero1<optim::AdamW>>,
                   Trainer<optim::Zero1<optim::Muon>>, Trainer<optim::Acco<optim::AdamW>>,
                   Trainer<optim::AccoWp<optim::AdamW>>, Trainer<optim::DpuPredicted<optim::AdamW>>,
                   Trainer<optim::DiLoCo<optim::AdamW>>>;
TYPED_TEST_SUITE(Groups, AllTrainers);

TYPED_TEST(Groups, of_all_parameters_are_options_of_the_rule) {
  const auto as_it_was = train<TypeParam>(this->options(), 6);
  auto grouped = this->options();
  grouped.groups = {{.pattern = "*"}};
  EXPECT_EQ(train<TypeParam>(grouped, 6), as_it_was);

  auto expected = this->options();
  expected.learning_rate.peak /= 2;
  expected.rule.options.weight_decay = 0.5;
  grouped.groups = {{.pattern = "*ln_*", .learning_rate = 0.5},
                    {.pattern = "*.bias", .learning_rate = 0.5},
                    {.pattern = "*", .learning_rate = 0.5, .weight_decay = 0.5}};
  const auto halved = train<TypeParam>(grouped, 6);
  EXPECT_EQ(halved, train<TypeParam>(expected, 6));
  EXPECT_NE(halved, as_it_was);
}

TYPED_TEST(Groups, leave_alone_what_has_no_rate) {
  auto options = this->options();
  options.groups = {{.pattern = "*.mlp.*", .learning_rate = 0}};
  const comm::Communicator world;
  auto trainer = small_trainer<TypeParam>(options, world);
  const auto& parameters = trainer.model().dag().parameters;
  std::vector<std::vector<float>> before;
  for (const auto& parameter : parameters) before.push_back(trainer.parameter(parameter.name));
  const auto after = outcome_of(trainer, 6).weights;
  for (std::size_t p = 0; p < before.size(); ++p) {
    EXPECT_EQ(after[p] == before[p], parameters[p].name.find(".mlp.") != std::string::npos) << parameters[p].name;
  }
}

using Sgd = Trainer<optim::Ddp<optim::Sgd>>;

TEST(GroupsOfParameters, decay_biases_too_where_they_say_so) {
  auto options = small_options<Sgd>();
  const auto plain = train<Sgd>(options, 1);
  options.groups = {{.pattern = "*.bias", .weight_decay = 0.5}, {.pattern = "*ln_f.weight", .weight_decay = 0.5}};
  const auto decayed = train<Sgd>(options, 1);
  const auto model = nn::gpt<device::Host, float>(small_config(), 1);
  for (std::size_t p = 0; p < plain.weights.size(); ++p) {
    const std::string& name = model.dag().parameters[p].name;
    // Biases begin as zeros, of which there is nothing to decay in a first step; norms as ones.
    const bool moved = name == "transformer.ln_f.weight";
    EXPECT_EQ(decayed.weights[p] == plain.weights[p], !moved) << name;
    if (!moved) continue;
    const auto lr = static_cast<float>(options.learning_rate.at(0));
    for (std::size_t i = 0; i < plain.weights[p].size(); ++i) {
      EXPECT_NEAR(decayed.weights[p][i], plain.weights[p][i] - lr * 0.5F, 1e-6F);
    }
  }
}

TEST(GroupsOfParameters, are_refused_where_they_say_nothing_or_what_the_rule_has_not) {
  const auto refusal = [](std::vector<run::ParameterGroup> groups) -> std::string {
    auto options = small_options<Sgd>();
    options.groups = std::move(groups);
    try {
      Sgd::estimate(nn::gpt<device::Host, float>(small_config(), 1), options);
    } catch (const OptionError& error) {
      return error.what();
    }
    return "none";
  };
  EXPECT_EQ(refusal({{.pattern = "*"}}), "none");
  EXPECT_THAT(refusal({{.pattern = "*.kernel"}}), testing::HasSubstr("no parameter is in the group '*.kernel'"));
  EXPECT_THAT(refusal({{.pattern = "*.bias", .whole_matrix = true}}), testing::HasSubstr("the rule sgd goes element by element"));
  EXPECT_THAT(refusal({{.pattern = "*", .learning_rate = -1}}), testing::HasSubstr("learning_rate of '*' is -1"));
}

TEST(GroupsOfParameters, that_differ_between_ranks_are_named) {
  if (world_size() == 1) GTEST_SKIP() << "needs two ranks";
  auto options = small_options<Sgd>();
  options.groups = {{.pattern = "*.bias", .learning_rate = world_rank() == 0 ? 0.5 : 0.25}};
  const comm::Communicator world;
  try {
    small_trainer<Sgd>(options, world);
    ADD_FAILURE() << "no OptionError";
  } catch (const OptionError& error) {
    EXPECT_THAT(error.what(), testing::HasSubstr("groups"));
    EXPECT_THAT(error.what(), testing::HasSubstr("*.bias: learning rate * 0.25"));
  }
}

}  // namespace
}  // namespace reef::test
