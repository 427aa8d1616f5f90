#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <map>
#include <mutex>
#include <new>
#include <string>
#include <vector>

#include <reef/graph/estimate.hpp>
#include <reef/optim/adamw.hpp>
#include <reef/optim/ddp.hpp>
#include <reef/optim/diloco.hpp>
#include <reef/optim/zero1.hpp>
#include <reef/run/costs.hpp>
#include <reef/schedule/simulate.hpp>

#include "../support/small_gpt.hpp"

// A Host obtains all its memory from the aligned operator new that does not throw, and books the device's
// alone: what is obtained and not booked is pinned. The operators that go with it must be replaced too.
namespace {

std::mutex obtained_mutex;
std::map<void*, std::size_t>& obtained() {
  static auto* const blocks = new std::map<void*, std::size_t>;  // outlives every device
  return *blocks;
}

void* aligned_block(std::size_t bytes, std::align_val_t alignment) {
  const auto unit = static_cast<std::size_t>(alignment);
  return std::aligned_alloc(unit, (bytes + unit - 1) / unit * unit);
}

}  // namespace

void* operator new(std::size_t bytes, std::align_val_t alignment) {
  void* const data = aligned_block(bytes, alignment);
  if (data == nullptr) throw std::bad_alloc();
  return data;
}
void* operator new(std::size_t bytes, std::align_val_t alignment, const std::nothrow_t&) noexcept {
  void* const data = aligned_block(bytes, alignment);
  const std::lock_guard lock(obtained_mutex);
  if (data != nullptr) obtained()[data] = bytes;
  return data;
}
void operator delete(void* data, std::align_val_t /*alignment*/) noexcept {
  {
    const std::lock_guard lock(obtained_mutex);
    obtained().erase(data);
  }
  std::free(data);
}
void operator delete(void* data, std::size_t /*bytes*/, std::align_val_t alignment) noexcept {
  operator delete(data, alignment);
}

