// Models from files, cut over stages, train to the bits of what C++ builds on one process.

#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include <reef/graph/graph_json.hpp>
#include <reef/graph/hash.hpp>
#include <reef/nn/registry.hpp>
#include <reef/optim/adamw.hpp>
#include <reef/optim/zero1.hpp>
#include <reef/pipeline/ordered.hpp>

#include "../support/random_stages.hpp"
#include "../support/small_gpt.hpp"

namespace reef::test {
namespace {

using Graph = graph::Graph<device::Host, float>;

/// Through the text of a file.
Graph written_and_read(const Graph& model) {
  const auto registry = nn::registry<device::Host, float>();
  const std::string text = graph::text_of_model(graph::to_json(model, registry));
  return graph::from_json(io::parse_json(text, "file.json"), "file.json", registry, 1).graph;
}

template <class TrainerType>
std::vector<double> numbers_of(Graph model, const run::Source& source, typename TrainerType::Options options,
                               const comm::Communicator& ranks) {
  options.micro_batches = {3};
  options.learning_rate = {.peak = 0.01, .warmup = 0};
  options.device.threads = 1;
  TrainerType trainer(std::move(model), source, options, {}, ranks);
  std::vector<double> numbers;
  for (int i = 0; i < 3; ++i) {
    const StepResult result = trainer.step();
    numbers.push_back(result.loss);
    numbers.push_back(result.gradient_norm);
  }
  return numbers;
}

/// From the file on stages, from C++ on one process.
void expect_same_bits(const Graph& model, const run::Source& source) {
  using Spread = Trainer<pipeline::Ordered, optim::Zero1<optim::AdamW>>;
  using Whole = Trainer<optim::Zero1<optim::AdamW>>;
  const comm::Communicator world;
  const comm::Communicator self = world.split(world.rank(), 0, "self");
  Spread::Options options;
  options.topology = run::Topology(1, world.size());
  options.pipeline.schedule = "1f1b";
  EXPECT_EQ(numbers_of<Spread>(written_and_read(model), source, options, world), numbers_of<Whole>(model, source, {}, self));
}

TEST(GraphFile, of_a_gpt_on_stages_trains_to_the_bits_of_nn_gpt_on_one_process) {
  expect_same_bits(nn::gpt<device::Host, float>(small_config(), 1), small_source());
}

TEST(GraphFile, of_random_graphs_is_the_same_graph_and_trains_to_its_bits) {
  for (std::uint64_t seed = 1; seed <= 40; ++seed) {
    const Graph model = random_stages::random_model(seed, false);
    EXPECT_EQ(graph::hash_of(written_and_read(model).dag()), graph::hash_of(model.dag())) << seed;
    if (seed <= 4) expect_same_bits(model, random_stages::fill);
  }
}

}  // namespace
}  // namespace reef::test
