// Parameters that are frozen: they keep their bits, have no gradient, state or message, and the others train as before.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include <reef/optim/muon.hpp>
#include <reef/optim/sgd.hpp>
#include <reef/trainer/estimate.hpp>

#include "../support/small_gpt.hpp"

namespace reef::test {
namespace {

using Model = graph::Graph<device::Host, float>;

Model model(const std::vector<std::string>& frozen) {
  Model graph = nn::gpt<device::Host, float>(small_config(), 1);
  for (const std::string& pattern : frozen) graph.freeze(pattern);
  return graph;
}

/// Below the first block, in it, and the head with the embedding that it is tied to.
const std::vector<std::vector<std::string>>& patterns() {
  static const std::vector<std::vector<std::string>> all{
      {"transformer.wpe.weight", "transformer.h.0.*"},
      {"transformer.w?e.weight", "transformer.h.0.*", "*.ln_1.*"},
      {"*.weight"},
      {"*.bias", "transformer.ln_f.weight"},
      {"transformer.wte.weight"}};
  return all;
}

template <class TrainerType>
class Frozen : public testing::Test {
protected:
  using Result = Outcome<float>;

  static typename TrainerType::Options options() {
    auto options = uneven_options<TrainerType>();
    options.clip_norm = 0;
    return options;
  }
  static Result trained(const typename TrainerType::Options& options,
                        const std::vector<std::string>& frozen, int steps,
                        MPI_Comm ranks = MPI_COMM_WORLD) {
    const comm::Communicator communicator(ranks);
    TrainerType trainer(model(frozen), small_source(), options, small_source(), communicator);
    return outcome_of(trainer, steps);
  }
};

using Tested =
    testing::Types<Trainer<optim::Ddp<optim::AdamW>>, Trainer<optim::Zero1<optim::AdamW>>,
                   Trainer<optim::Zero1<optim::Muon>>>;
TYPED_TEST_SUITE(Frozen, Tested);

TYPED_TEST(Frozen,
           parameters_keep_their_values_and_the_others_take_the_first_step_of_a_run_without_them) {
  const auto whole = this->trained(this->options(), {}, 1);
  const comm::Communicator self(MPI_COMM_SELF);
  TypeParam begun(model({}), small_source(), alone_options<TypeParam>({1}), {}, self);
  for (const auto& frozen : patterns()) {
    SCOPED_TRACE(frozen.back());
    const auto part = this->trained(this->options(), frozen, 1);
    EXPECT_EQ(part.losses, whole.losses);
    const Model graph = model(frozen);
    for (std::size_t p = 0; p < part.weights.size(); ++p) {
      const graph::Parameter& parameter = graph.dag().parameters[p];
      EXPECT_EQ(part.weights[p],
                parameter.frozen ? begun.parameter(parameter.name) : whole.weights[p])
          << parameter.name;
    }
  }
}

TYPED_TEST(Frozen, parameters_change_no_law_of_ranks) {
  for (const auto& frozen : patterns()) {
    SCOPED_TRACE(frozen.back());
    auto options = uneven_options<TypeParam>();
    const auto spread = this->trained(options, frozen, 4);
    const auto alone = this->trained(alone_options<TypeParam>(uneven_counts(world_size())), frozen,
                                     4, MPI_COMM_SELF);
    EXPECT_EQ(spread, alone);
  }
}

TYPED_TEST(Frozen, parameters_have_no_byte_of_gradient_state_or_wire) {
  for (const auto& frozen : patterns()) {
    SCOPED_TRACE(frozen.back());
    const Model graph = model(frozen);
    std::int64_t trained = 0;
    for (const graph::Parameter& parameter : graph.dag().parameters) {
      if (!parameter.frozen) trained += graph::ParameterLayout::room(parameter);
    }
    const auto options = this->options();
    const comm::Communicator world;
    TypeParam trainer(model(frozen), small_source(), options, {}, world);
    std::int64_t in_buckets = 0;
    Bytes gradients = 0;
    for (const run::Bucket& bucket : trainer.plan().buckets) in_buckets += bucket.size();
    EXPECT_EQ(in_buckets, trained);
    for (const schedule::Storage& storage : trainer.program().storages) {
      if (storage.name.starts_with("gradients ")) gradients += storage.bytes;
      for (const graph::Parameter& parameter : graph.dag().parameters) {
        if (!parameter.frozen || storage.name.find(parameter.name) == std::string::npos) continue;
        EXPECT_EQ(storage.name, "frozen " + parameter.name);
      }
    }
    EXPECT_EQ(gradients, static_cast<Bytes>(trained) * sizeof(float));
    for (const auto& range : trainer.model_state().ranges()) {
      EXPECT_LE(range.begin + range.elements, trained) << range.name;
    }
    // No message but of trained numbers, rounded up in each message, and of scalars.
    Bytes sent = 0;
    Bytes messages = 0;
    for (const schedule::Instruction& i : trainer.program().round) {
      for (const schedule::Message& message : i.sends) {
        sent += message.bytes;
        ++messages;
      }
    }
    const auto P = static_cast<Bytes>(world.size());
    const Bytes numbers = 2 * (P - 1) * static_cast<Bytes>(trained) * sizeof(float) / P;
    EXPECT_LE(sent, numbers + 512 * messages) << numbers << " bytes of numbers in " << messages << " messages";
  }
}

TEST(FrozenParameters, are_named_where_none_is_left_and_where_ranks_differ) {
  using Ddp = Trainer<optim::Ddp<optim::AdamW>>;
  EXPECT_THROW(model({"*.kernel"}), OptionError);
  const auto refusal = [](const std::vector<std::string>& frozen) -> std::string {
    const comm::Communicator world;
    try {
      Ddp(model(frozen), small_source(), small_options<Ddp>(), {}, world);
    } catch (const Error& error) {  // the rank's own, or that of another one, which is told
      return error.what();
    }
    return "none";
  };
  EXPECT_THAT(refusal({"*"}), testing::HasSubstr("parameters of the graph are frozen"));
  if (world_size() == 1) return;
  EXPECT_THAT(refusal({world_rank() == 0 ? "*.bias" : "*.weight"}), testing::HasSubstr("model"));
}

}  // namespace
}  // namespace reef::test