namespace reef::test {

namespace {

Bytes bytes_obtained() {
  const std::lock_guard lock(obtained_mutex);
  Bytes sum = 0;
  for (const auto& [data, bytes] : obtained()) sum += bytes;
  return sum;
}

/// What was estimated before a Trainer was there is what its counters show afterwards.
template <class Tested>
StepEstimate expect_the_counters(typename Tested::Options options) {
  options.communication.transport = comm::Transport::messages;
  const comm::Communicator world;
  const std::vector<int> counts = uneven_counts(world.size());
  options.micro_batches = {counts[static_cast<std::size_t>(world.rank())]};
  using Device = typename Tested::Device;
  const StepEstimate estimate =
      Tested::estimate(nn::gpt<Device, typename Tested::T>(small_config(), 1), options,
                       world.size(), world.rank(), counts);

  const Bytes obtained_before = bytes_obtained();
  Tested trainer(nn::gpt<Device, typename Tested::T>(small_config(), 1), small_source(), options,
                 {}, world);
  const auto programs = Tested::programs(trainer.model(), options, world.size(), counts);
  EXPECT_EQ(schedule::hash_of(std::vector{programs.at(static_cast<std::size_t>(world.rank()))}),
            schedule::hash_of(std::vector{trainer.program()}));
  trainer.step();
  EXPECT_EQ(estimate.device_bytes, trainer.device().memory().peak);
  EXPECT_EQ(estimate.host_bytes,
            bytes_obtained() - obtained_before - trainer.device().memory().used);
  const comm::Cost before = trainer.progress().meter().operations();
  trainer.step();
  const comm::Cost sent = trainer.progress().meter().operations() - before;
  EXPECT_EQ(estimate.sent, sent.bytes);
  EXPECT_EQ(estimate.messages, sent.messages);

  const graph::Dag& dag = trainer.model().dag();
  double flops = 0;
  for (const graph::Node& node : dag.nodes) {
    flops += node.signature.forward_flops + node.signature.backward_flops;
  }
  EXPECT_DOUBLE_EQ(estimate.flops, flops * options.micro_batches.front());

  Bytes state = 0;
  for (const auto& range : trainer.state_ranges()) {
    state += static_cast<Bytes>(range.elements) * sizeof(typename Tested::T);
  }
  EXPECT_EQ(estimate.optimizer_state, state);
  const auto padded = static_cast<Bytes>(graph::parameter_layout(dag).parameter_elements);
  Bytes further = 0;  // uses of tied parameters have a gradient each
  for (const graph::Parameter& parameter : dag.parameters) {
    further += (parameter.uses.size() - 1) * static_cast<Bytes>(parameter.spec.shape.size());
  }
  EXPECT_EQ(estimate.weights, padded * sizeof(float));
  EXPECT_EQ(estimate.gradients, (padded + further) * sizeof(float));
  EXPECT_LE(estimate.device_bytes, estimate.weights + estimate.gradients +
                                       estimate.optimizer_state + estimate.activations +
                                       estimate.workspaces + estimate.rest + 64 * 1024);
  return estimate;
}

using DdpTrainer = Trainer<optim::Ddp<optim::AdamW>>;
using Zero1Trainer = Trainer<optim::Zero1<optim::AdamW>>;

TEST(Estimate, is_what_the_counters_show_afterwards) {
  const StepEstimate ddp = expect_the_counters<DdpTrainer>(small_options<DdpTrainer>());
  const StepEstimate zero1 = expect_the_counters<Zero1Trainer>(small_options<Zero1Trainer>());
  EXPECT_EQ(ddp.weights, zero1.weights);
  if (comm::Communicator().size() > 1) {
    EXPECT_LT(zero1.optimizer_state, ddp.optimizer_state);
  } else {
    EXPECT_EQ(ddp.sent, 0U);
  }
  EXPECT_GT(ddp.host_bytes, 0U);
  EXPECT_LT(ddp.host_bytes, 4096U);  // scalars
  EXPECT_NE(ddp.text().find("optimizer state"), std::string::npos);
}

TEST(Estimate, holds_on_a_device_with_more_threads_than_the_model_is_made_for) {
  auto options = small_options<Zero1Trainer>();
  const Bytes alone = expect_the_counters<Zero1Trainer>(options).workspaces;
  options.device.threads = 3;
  EXPECT_GT(expect_the_counters<Zero1Trainer>(options).workspaces, alone) << "of a kernel with scratch memory for each thread";
}

TEST(Estimate, holds_on_a_device_with_a_memory_of_its_own) {
  auto options = small_options<DdpTrainer>();
  const Bytes plain = expect_the_counters<DdpTrainer>(options).host_bytes;
  options.device.memory_bytes = Bytes{1} << 30;
  EXPECT_GT(expect_the_counters<DdpTrainer>(options).host_bytes, plain);
}

/// estimate_all() is estimate() of each rank, and programs() of each variant with their placements.
template <class Tested>
void expect_the_same_at_once(const typename Tested::Options& options, int ranks, int variants) {
  const auto model = nn::gpt<device::Host, float>(small_config(), 1);
  const auto world = schedule::World::uniform(ranks, run::machine_of(*options.profile), {.latency = 1e-4, .bytes_per_second = 1e7});
  int seen = 0;
  const auto all = Tested::estimate_all(model, options, ranks, [&](int variant, const auto& programs, const auto& placements) {
    EXPECT_EQ(variant, seen++);
    const auto expected = Tested::programs(model, options, ranks, {}, variant);
    EXPECT_EQ(schedule::hash_of(programs), schedule::hash_of(expected));
    EXPECT_EQ(schedule::simulate(programs, placements, world).total, schedule::simulate(expected, world).total);
  });
  EXPECT_EQ(seen, variants);
  ASSERT_EQ(all.size(), static_cast<std::size_t>(ranks));
  for (int rank = 0; rank < ranks; ++rank) {
    const StepEstimate one = Tested::estimate(model, options, ranks, rank);
    const StepEstimate& found = all[static_cast<std::size_t>(rank)];
    EXPECT_EQ(found.text(), one.text()) << rank;
    EXPECT_EQ(found.device_bytes, one.device_bytes) << rank;
    EXPECT_EQ(found.host_bytes, one.host_bytes) << rank;
    EXPECT_EQ(found.sent, one.sent) << rank;
    EXPECT_EQ(found.steps, one.steps) << rank;
  }
}

TEST(Estimate, of_all_ranks_at_once_is_that_of_each) {
  const auto model = nn::gpt<device::Host, float>(small_config(), 1);
  auto zero1 = small_options<Zero1Trainer>();
  zero1.profile = graph::estimate(model.dag(), {1e9, 1e9, 0});
  expect_the_same_at_once<Zero1Trainer>(zero1, 3, 1);
  using Local = Trainer<optim::DiLoCo<optim::AdamW>>;
  auto local = small_options<Local>();
  local.profile = zero1.profile;
  local.optim = {.every = 5, .fragments = 2};
  expect_the_same_at_once<Local>(local, 3, 3);
  EXPECT_THROW(Zero1Trainer::estimate_all(model, zero1, 0, [](auto&&...) {}), OptionError);
}

TEST(Estimate, tells_of_ranks_that_nobody_has) {
  const auto model = nn::gpt<device::Host, float>(small_config(), 1);
  const auto options = small_options<Zero1Trainer>();
  const StepEstimate one = Zero1Trainer::estimate(model, options);
  const StepEstimate sixteen = Zero1Trainer::estimate(model, options, 16, 15);
  EXPECT_EQ(one.sent, 0U);
  EXPECT_GT(sixteen.sent, 0U);
  EXPECT_LT(sixteen.optimizer_state, one.optimizer_state);
  EXPECT_THROW(Zero1Trainer::estimate(model, options, 2, 2), OptionError);
  EXPECT_THROW(Zero1Trainer::estimate(model, options, 0), OptionError);
}

}  // namespace

}  // namespace reef::test
