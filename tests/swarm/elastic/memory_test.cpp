// What a peer takes from the allocator beyond a trainer that is no peer, by a hook in it.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include <reef/comm/communicator.hpp>
#include <reef/core/text.hpp>
#include <reef/nn/cross_entropy.hpp>
#include <reef/nn/embedding.hpp>
#include <reef/nn/host.hpp>
#include <reef/nn/linear.hpp>
#include <reef/optim/adamw.hpp>
#include <reef/optim/ddp.hpp>
#include <reef/swap/atom.hpp>
#include <reef/swarm/average/part_codec.hpp>
#include <reef/swarm/elastic/averaged.hpp>
#include <reef/swarm/elastic/peer_exchange.hpp>
#include <reef/swarm/log/log_server.hpp>
#include <reef/swarm/log/remote_log.hpp>
#include <reef/trainer/trainer.hpp>

#include "support/counted_heap.hpp"
#include "support/temporary_folder.hpp"

namespace reef::test {
namespace {

constexpr std::int64_t channels = 256;
constexpr std::int64_t products = 16;
constexpr std::int64_t rounds = 5;

/// Nearly all of its parameters are in products, and activations are next to none.
graph::Graph<device::Host, float> deep_model() {
  graph::Graph<device::Host, float> model(1);
  const Shape shape{1, 1};
  const int tokens = model.input("tokens", {shape, Element::int32});
  const int targets = model.input("targets", {shape, Element::int32});
  int x = model.add("embedding", nn::Embedding{16, 1, channels}, {tokens})[0];
  for (std::int64_t i = 0; i < products; ++i) {
    const nn::Linear product{channels, false, nn::Transpose::no, 0.02};
    x = model.add(concat("product ", i), product, {x})[0];
  }
  const int logits = model.add("head", nn::Linear{16, false, nn::Transpose::no, 0.02}, {x})[0];
  model.loss(model.add("loss", nn::CrossEntropy{}, {logits, targets})[0]);
  return model;
}

double ones(std::uint64_t /*first*/, std::span<const AnyView> inputs) {
  for (const AnyView& input : inputs) input.as<std::int32_t>().span()[0] = 1;
  return 1.0;
}

template <class Tested>
typename Tested::Options options_of(Bytes device_memory) {
  typename Tested::Options options;
  options.device.threads = 1;
  options.bucket_bytes = 1 << 20;
  options.non_finite = optim::NonFinite::skip;
  options.device.memory_bytes = device_memory;
  return options;
}

/// Bytes that a trainer takes which is no peer.
template <class Plain>
double plain_bytes(Bytes device_memory) {
  return taken_while([&] {
    Plain trainer(deep_model(), ones, options_of<Plain>(device_memory), {}, comm::Communicator::alone());
    for (std::int64_t step = 0; step < rounds; ++step) trainer.step();
  });
}

template <class Peer>
void take_part(const std::string& url, const std::string& name, std::int64_t members, const std::string& codec,
               Bytes device_memory) {
  swarm::PeerExchange exchange;
  auto options = options_of<Peer>(device_memory);
  options.optim.exchange = &exchange;
  Peer trainer(deep_model(), ones, options, {}, comm::Communicator::alone());
  swarm::RemoteLog log(url);
  swarm::AveragingOptions averaging;
  averaging.genesis.job = "test";
  averaging.genesis.global_batch = 2 * members;
  averaging.genesis.codec = codec;
  averaging.genesis = swarm::genesis_of(trainer, averaging.genesis);
  averaging.net.name = name;
  averaging.net.listen = "127.0.0.1:0";
  averaging.net.plain_loopback = true;
  averaging.first_members = members;
  // A peer that a busy machine makes silent is not to join again: it would be given its state, which takes more.
  averaging.deadlines.suspect = 100;
  averaging.deadlines.exchange = 200;
  swarm::TrainerPeer peer(exchange, trainer, averaging, log, log);
  std::optional<std::int64_t> done = peer->enter();
  for (; done && *done < rounds; done = peer->enter()) trainer.step();
  EXPECT_EQ(done, rounds);
  peer->leave("all rounds are done");
}

/// Bytes that each of so many peers takes, on average, when all together take most.
template <class Peer>
double peer_bytes(std::int64_t members, const std::string& codec, Bytes device_memory) {
  const TemporaryFolder folder;
  const swarm::LogServer server({.folder = folder / "log"});
  return taken_while([&] {
           std::vector<std::jthread> threads;
           for (std::int64_t m = 0; m < members; ++m) {
             threads.emplace_back(
                 [&, m] { take_part<Peer>(server.url(), concat("peer", m), members, codec, device_memory); });
           }
         }) /
         static_cast<double>(members);
}

/// Bytes of a gradient, and of a model as a codec encodes it.
constexpr double gradient_bytes() {
  return static_cast<double>(products * channels * channels + 2 * 16 * channels) * sizeof(float);
}

double encoded_bytes(const std::string& codec) {
  const std::vector<float> numbers(1U << 18U, 1.0F);
  const auto bytes = static_cast<double>(swarm::PartCodec::of(codec).encode_result(numbers)->size());
  return bytes / static_cast<double>(numbers.size() * sizeof(float)) * gradient_bytes();
}

}  // namespace

/// The contribution, then the sum in its place; encoded: the own contribution, parts to add, and results. `slack`: the
/// bytes by which memory of whole pages may differ.
template <class Plain, class Peer>
void expect_bound(const char* what, [[maybe_unused]] Bytes device_memory, [[maybe_unused]] Bytes slack) {
#if defined(REEF_TEST_HOOKS)
  const double plain = plain_bytes<Plain>(device_memory);
  for (const std::string codec : {"fp32", "blockwise8"}) {
    const double gradient = gradient_bytes();
    const double encoded = encoded_bytes(codec);
    for (const std::int64_t members : {1, 2, 3}) {
      const double own = peer_bytes<Peer>(members, codec, device_memory) - plain;
      EXPECT_LE(own, gradient + 3 * encoded + static_cast<double>(slack)) << what << ", " << codec << ", " << members;
    }
  }
#else
  GTEST_SKIP() << what << ": the allocator is the sanitizer's";
#endif
}

TEST(PeerMemory, is_at_most_a_gradient_and_three_encoded_models_above_a_trainers) {
  expect_bound<Trainer<optim::Ddp<optim::AdamW>>, Trainer<swarm::Averaged<optim::AdamW>>>("averaged", 0, 0);
}

// Host memory and the device's, both in pages of 2 MiB, are one page more or less.
TEST(PeerMemory, is_at_most_a_gradient_and_three_encoded_models_above_that_of_a_trainer_that_swaps) {
  expect_bound<Trainer<swap::Atom<>, optim::Ddp<optim::AdamW>>, Trainer<swap::Atom<>, swarm::Averaged<optim::AdamW>>>(
      "swapped", 24_MiB, 4_MiB);
}

}  // namespace reef::test
