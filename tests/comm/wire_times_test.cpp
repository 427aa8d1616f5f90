// Emulated links against simulated ones: random messages leave and arrive on a Wire when schedule::simulate says so. All
// times are written down, seconds and hours ahead of the clock, so that no machine is too slow for them.

#include <reef/comm/detail/wire.hpp>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include <reef/comm/communicator.hpp>
#include <reef/comm/mpi.hpp>
#include <reef/schedule/simulate.hpp>

namespace reef::comm::detail {
namespace {

struct Noting final : Receiver {
  void delivered(std::uint64_t) override { ++messages; }
  int messages = 0;
};

/// A message, and when it is asked for.
struct Asked {
  int from = 0;
  int to = 0;
  Bytes bytes = 0;  ///< header included
  Seconds time = 0;

  [[nodiscard]] Header head(std::size_t which) const {
    return Header::of(operation_id(Kind::send, "x"), 0, bytes - header_bytes,
                      static_cast<std::uint32_t>(which));
  }
};

/// Draws the same on all ranks.
class RandomLinks {
public:
  RandomLinks(std::uint64_t seed, int ranks) : ranks_(ranks), random_(seed) {}

  std::uint64_t below(std::uint64_t n) { return random_() % n; }
  /// Bytes per second, evenly in their orders of magnitude.
  std::vector<double> rates(std::size_t count, double least, double most) {
    std::vector<double> all(count);
    for (double& each : all) {
      each = least * std::pow(most / least, static_cast<double>(below(1000)) * 1e-3);
    }
    return all;
  }
  /// Multiples of `unit` below a thousand of it.
  std::vector<Seconds> latencies(std::size_t count, Seconds unit) {
    std::vector<Seconds> all(count);
    for (Seconds& each : all) each = unit * static_cast<double>(below(1000));
    return all;
  }
  profile::Network shape(double least_rate, Seconds unit) {
    const auto cells = static_cast<std::size_t>(ranks_ * ranks_);
    const std::vector<Seconds> latency = latencies(cells, unit);
    return {.devices = ranks_, .latencies = latency, .rates = rates(cells, least_rate, 1e3 * least_rate)};
  }

private:
  int ranks_;
  std::mt19937_64 random_;
};

/// When each message has arrived, by schedule::simulate. They are in the order in which a rank asks for them.
std::vector<Seconds> simulated(const profile::Network& shape, const std::vector<Asked>& messages) {
  using schedule::Lane;
  const schedule::World world = schedule::World::of(shape);
  std::vector<schedule::Program> programs(world.machines.size());
  for (int rank = 0; rank < shape.devices; ++rank) programs[static_cast<std::size_t>(rank)].rank = rank;
  std::vector<Seconds> asked(programs.size(), 0);
  std::vector<std::size_t> receive_of(messages.size());
  for (std::size_t m = 0; m < messages.size(); ++m) {
    const Asked& message = messages[m];
    const auto channel = static_cast<std::uint32_t>(m);
    const std::string name = std::to_string(m);
    schedule::Program& sender = programs[static_cast<std::size_t>(message.from)];
    const schedule::StorageId x =
        sender.add_storage("x" + name, 64, schedule::Place::device, schedule::Life::round);
    schedule::Instruction& waits = sender.add("Wait", Lane::compute);
    waits.writes = {{x, 0}};
    Seconds& before = asked[static_cast<std::size_t>(message.from)];
    waits.cost.seconds = message.time - before;
    before = message.time;
    schedule::Instruction& sends = sender.add("Send", Lane::send);
    sends.reads = {{x, 0}};
    sends.sends = {{message.to, message.bytes, channel}};
    sends.completion = schedule::Completion::posted;
    schedule::Program& receiver = programs[static_cast<std::size_t>(message.to)];
    const schedule::StorageId y =
        receiver.add_storage("y" + name, 64, schedule::Place::device, schedule::Life::round);
    receive_of[m] = receiver.round.size();
    schedule::Instruction& receives = receiver.add("Receive", Lane::receive);
    receives.writes = {{y, 0}};
    receives.receives = {{message.from, message.bytes, channel}};
    receives.completion = schedule::Completion::posted;
  }
  std::vector<Seconds> arrived(messages.size(), -1);
  for (const schedule::SimulatedSpan& span : schedule::simulate(programs, world, 1).spans) {
    for (std::size_t m = 0; m < messages.size(); ++m) {
      if (span.rank == messages[m].to && span.lane == Lane::receive &&
          span.instruction == receive_of[m])
        arrived[m] = span.end;
    }
  }
  return arrived;
}

std::string text_of(const profile::Network& shape, const Asked& message) {
  std::string text = concat(message.bytes, " bytes from rank ", message.from, " to ", message.to,
                            ", asked for at ", message.time, " s, link ",
                            shape.rate(message.from, message.to), " B/s + ",
                            shape.latency(message.from, message.to), " s");
  if (shape.has_uplinks()) {
    text += concat(", uplink ", shape.uplink(message.from), ", downlink ",
                   shape.downlink(message.to), " B/s");
  }
  return text;
}

struct WireTimes : testing::Test {
  void SetUp() override {
    if (world.size() < 2) GTEST_SKIP() << "no link";
  }

  /// Whether that is so on rank 0.
  [[nodiscard]] bool agreed(bool is) const {
    int value = is ? 1 : 0;
    MPI_Bcast(&value, 1, MPI_INT, 0, world.handle());
    return value != 0;
  }

