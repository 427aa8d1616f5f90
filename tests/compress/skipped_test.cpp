// Training goes on behind a step that is not finite, and is as if that step had never been: nothing that a codec wrote or
// remembers of it is left.

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include <reef/codec/dense.hpp>
#include <reef/comm/mpi.hpp>
#include <reef/optim/adamw.hpp>
#include <reef/optim/ddp.hpp>
#include <reef/optim/zero1.hpp>
#include <reef/pipeline/one_f_one_b.hpp>

#include "skipped.hpp"

namespace reef::test {
namespace {

using namespace skipped;

using Reduced = Trainer<optim::Ddp<optim::AdamW>, Coded>;
using Staged = Trainer<pipeline::OneFOneB<>, optim::Zero1<optim::AdamW>, Coded>;

/// Of a case of a codec: what a step that is spoilt leaves is what one without weights does, and one that never was.
template <class TrainerType>
void expect_no_trace(const typename TrainerType::Options& options, const std::string& what,
                     bool draws, MPI_Comm ranks = MPI_COMM_WORLD) {
  SCOPED_TRACE(what);
  const comm::Communicator communicator(ranks);
  const int replicas =
      options.virtual_ranks > 1 ? options.virtual_ranks : options.topology->replicas;
  const auto each = static_cast<std::uint64_t>(replicas) * of_replica;
  const auto left = [&](Spoils spoils) {
    TrainerType trainer(model(), source(spoils, {.each = each, .spoilt = each - of_replica}),
                        options, {}, communicator);
    return left_by(trainer, 5, 8);
  };
  const Left spoilt = left(Spoils::spoilt);
  EXPECT_EQ(spoilt.difference(left(Spoils::nothing)), "") << "a step without weights";
  if (draws) return;
  EXPECT_EQ(spoilt.difference(left(Spoils::left_out)), "") << "a step that never was";
}

TEST(SkippedStep, leaves_nothing_in_gradients_that_are_summed) {
  auto options = options_with<Reduced>(run::Topology(world_size()));
  for (const Chosen& codec : codecs()) {
    options.compress.gradient = codec;
    expect_no_trace<Reduced>(options, codec.text(), draws(codec));
  }
}

TEST(SkippedStep, leaves_nothing_in_a_process_that_stands_for_several_ranks) {
  auto options = options_with<Reduced>(run::Topology(1));
  options.virtual_ranks = 3;
  for (const Chosen& codec : codecs()) {
    options.compress.gradient = codec;
    expect_no_trace<Reduced>(options, codec.text(), draws(codec), MPI_COMM_SELF);
  }
}

TEST(SkippedStep, leaves_nothing_in_shards_nor_in_weights_that_are_sent_to_all) {
  auto options = options_with<Staged>(run::Topology(world_size()));
  for (const Chosen& codec : codecs()) {
    options.compress.gradient = codec;
    options.compress.parameter = sends_all(codec) ? codec : Chosen();
    expect_no_trace<Staged>(options, codec.text(), draws(codec));
  }
}

TEST(SkippedStep, leaves_nothing_in_what_stages_send_each_other) {
  if (world_size() == 1) GTEST_SKIP() << "one stage has no edges";
  auto options = options_with<Staged>(run::Topology(1, world_size()));
  for (const Chosen& codec : codecs()) {
    options.compress.activation = options.compress.activation_gradient = codec;
    expect_no_trace<Staged>(options, codec.text(), draws(codec));
  }
}

/// As codec::Dense, and counts in its memory the messages that counted.
struct Counted {
  static constexpr std::string_view name = "counted";
  static constexpr bool exact = true, lossless = true, linear = false;

  static inline std::atomic<int> most{0};  ///< that were ever found there

  [[nodiscard]] Bytes encoded_bytes(std::int64_t n) const { return codec::Dense{}.encoded_bytes(n); }
  [[nodiscard]] std::int64_t state(std::int64_t n) const { return n + 1; }
  [[nodiscard]] std::int64_t received_state(std::int64_t /*n*/) const { return 0; }
  Bytes encode(std::span<const float> values, std::span<const float> state, std::span<float> next,
               std::span<std::byte> message) const {
    const float count = state.back();
    EXPECT_EQ(count, std::floor(count)) << "somebody else has written that";
    for (const float one : state.first(values.size())) EXPECT_EQ(one, std::floor(one)) << "and that";
    most = std::max(most.load(), static_cast<int>(count));
    std::fill(next.begin(), next.end(), count + 1);
    return codec::Dense{}.encode(values, message);
  }
  void decode(std::span<const std::byte> message, std::span<float> values) const { codec::Dense{}.decode(message, values); }
  void decode(std::span<const std::byte> message, std::span<const float> /*state*/, std::span<float> /*next*/,
              std::span<float> values) const {
    decode(message, values);
  }
};

TEST(SkippedStep, is_not_counted_by_a_codec_whose_memory_nobody_else_changes) {
  if (world_size() == 1) GTEST_SKIP() << "one rank sends no gradient";
  auto options = options_with<Reduced>(run::Topology(world_size()));
  options.compress.gradient = Chosen(Counted{});
  const comm::Communicator world;
  const auto each = static_cast<std::uint64_t>(world_size()) * of_replica;
  Counted::most = 0;
  Reduced trainer(model(), source(Spoils::spoilt, {.each = each, .spoilt = 0}), options, {}, world);
  left_by(trainer, 5, 6);
  EXPECT_EQ(Counted::most, 4) << "before the fifth step that counts";
}

}  // namespace
}  // namespace reef::test
