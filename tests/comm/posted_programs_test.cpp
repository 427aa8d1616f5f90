// Random programs of held and posted transfers and collectives, against what each must leave behind.

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <iterator>
#include <map>
#include <random>
#include <span>
#include <string>
#include <tuple>
#include <vector>

#include <gtest/gtest.h>

#include <comm/posted.hpp>
#include <reef/comm/collectives.hpp>
#include <reef/comm/detail/clock.hpp>
#include <reef/profile/network.hpp>
#include <reef/comm/point_to_point.hpp>
#include <reef/comm/progress.hpp>

namespace {

using namespace reef;
using namespace reef::comm;
using reef::test::Receive;
using reef::test::Send;
using PostedPrograms = reef::test::PostedTransfers;

/// One operation of a random program: a transfer, or with `from` -1 a sum over all ranks.
struct Operation {
  int from = -1;
  int to = -1;
  int name = 0;
  std::size_t bytes = 0;
  bool send_posted = false;
  bool receive_posted = false;
};

/// The same on every rank of the same seed.
std::vector<Operation> random_program(std::mt19937& random, int ranks, int length) {
  const auto below = [&](std::uint32_t n) { return static_cast<int>(random() % n); };
  std::vector<Operation> program;
  for (int i = 0; i < length; ++i) {
    Operation one;
    one.name = below(3);
    if (below(8) != 0) {
      one.from = below(static_cast<std::uint32_t>(ranks));
      one.to = (one.from + 1 + below(static_cast<std::uint32_t>(ranks - 1))) % ranks;
      const std::size_t all[] = {0, 1, 40, 999, 1000, 1001, 6789, 70'000};
      one.bytes = all[below(std::size(all))];
      one.send_posted = below(4) != 0;
      one.receive_posted = below(4) != 0;
    }
    program.push_back(one);
  }
  return program;
}

/// The places of a rank's own operations, in the order in which it submits them. Held ones keep the order
/// of the program, in which no rank can wait for itself; posted ones come earlier by chance, but not before another of
/// their name and peer.
std::vector<std::size_t> order_of(const std::vector<Operation>& program, int rank,
                                  std::mt19937& chance) {
  const auto key = [&](const Operation& one) { return std::tuple(one.from, one.to, one.name); };
  std::vector<std::size_t> order;
  for (std::size_t i = 0; i < program.size(); ++i) {
    const Operation& one = program[i];
    if (one.from != -1 && one.from != rank && one.to != rank) continue;
    std::size_t place = order.size();
    if (one.from != -1 && (one.from == rank ? one.send_posted : one.receive_posted)) {
      std::size_t earliest = place;
      while (earliest > 0 && key(program[order[earliest - 1]]) != key(one)) --earliest;
      place = earliest + chance() % (place - earliest + 1);
    }
    order.insert(order.begin() + static_cast<std::ptrdiff_t>(place), i);
  }
  return order;
}

void run_random_programs(const Communicator& world, const ProgressOptions& options, int programs,
                         int length) {
  Progress progress(world, options);
  const int me = world.rank();
  std::mt19937 chance(static_cast<std::uint32_t>(1000 + me));
  Cost cost;
  for (int number = 0; number < programs; ++number) {
    std::mt19937 random(static_cast<std::uint32_t>(number));
    const auto program = random_program(random, world.size(), length);
    const int queues = number % 3 + 1;
    std::map<std::size_t, Send> sends;
    std::map<std::size_t, Receive> receives;
    std::map<std::size_t, std::vector<float>> data;
    std::deque<AllReduceTask<float>> sums;
    std::vector<std::atomic<int>> completed(program.size());
    const auto order = order_of(program, me, chance);
    for (const std::size_t i : order) {
      const Operation& one = program[i];
      Queue& queue = progress.queue("queue " + std::to_string(one.name % queues));
      const std::string name = "name " + std::to_string(one.name);
      const bool slow = chance() % 8 == 0;
      const std::int64_t until = comm::detail::now_ns() + (slow ? comm::detail::to_ns(200e-6) : 0);
      const auto ready = [until] { return comm::detail::now_ns() >= until; };
      const auto count = [&completed, i] { ++completed[i]; };
      const auto submit = [&](Task& task) { progress.submit(queue, task, ready, count); };
      if (one.from == -1) {
        data[i].assign(100 + i, static_cast<float>(me + 1));
        submit(sums.emplace_back(name, std::span(data[i]), world.size()));
      } else if (one.from == me) {
        Send& send = sends.try_emplace(i, name, me, one.to, i, one.bytes).first->second;
        send.task.set_completion(one.send_posted ? Completion::posted : Completion::held);
        submit(send.task);
      } else {
        Receive& get = receives.try_emplace(i, name, one.from, me, i, one.bytes).first->second;
        get.task.set_completion(one.receive_posted ? Completion::posted : Completion::held);
        submit(get.task);
      }
    }
    progress.wait_all();
    for (const std::size_t i : order) EXPECT_EQ(completed[i], 1) << number << ", " << i;
    for (const auto& [i, get] : receives) {
      EXPECT_EQ(get.memory, get.wanted) << "program " << number << ", operation " << i;
    }
    const auto sum = static_cast<float>(world.size() * (world.size() + 1) / 2);
    for (const auto& [i, values] : data) {
      EXPECT_EQ(values, std::vector<float>(100 + i, sum)) << number << ", " << i;
    }
    for (const auto& [i, send] : sends)
      cost = cost + SendTask::cost(send.memory.size(), options.piece_bytes);
    EXPECT_EQ(progress.meter().of(Kind::send), cost) << number;
  }
}

TEST_F(PostedPrograms, of_random_operations_do_what_a_model_says) {
  run_random_programs(world, options(), 24, 60);
}

TEST_F(PostedPrograms, of_random_operations_do_so_on_shaped_links_too) {
  ProgressOptions shaped = options();
  shaped.network = profile::Network::uniform(world.size(), 100e-6, 200e6);
  run_random_programs(world, shaped, 6, 40);
}

}  // namespace