  Communicator world;
  LiveMeter meter;
};

TEST_F(WireTimes, what_a_rank_sends_to_several_leaves_uplink_and_links_as_it_does_in_a_simulation) {
  constexpr std::size_t count = 12;
  const std::vector<std::byte> data(2000);
  for (std::uint64_t seed = 0; seed < 60; ++seed) {
    RandomLinks draw(seed, world.size());
    profile::Network shape = draw.shape(1e3, 1e-3);
    if (seed % 3 > 0) {
      const auto ranks = static_cast<std::size_t>(world.size());
      const std::vector<double> none(ranks, 1e12);
      shape = shape.with_uplinks(draw.rates(ranks, 1e3, 1e6), none);
    }
    std::vector<Asked> messages;
    Seconds time = 0;
    for (std::size_t m = 0; m < count; ++m) {
      time += draw.below(3) == 0 ? 1e-3 * static_cast<double>(1 + draw.below(1000)) : 1e-6;
      const int to = 1 + static_cast<int>(draw.below(static_cast<std::uint64_t>(world.size()) - 1));
      messages.push_back({0, to, header_bytes + draw.below(data.size()), time});
    }
    if (world.rank() == 0) {
      Wire wire(world.handle(), 0, world.size(), shape, meter);
      Noting noting;
      std::array<Header, count> headers;
      const std::vector<Seconds> arrivals = simulated(shape, messages);
      const std::int64_t begin = now_ns() + to_ns(3600);
      for (std::size_t m = 0; m < count; ++m) {
        headers[m] = messages[m].head(m);
        wire.asked_at(begin + to_ns(messages[m].time));
        wire.send(noting, m, messages[m].to, m, Kind::send, headers[m], data.data());
        // Of a downlink that is faster than all links, a message is there when the last of it has passed the link.
        EXPECT_NEAR(to_seconds(headers[m].arrival - begin), arrivals[m], 1e-6)
            << "seed " << seed << ", message " << m << ": " << text_of(shape, messages[m]);
      }
      wire.cancel(to_ns(10));
    } else {
      Wire wire(world.handle(), world.rank(), world.size(), shape, meter);
      Noting noting;
      std::array<Header, count> headers;
      std::vector<std::vector<std::byte>> room(count, std::vector<std::byte>(data.size()));
      for (std::size_t m = 0; m < count; ++m) {
        if (messages[m].to != world.rank()) continue;
        wire.receive(noting, m, 0, m, Kind::receive, messages[m].head(m), headers[m],
                     room[m].data());
      }
      while (wire.quiet() != to_ns(4e-3)) wire.poll();  // it has yet to hear of some
      wire.cancel(0);
    }
  }
}

/// Rates are so low that whatever is sent takes seconds, and latencies so short that all reaches rank 0 at once.
TEST_F(WireTimes, what_several_send_to_one_passes_its_downlink_as_it_does_in_a_simulation) {
  const auto ranks = static_cast<std::size_t>(world.size());
  std::int64_t ahead = to_ns(0.01);
  for (std::uint64_t seed = 0; seed < 30;) {
    RandomLinks draw(1000 + seed, world.size());
    const profile::Network links = draw.shape(1, 1e-6);
    const std::vector<double> up = draw.rates(ranks, 1, 1e3);
    const profile::Network shape = links.with_uplinks(up, draw.rates(ranks, 1, 30));
    std::vector<Asked> messages;
    for (int from = 1; from < world.size(); ++from) {
      const Seconds time = 1e-6 * static_cast<double>(draw.below(1000)) + 1e-8 * from;
      messages.push_back({from, 0, header_bytes + 300 + draw.below(1000), time});
    }
    std::vector<std::vector<std::byte>> data;
    for (const Asked& message : messages) data.emplace_back(message.bytes - header_bytes);
    std::vector<Header> headers(messages.size());
    std::vector<Noting> noting(messages.size());
    Wire wire(world.handle(), world.rank(), world.size(), shape, meter);
    if (world.rank() == 0) {
      for (std::size_t m = 0; m < messages.size(); ++m) {
        wire.receive(noting[m], m, messages[m].from, 7, Kind::receive, messages[m].head(m),
                     headers[m], data[m].data());
      }
    }
    std::int64_t begin = now_ns() + ahead;
    MPI_Bcast(&begin, 1, MPI_INT64_T, 0, world.handle());
    bool early = true;
    if (world.rank() > 0) {
      const auto m = static_cast<std::size_t>(world.rank() - 1);
      headers[m] = messages[m].head(m);
      wire.asked_at(begin + to_ns(messages[m].time));
      wire.send(noting[m], m, 0, 7, Kind::send, headers[m], data[m].data());
      wire.cancel(to_ns(10));
    } else {
      while (wire.quiet() != to_ns(4e-3)) wire.poll();  // it has yet to hear of some
      early = now_ns() < begin;
    }
    // What is heard of late enters the downlink late: then all is done anew, with more time.
    if (!agreed(early)) {
      ahead *= 2;
      wire.cancel(0);
      continue;
    }
    if (world.rank() == 0) {
      while (now_ns() < begin + to_ns(3e-3)) wire.poll();
      wire.poll();  // after the last of them has reached it
      const std::vector<Seconds> arrivals = simulated(shape, messages);
      for (std::size_t m = 0; m < messages.size(); ++m) {
        const std::string what = concat("seed ", seed, ": ", text_of(shape, messages[m]));
        EXPECT_EQ(noting[m].messages, 0)
            << what << ": this machine stood still, or it came too early";
        const std::int64_t seen = wire.last_arrival(noting[m], 1);
        EXPECT_NE(seen, never_ns) << what << ": it is not through the downlink";
        EXPECT_NEAR(to_seconds(seen - begin), arrivals[m], 1e-6) << what;
      }
      wire.cancel(0);
    }
    ++seed;
  }
}

}  // namespace
}  // namespace reef::comm::detail
