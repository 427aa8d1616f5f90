// Parameters that are frozen, of models that are swapped, and of ranks that step on their own.

#include <gtest/gtest.h>

#include <cstddef>
#include <string>
#include <vector>

#include <reef/nn/soft_prompt.hpp>
#include <reef/optim/diloco.hpp>
#include <reef/swap/atom.hpp>

#include "../support/small_gpt.hpp"

namespace reef::test {
namespace {

using Resident = Trainer<optim::Zero1<optim::AdamW>>;
using Swapped = Trainer<swap::Atom<>, optim::Zero1<optim::AdamW>>;
using DiLoCo = Trainer<optim::DiLoCo<optim::AdamW>>;

graph::Graph<device::Host, float> model(const std::string& frozen) {
  auto graph = nn::gpt<device::Host, float>(small_config(), 1);
  graph.freeze(frozen);
  return graph;
}

const std::vector<std::string>& patterns() {
  static const std::vector<std::string> all{"transformer.w?e.weight", "transformer.h.*", "*.bias"};
  return all;
}

TEST(FrozenParameters, of_a_swapped_model_are_loaded_and_leave_the_bits_of_one_that_stays) {
  const comm::Communicator world;
  for (const std::string& frozen : patterns()) {
    SCOPED_TRACE(frozen);
    auto options = uneven_options<Swapped>();
    options.device.poison_freed = true;
    Swapped swapped(model(frozen), small_source(), options, small_source(), world);
    Resident resident(model(frozen), small_source(), uneven_options<Resident>(), small_source(),
                      world);
    EXPECT_EQ(outcome_of(swapped, 4), outcome_of(resident, 4));
    EXPECT_EQ(swapped.evaluate(2), resident.evaluate(2));
    bool in_host_memory = false;
    for (const schedule::Storage& storage : swapped.program().storages) {
      in_host_memory |=
          storage.name.starts_with("frozen ") && storage.place == schedule::Place::host;
    }
    EXPECT_TRUE(in_host_memory);
  }
}

TEST(FrozenParameters, behind_a_soft_prompt_keep_their_values_and_the_prompt_alone_moves_whatever_is_swapped) {
  const comm::Communicator world;
  const auto model = nn::with_prompts(nn::gpt<device::Host, float>(small_config(), 1), {.tokens = 3});
  Resident resident(model, small_source(), uneven_options<Resident>(), small_source(), world);
  std::vector<std::vector<float>> before;
  for (const auto& parameter : model.dag().parameters) before.push_back(resident.parameter(parameter.name));
  const auto wanted = outcome_of(resident, 4);
  for (std::size_t p = 0; p < before.size(); ++p) {
    const graph::Parameter& parameter = model.dag().parameters[p];
    EXPECT_EQ(wanted.weights[p] != before[p], nn::is_of_prompt(parameter.name)) << parameter.name;
  }
  auto options = uneven_options<Swapped>();
  options.device.poison_freed = true;
  Swapped swapped(model, small_source(), options, small_source(), world);
  EXPECT_EQ(outcome_of(swapped, 4), wanted);
  EXPECT_EQ(swapped.evaluate(2), resident.evaluate(2));
}

TEST(FrozenParameters, are_in_no_outer_step) {
  const comm::Communicator world;
  for (const std::string& frozen : patterns()) {
    SCOPED_TRACE(frozen);
    auto options = small_options<DiLoCo>();
    options.optim.every = 2;
    options.optim.fragments = 2;
    DiLoCo trainer(model(frozen), small_source(), options, {}, world);
    const auto& parameters = trainer.model().dag().parameters;
    std::vector<std::vector<float>> before;
    for (const auto& parameter : parameters) before.push_back(trainer.parameter(parameter.name));
    const auto after = outcome_of(trainer, 6).weights;
    for (std::size_t p = 0; p < before.size(); ++p) {
      EXPECT_EQ(after[p] == before[p], parameters[p].frozen) << parameters[p].name;
    }
  }
}

}  // namespace
}  // namespace reef::test
