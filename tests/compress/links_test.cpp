// What Trainer::links() counts: messages and bytes as the meter does, ratios as codecs say, errors as the numbers do.

#include <reef/run/links.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <map>
#include <mutex>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include <reef/codec/chosen.hpp>
#include <reef/codec/top_k.hpp>
#include <reef/comm/gather.hpp>
#include <reef/comm/message.hpp>
#include <reef/compress/channels.hpp>
#include <reef/optim/adamw.hpp>
#include <reef/optim/zero1.hpp>
#include <reef/pipeline/one_f_one_b.hpp>
#include <reef/trace/sink.hpp>

#include "../comm/printers.hpp"
#include "../support/same_bits.hpp"
#include "../support/small_gpt.hpp"

namespace reef::test {
namespace {

using schedule::Traffic;
using Watched = compress::Channels<compress::Activation<codec::Chosen>, compress::ActivationGradient<codec::Chosen>,
                                   compress::Gradient<codec::Chosen>>;
using Linked = Trainer<pipeline::OneFOneB<>, optim::Zero1<optim::AdamW>, Watched>;

/// Of stages where there are to be some, else of replicas.
Linked::Options linked_options(bool stages, const std::string& codec) {
  auto options = small_options<Linked>();
  options.topology = stages ? run::Topology(1, world_size()) : run::Topology(world_size(), 1);
  options.micro_batches = {3};
  if (!codec.empty()) {
    const codec::Chosen chosen = codec::Chosen::of(codec);
    options.compress.activation = options.compress.activation_gradient = options.compress.gradient = chosen;
  }
  return options;
}

/// What the messages of the second step were, before and after.
struct Noted {
  std::mutex mutex;
  struct Numbers {
    Shape shape;
    std::vector<float> before, after;
  };
  std::map<std::string, Numbers> by_name;
};

void note_second_step(Linked::Options& options, Noted& noted) {
  options.compress.watch.measures_error = true;
  options.compress.watch.step = 1;
  options.compress.watch.record = [&noted](const compress::Coded& coded) {
    const std::scoped_lock lock(noted.mutex);
    const bool is_new = noted.by_name
                            .insert({coded.name, {coded.shape, {coded.before.begin(), coded.before.end()},
                                                  {coded.after.begin(), coded.after.end()}}})
                            .second;
    EXPECT_TRUE(is_new) << coded.name << " comes twice";
  };
}

/// What the second step has sent, and what the meter says of it.
std::pair<run::LinkTable, comm::Cost> second_step(const Linked::Options& options) {
  const comm::Communicator world;
  auto trainer = small_trainer<Linked>(options, world);
  trainer.step();
  const run::LinkTable before = trainer.links();
  const comm::Cost metered = trainer.progress().meter().operations();
  trainer.step();
  return {trainer.links() - before, trainer.progress().meter().operations() - metered};
}

TEST(Links, add_up_to_what_the_meter_counts_by_any_transport) {
  for (const bool stages : {false, true}) {
    for (const char* const codec : {"", "bf16", "top-k:4"}) {
      for (const int transport : {0, 1, 2}) {
        auto options = linked_options(stages, codec);
        options.communication.piece_bytes = 2048;
        if (transport == 0) options.communication.transport = comm::Transport::messages;
        options.communication.read_peers = transport == 1;
        const auto [links, metered] = second_step(options);
        comm::Cost sent;
        for (const auto& [link, use] : links.uses) sent = sent + use.sent;
        EXPECT_EQ(sent, metered) << codec << (stages ? ", stages" : ", replicas");
        EXPECT_EQ(sent == comm::Cost{}, world_size() == 1);
      }
    }
  }
}

TEST(Links, of_what_is_not_encoded_have_lost_nothing_and_taken_little_more) {
  for (const bool stages : {false, true}) {
    const auto links = second_step(linked_options(stages, "")).first;
    int sent = 0;
    for (const auto& [link, use] : links.uses) {
      EXPECT_EQ(use.relative_error(), 0.0) << link.text();
      if (use.wire() == 0) continue;
      ++sent;
      if (use.sent.messages == 0) continue;  // peers read it, each counted once
      EXPECT_EQ(use.raw + use.sent.messages * comm::header_bytes, use.sent.bytes) << link.text();
    }
    EXPECT_EQ(sent > 0, world_size() > 1) << (stages ? "stages" : "replicas");
  }
  const auto exact = second_step(linked_options(false, "dense")).first;
  EXPECT_EQ(exact.of(Traffic::gradient).relative_error(), 0.0);
}

TEST(Links, of_a_pipeline_lead_to_the_neighbours) {
  const auto links = second_step(linked_options(true, "bf16")).first;
  const int rank = world_rank();
  for (const auto& [link, use] : links.uses) {
    if (!schedule::is_between_stages(link.traffic)) continue;
    const int ahead = link.traffic == Traffic::activation ? 1 : -1;
    if (link.to >= 0 && use.sent.messages > 0) {
      EXPECT_EQ(link.from, rank);
      EXPECT_EQ(link.to, rank + ahead);
      EXPECT_EQ(use.sent.messages % 3, 0U) << "as many of each micro-batch";
      EXPECT_FALSE(use.relative_error()) << "nobody measures";
      EXPECT_GT(use.ratio(), 1.5);
    } else {
      EXPECT_EQ(link.to, rank);
      EXPECT_EQ(link.from, rank - ahead);
    }
  }
  const bool last = rank + 1 == world_size();
  EXPECT_EQ(links.uses.contains({Traffic::activation, rank, rank + 1, {}}), !last);
  EXPECT_EQ(links.uses.contains({Traffic::activation_gradient, rank, rank - 1, {}}), rank > 0);
}

/// Of two bytes for four, behind a head, in messages with a header each.
TEST(Links, of_bf16_take_what_its_format_says) {
  const comm::Communicator world;
  auto trainer = small_trainer<Linked>(linked_options(false, "bf16"), world);
  trainer.step();
  Bytes raw = 0, wire = 0;
  for (const run::Bucket& bucket : trainer.plan().buckets) {
    for (int owner = 0; owner < world_size(); ++owner) {
      if (owner == world_rank()) continue;
      const auto at = static_cast<std::size_t>(owner);
      const auto n = static_cast<Bytes>(bucket.shards[at + 1] - bucket.shards[at]);
      raw += 4 * n;
      wire += codec::message_head_bytes + 2 * n + comm::header_bytes;
    }
  }
  const run::LinkUse gradients = trainer.links().of(Traffic::gradient);
  EXPECT_EQ(gradients.raw, raw);
  EXPECT_EQ(gradients.wire(), wire);
  if (world_size() > 1) {
    EXPECT_DOUBLE_EQ(gradients.ratio(), static_cast<double>(raw) / static_cast<double>(wire));
  }
}

TEST(Links, of_top_k_take_and_lose_what_the_numbers_say) {
  for (const bool stages : {false, true}) {
    Noted noted;
    auto options = linked_options(stages, "top-k:4");
    note_second_step(options, noted);
    const auto links = second_step(options).first;
    std::map<Traffic, std::pair<double, double>> squares;
    std::map<Traffic, std::pair<Bytes, Bytes>> bytes;
    for (const auto& [name, numbers] : noted.by_name) {
      const Traffic traffic = name.starts_with("activation gradient") ? Traffic::activation_gradient
                              : name.starts_with("activation")        ? Traffic::activation
                                                                      : Traffic::gradient;
      const std::size_t n = numbers.before.size();
      EXPECT_EQ(numbers.shape.size(), std::ssize(numbers.before)) << name;
      std::size_t kept = 0;
      std::size_t zeros = 0;
      double least_kept = std::numeric_limits<double>::infinity();
      double max_lost = 0;
      for (std::size_t i = 0; i < n; ++i) {
        const double x = numbers.before[i];
        const double y = numbers.after[i];
        EXPECT_TRUE(x == y || y == 0) << name << " [" << i << "]";
        kept += y != 0 ? 1 : 0;
        zeros += x == 0 ? 1 : 0;
        if (y != 0) {
          least_kept = std::min(least_kept, std::abs(y));
        } else {
          max_lost = std::max(max_lost, std::abs(x));
        }
        squares[traffic].first += x * x;
        squares[traffic].second += (x - y) * (x - y);
      }
      EXPECT_EQ(kept, std::min((n + 3) / 4, n - zeros)) << name;
      EXPECT_GE(least_kept, max_lost) << name;
      const codec::TopK format{4};
      std::vector<std::byte> message(static_cast<std::size_t>(format.encoded_bytes(std::ssize(numbers.before))));
      bytes[traffic].first += 4 * n;
      bytes[traffic].second += format.encode(numbers.before, message) + comm::header_bytes;
    }
    for (const Traffic traffic : {Traffic::activation, Traffic::activation_gradient, Traffic::gradient}) {
      const run::LinkUse use = links.of(traffic);
      if (!bytes.contains(traffic)) continue;
      EXPECT_EQ(use.raw, bytes[traffic].first) << schedule::name_of(traffic);
      EXPECT_EQ(use.wire(), bytes[traffic].second) << schedule::name_of(traffic);
      const auto [all, lost] = squares[traffic];
      ASSERT_TRUE(use.relative_error());
      EXPECT_NEAR(*use.relative_error(), std::sqrt(lost / all), 1e-6) << schedule::name_of(traffic);
      EXPECT_GT(*use.relative_error(), 0.01);
      EXPECT_LE(*use.relative_error(), std::sqrt(0.75) + 1e-6)
          << "of a fourth of the numbers, the largest";
    }
    EXPECT_EQ(bytes.contains(Traffic::activation), stages && world_rank() + 1 < world_size());
    EXPECT_EQ(bytes.contains(Traffic::gradient), !stages && world_size() > 1);
  }
}

/// What the trace says of messages whose lengths depend on data are the bytes that went, without headers.
TEST(Links, are_in_the_trace_with_the_bytes_that_went) {
  trace::Sink sink(world_rank());
  auto options = linked_options(true, "top-k:4");
  options.trace = &sink;
  const comm::Communicator world;
  auto trainer = small_trainer<Linked>(options, world);
  for (int step = 0; step < 2; ++step) trainer.step();
  trace::Recording recording;
  sink.collect(recording);
  std::map<trace::Role, Bytes> bytes;
  for (const trace::Span& span : recording.spans) {
    if (recording.name_of(span).starts_with("activation")) bytes[span.role] += span.bytes;
  }
  comm::Cost sent;
  for (const Traffic traffic : {Traffic::activation, Traffic::activation_gradient}) {
    sent = sent + trainer.links().of(traffic).sent;
  }
  EXPECT_EQ(bytes[trace::Role::sends] + sent.messages * comm::header_bytes, sent.bytes);
  auto received = comm::gather_numbers(trainer.progress(), "received", bytes[trace::Role::receives]);
  auto left = comm::gather_numbers(trainer.progress(), "left", bytes[trace::Role::sends]);
  EXPECT_EQ(std::accumulate(received.begin(), received.end(), Bytes{0}), std::accumulate(left.begin(), left.end(), Bytes{0}));
  EXPECT_EQ(sent.bytes > 0, world_size() > 1);
}

/// Whose receiver has an estimate: the sender's is the same.
TEST(Links, of_codecs_with_memory_lose_what_receivers_lack) {
  for (const bool stages : {false, true}) {
    Noted noted;
    auto options = linked_options(stages, "ef21+blockwise8");
    note_second_step(options, noted);
    const auto links = second_step(options).first;
    for (const auto& [name, numbers] : noted.by_name) {
      double all = 0, lost = 0;
      for (std::size_t i = 0; i < numbers.before.size(); ++i) {
        all += numbers.before[i] * static_cast<double>(numbers.before[i]);
        lost += std::pow(static_cast<double>(numbers.before[i]) - numbers.after[i], 2);
      }
      EXPECT_LE(lost, 0.05 * 0.05 * all) << name;
    }
    const run::LinkUse use = links.of(stages ? Traffic::activation : Traffic::gradient);
    if (use.sent.messages > 0) {
      ASSERT_TRUE(use.relative_error());
      EXPECT_GT(*use.relative_error(), 0);
      EXPECT_LT(*use.relative_error(), 0.05);
    }
  }
}

TEST(Links, change_no_bit_when_they_are_measured) {
  for (const bool stages : {false, true}) {
    for (const char* const codec : {"ef+top-k:4", "ef21+blockwise8"}) {
      const auto plain = train<Linked>(linked_options(stages, codec));
      Noted noted;
      auto options = linked_options(stages, codec);
      note_second_step(options, noted);
      EXPECT_TRUE(same_bits(train<Linked>(options), plain)) << codec;
      EXPECT_EQ(noted.by_name.empty(), world_size() == 1);
    }
  }
}

/// All but the least is time on links. The first stage ends a step with what comes back, the last begins it with what comes.
TEST(Links, say_how_long_computation_stood_still) {
  if (world_size() == 1) GTEST_SKIP() << "one stage waits for nobody";
  auto options = linked_options(true, "");
  constexpr Seconds latency = 0.1;  // beside which a micro-batch takes little, on a busy machine too
  options.communication.network = profile::Network::uniform(world_size(), latency, 1e9);
  const comm::Communicator world;
  auto trainer = small_trainer<Linked>(options, world);
  trainer.step();
  Seconds max_of_step = 0;
  Seconds max_of_awaited = 0;
  const Traffic awaited = world_rank() == 0 ? Traffic::activation_gradient : Traffic::activation;
  for (int step = 0; step < 5; ++step) {
    const run::LinkTable before = trainer.links();
    const Seconds seconds = trainer.step().seconds;
    const run::LinkTable links = trainer.links() - before;
    Seconds all = 0;
    for (const auto& [link, use] : links.uses) all += use.exposed;
    EXPECT_LE(all, seconds);
    max_of_step = std::max(max_of_step, all / seconds);
    max_of_awaited = std::max(max_of_awaited, links.of(awaited).exposed);
  }
  EXPECT_GE(max_of_step, 0.5);
  const bool ends = world_rank() == 0 || world_rank() + 1 == world_size();
  if (ends) {
    EXPECT_GE(max_of_awaited, latency);
  }
}

}  // namespace
}  // namespace reef::test
