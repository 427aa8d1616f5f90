// Parameters that are frozen, beside codecs, weights of several versions, and steps that are not finite.

#include <gtest/gtest.h>

#include <cmath>
#include <cstddef>
#include <limits>
#include <string>
#include <vector>

#include <reef/codec/error_feedback.hpp>
#include <reef/codec/top_k.hpp>
#include <reef/compress/channels.hpp>
#include <reef/optim/acco.hpp>
#include <reef/pipeline/ordered.hpp>

#include "../support/small_gpt.hpp"

namespace reef::test {
namespace {

using Sparse = compress::Channels<compress::Gradient<codec::ErrorFeedback<codec::TopK>>>;
using Coded = Trainer<optim::Zero1<optim::AdamW>, Sparse>;
using Plain = Trainer<optim::Zero1<optim::AdamW>>;
using Overlapped = Trainer<optim::Acco<optim::AdamW>>;
using Staged = Trainer<pipeline::Ordered, optim::Zero1<optim::AdamW>>;

graph::Graph<device::Host, float> model() {
  auto graph = nn::gpt<device::Host, float>(small_config(), 1);
  graph.freeze("transformer.h.0.*");
  return graph;
}

template <class TrainerType>
std::vector<std::vector<float>> weights_of(TrainerType& trainer) {
  std::vector<std::vector<float>> weights;
  for (const graph::Parameter& parameter : trainer.model().dag().parameters)
    weights.push_back(trainer.gather_parameter(parameter.name));
  return weights;
}

/// Holds that the frozen parameters have kept their bits, and that others have not: small ones of a layer norm may, where a
/// codec sends the largest alone.
void expect_frozen_alone_kept(const graph::Dag& dag, const std::vector<std::vector<float>>& before,
                              const std::vector<std::vector<float>>& after, bool all_others = true) {
  for (std::size_t p = 0; p < before.size(); ++p) {
    const graph::Parameter& parameter = dag.parameters[p];
    if (!all_others && !parameter.frozen && parameter.name.find(".ln_") != std::string::npos) continue;
    EXPECT_EQ(after[p] == before[p], parameter.frozen) << parameter.name;
  }
}

TEST(FrozenParameters, are_in_no_message_and_no_memory_of_a_codec) {
  auto options = uneven_options<Coded>();
  options.compress.gradient.inner.ratio = 7;
  const comm::Communicator world;
  Coded trainer(model(), small_source(), options, {}, world);
  const auto before = weights_of(trainer);
  for (int i = 0; i < 5; ++i) EXPECT_TRUE(trainer.step().committed);
  expect_frozen_alone_kept(trainer.model().dag(), before, weights_of(trainer), false);
  std::int64_t trained = 0, remembered = 0;
  for (const graph::Parameter& parameter : trainer.model().dag().parameters)
    if (!parameter.frozen) trained += graph::ParameterLayout::room(parameter);
  for (const run::StateRange& range : trainer.model_state().ranges())
    if (range.memory) remembered += range.elements;
  EXPECT_LE(remembered, trained * world.size());
  EXPECT_EQ(remembered > 0, world.size() > 1) << "alone nothing is sent";
}

TEST(FrozenParameters, have_one_version_where_others_have_several) {
  for (const char* schedule : {"pipedream", "2bw"}) {
    SCOPED_TRACE(schedule);
    auto options = small_options<Staged>();
    options.topology = run::Topology(1, world_size());
    options.pipeline.schedule = schedule;
    options.micro_batches = {6};  // a multiple of the stages
    options.non_finite = optim::NonFinite::ignore;
    options.clip_norm = 0;
    const comm::Communicator world;
    Staged part(model(), small_source(), options, {}, world);
    const auto before = weights_of(part);
    for (const schedule::Storage& storage : part.program().storages) {
      for (const graph::Parameter& parameter : part.model().dag().parameters) {
        if (!parameter.frozen || storage.name.find(parameter.name) == std::string::npos) continue;
        EXPECT_EQ(storage.name, "frozen " + parameter.name);
      }
    }
    for (int i = 0; i < 3; ++i) part.step();
    expect_frozen_alone_kept(part.model().dag(), before, weights_of(part));
    Staged again(model(), small_source(), options, {}, world);
    for (int i = 0; i < 3; ++i) again.step();
    EXPECT_EQ(weights_of(again), weights_of(part));
  }
}

template <class TrainerType>
void expect_a_spoilt_step_to_be_skipped() {
  auto options = small_options<TrainerType>();
  options.non_finite = optim::NonFinite::skip;
  const comm::Communicator world;
  TrainerType trainer(model(), small_source(), options, {}, world);
  EXPECT_TRUE(trainer.step().committed);
  const std::string name = "transformer.h.0.mlp.c_proj.bias";
  const std::vector<float> whole = trainer.parameter(name);
  std::vector<float> broken = whole;
  broken[3] = std::numeric_limits<float>::quiet_NaN();
  trainer.set_parameter(name, broken);
  trainer.gather_committed_weights();
  const auto before = weights_of(trainer);
  EXPECT_FALSE(trainer.step().committed);
  trainer.set_parameter(name, whole);
  trainer.gather_committed_weights();
  const auto after = weights_of(trainer);
  for (std::size_t p = 0; p < before.size(); ++p) {
    const std::string& other = trainer.model().dag().parameters[p].name;
    if (other != name) {
      EXPECT_EQ(after[p], before[p]) << other;
    } else {
      EXPECT_EQ(after[p], whole);
    }
  }
  EXPECT_TRUE(trainer.step().committed);
}

TEST(FrozenParameters, that_are_not_finite_spoil_a_step_which_is_skipped) {
  expect_a_spoilt_step_to_be_skipped<Plain>();
  expect_a_spoilt_step_to_be_skipped<Overlapped>();
}

}  // namespace
}  // namespace reef::test
