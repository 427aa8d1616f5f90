#include <reef/comm/network_file.hpp>

#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <initializer_list>
#include <limits>
#include <memory>
#include <span>
#include <string>
#include <thread>
#include <type_traits>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include <comm/reference.hpp>
#include <reef/comm/detail/clock.hpp>
#include <reef/comm/functions.hpp>
#include <reef/comm/mpi.hpp>

namespace {

using namespace reef;
using namespace reef::comm;
using reef::test::inputs_of;
using reef::test::same_bits;
using reef::test::sum_of_ranks;

std::string case_file(const std::string& name) { return std::string(REEF_TEST_DATA) + "/" + name; }

ProgressOptions shaped(profile::Network shape) {
  ProgressOptions options;
  options.deadline = 60;
  options.network = std::move(shape);
  return options;
}

TEST(NetworkFile, the_links_of_the_first_devices_of_a_case_are_read) {
  const profile::Network shape = read_network(case_file("allocate_case5.json"), 9);
  EXPECT_EQ(shape.devices, 9);
  EXPECT_DOUBLE_EQ(shape.latency(0, 1), 0.005);
  EXPECT_DOUBLE_EQ(shape.rate(0, 1), 2e9 / 8);
  EXPECT_DOUBLE_EQ(shape.latency(0, 8), 0.067);
  EXPECT_DOUBLE_EQ(shape.rate(0, 8), 0.79e9 / 8);
}

TEST(NetworkFile, what_is_no_network_is_refused) {
  const std::string path = std::filesystem::temp_directory_path().string() + "/reef-network-" +
                           std::to_string(getpid()) + ".json";
  const auto write = [&](const std::string& text) { std::ofstream(path) << text; };
  EXPECT_THROW((void)read_network("/nowhere/at/all.json", 2), FileError);
  for (const char* const text :
       {"", "[]", "{", "{}", R"({"latency_ms": [[0, 1], [1, 0]]})",
        R"({"latency_ms": [[0, 1], [1, 0]], "bandwidth_gbps": [[1, 1], [1]]})",
        R"({"latency_ms": [[0, 1], [1, 0]], "bandwidth_gbps": [[1, 1], [1, "fast"]]})",
        R"({"latency_ms": [[0, 1], 5], "bandwidth_gbps": [[1, 1], [1, 1]]})"}) {
    write(text);
    EXPECT_THROW((void)read_network(path, 2), DecodeError) << text;
  }
  write(R"({"latency_ms": [[0, 1], [1, 0]], "bandwidth_gbps": [[1, 1], [1, 1]]})");
  EXPECT_EQ(read_network(path, 2).devices, 2);
  EXPECT_THROW((void)read_network(path, 3), DecodeError);
  write(R"({"latency_ms": [[0, -1], [1, 0]], "bandwidth_gbps": [[1, 1], [1, 1]]})");
  EXPECT_THROW((void)read_network(path, 2), DecodeError);
  write(R"({"latency_ms": [[0, 1], [1, 0]], "bandwidth_gbps": [[1, 0], [1, 1]]})");
  EXPECT_THROW((void)read_network(path, 2), DecodeError);
  const auto message = [&] {
    try {
      (void)read_network(path, 2);
    } catch (const Error& error) {
      return std::string(error.what());
    }
    return std::string("read");
  };
  EXPECT_NE(message().find(path + ": bandwidth_gbps[0][1] is 0"), std::string::npos) << message();
  write(R"({"latency_ms": [[0, 1], [1, 0]], "bandwidth_gbps": [[1, 1], [1, 1]],
            "bandwith_gbps": [[1, 1], [1, 1]]})");
  EXPECT_NE(message().find("'bandwith_gbps'; did you mean 'bandwidth_gbps'?"), std::string::npos)
      << message();
  write(R"({"latency_ms": [[0, 1], [1, 0]], "bandwidth_gbps": [[1, 1], [1, 1]], "name": "x",
            "devices": ["a", "b"], "workload_note": "y", "all_partitions": [], "D_PP": 2})");
  EXPECT_EQ(message(), "read");
  for (const auto& [text, why] : std::initializer_list<std::pair<const char*, const char*>>{
           {R"({"ranks": 1, "latency_ms": 1, "bandwidth_gbps": 1})", "has 1 devices, but there are 2 ranks"},
           {R"({"ranks": 3, "latency_ms": [[0, 1], [1, 0]], "bandwidth_gbps": 1})", "latency_ms has 2 rows for 3 ranks"},
           {R"({"ranks": 2, "devices": 3, "bandwidth_gbps": 1})", "devices says 3, and the network has 2"},
           {R"({"ranks": 2, "latency_ms": -1, "bandwidth_gbps": 1})", "latency_ms is -1"},
           {R"({"ranks": 2, "latency_ms": 1})", "'bandwidth_gbps' is missing"},
           {R"({"ranks": "2", "bandwidth_gbps": 1})", "'ranks' must be an integer"}}) {
    write(text);
    EXPECT_NE(message().find(why), std::string::npos) << message();
  }
  std::remove(path.c_str());
}

/// What reef-train --network and the network of a case of reef-plan have in common.
TEST(NetworkFile, a_number_is_of_all_links_and_a_matrix_of_each_in_a_file_and_inside_of_one) {
  const char* const text = R"({"ranks": 3, "latency_ms": 5, "devices": ["a", "b", "c"],
      "bandwidth_gbps": [[0, 1, 2], [3, 0, 4], [5, 6, 0]], "reciprocal_gbps": [], "device_flops": [1, 2, 3],
      "device_memory_gbps": [1, 2, 3], "model_flops": [1, 2, 3]})";
  const std::string path = std::filesystem::temp_directory_path().string() + "/reef-numbers-" +
                           std::to_string(getpid()) + ".json";
  std::ofstream(path) << text;
  const profile::Network shape = read_network(path, 2);
  EXPECT_EQ(shape.devices, 2);
  EXPECT_DOUBLE_EQ(shape.latency(1, 0), 0.005);
  EXPECT_DOUBLE_EQ(shape.rate(0, 1), 1e9 / 8);
  EXPECT_DOUBLE_EQ(shape.rate(1, 0), 3e9 / 8);
  std::ofstream(path) << R"({"latency_ms": 1, "uplink_gbps": 2})";
  EXPECT_DOUBLE_EQ(read_network(path, 4).latency(3, 0), 0.001) << "of as many ranks as there are";
  EXPECT_DOUBLE_EQ(read_network(path, 4).uplink(3), 2e9 / 8);
  std::remove(path.c_str());
  const io::Json whole{{"network", io::parse_json(text, "text")}};
  for (const auto& [wrong, why] : {std::pair{R"({"network": 5})", "'network' must be an object"}, {R"({})", "'network' is missing"}}) {
    try {
      links_from_json(io::parse_json(wrong, "text"), "network", "text", 2);
      ADD_FAILURE() << wrong;
    } catch (const DecodeError& error) {
      EXPECT_NE(std::string(error.what()).find(why), std::string::npos) << error.what();
    }
  }
  EXPECT_EQ(ranks_of_network(whole, "network", "text"), 3);
  const profile::Network links = links_from_json(whole, "network", "text", 3);
  EXPECT_DOUBLE_EQ(links.latencies[1], 0.005);
  EXPECT_DOUBLE_EQ(links.rates[7], 6e9 / 8);
}

TEST(NetworkFile, uplinks_are_a_number_for_all_devices_or_one_for_each) {
  const std::string path = std::filesystem::temp_directory_path().string() + "/reef-uplinks-" +
                           std::to_string(getpid()) + ".json";
  const auto read = [&](const std::string& more) {
    std::ofstream(path) << R"({"latency_ms": [[0, 1], [1, 0]], "bandwidth_gbps": [[1, 1], [1, 1]])"
                        << more << "}";
    return read_network(path, 2);
  };
  EXPECT_FALSE(read("").has_uplinks());
  const profile::Network all = read(R"(, "uplink_gbps": 0.1)");
  EXPECT_DOUBLE_EQ(all.uplink(1), 0.1e9 / 8);
  EXPECT_DOUBLE_EQ(all.downlink(1), 0.1e9 / 8);
  const profile::Network each = read(R"(, "uplink_gbps": [0.1, 0.2, 7], "downlink_gbps": [1, 2])");
  EXPECT_DOUBLE_EQ(each.uplink(1), 0.2e9 / 8);
  EXPECT_DOUBLE_EQ(each.downlink(1), 2e9 / 8);
  for (const auto& [wrong, why] : std::initializer_list<std::pair<const char*, const char*>>{
           {R"("uplink_gbps": 0)", "uplink_gbps is 0, not a rate from 1e-9 to 1e12 Gbit/s"},
           {R"("uplink_gbps": 1e-300)", "uplink_gbps is 1e-300, not a rate"},
           {R"("uplink_gbps": [1])", "uplink_gbps has 1 numbers for 2 devices"},
           {R"("uplink_gbps": [1, -1])", "uplink_gbps[1] is -1, not a rate"},
           {R"("uplink_gbps": [1, 2, 1e300])", "uplink_gbps[2] is 1e+300, not a rate"},
           {R"("uplink_gbps": "fast")", "uplink_gbps is \"fast\", which is no number"},
           {R"("uplink_gbps": [1, "x"])", "uplink_gbps[1] is \"x\", which is no number"},
           {R"("uplink_gbps": null)", "uplink_gbps is null, which is no number"},
           {R"("downlink_gbps": 1)", "downlink_gbps without uplink_gbps"},
           {R"("uplink_gbps": 1, "downlink_gbps": [1, 0])", "downlink_gbps[1] is 0, not a rate"}}) {
    try {
      (void)read(concat(", ", wrong));
      ADD_FAILURE() << wrong << " is read";
    } catch (const DecodeError& error) {
      EXPECT_NE(std::string(error.what()).find(concat(path, ": ", why)), std::string::npos)
          << error.what();
    }
  }
  std::remove(path.c_str());
}

TEST(EmulatedNetwork, sizes_that_do_not_fit_are_refused) {
  static_assert(std::is_same_v<NetworkShape, profile::Network>);
  const auto accepts = [](const profile::Network& network, int ranks) {
    ProgressOptions options;
    options.network = network;
    try {
      static_cast<void>(checked(options, ranks));
    } catch (const OptionError&) {
      return false;
    }
    return true;
  };
  EXPECT_TRUE(accepts({}, 2)) << "no network";
  EXPECT_TRUE(accepts(profile::Network::uniform(3, 0, 1), 2)) << "of more ranks";
  EXPECT_FALSE(accepts(profile::Network::uniform(1, 0, 1), 2));
  EXPECT_FALSE(accepts({.devices = 2, .latencies = {0, 1, 1}, .rates = {1, 1, 1, 1}}, 2));
  EXPECT_FALSE(accepts({.devices = -1}, 2));
  EXPECT_FALSE(accepts({.devices = 2, .latencies = {0, 0, 0, 0}, .rates = {1, 1, 1, 1}, .uplinks = {1, 1}}, 2));
}

TEST(ShapedLinks, collectives_keep_their_bits_and_travel_as_messages) {
  const Communicator world;
  Progress progress(world, shaped(read_network(case_file("allocate_case5.json"), world.size())));
  EXPECT_EQ(progress.transport(), Transport::messages);
  for (const std::int64_t n : {1, 3, 50'003}) {
    std::vector<float> data = inputs_of<float>(world.rank(), n);
    all_reduce(progress, "sum", std::span(data));
    EXPECT_TRUE(same_bits(data, sum_of_ranks<float>(world.size(), n))) << "n = " << n;
  }
}

/// Does on all ranks what takes its time on emulated links, until it took none of them more than half as long again as the
/// links take. A busy machine is late in some tries, a link that is too slow in all.
template <class F>
void expect_in_time(F&& took_by_model) {
  double least = std::numeric_limits<double>::infinity();
  int tries = 0;
  for (; tries < 40 && least > 1.5; ++tries) {
    double ratio = took_by_model();
    MPI_Allreduce(MPI_IN_PLACE, &ratio, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
    least = std::min(least, ratio);
  }
  EXPECT_LE(least, 1.5) << "times as long as the links take, in the best of " << tries << " tries";
}

TEST(ShapedLinks, a_message_arrives_no_earlier_than_the_link_allows_and_waiting_is_idle) {
  const Communicator world;
  if (world.size() == 1) GTEST_SKIP() << "no link";
  // Rank 0 sends three messages over one link: they queue, and each takes its bytes and the latency.
  const Seconds latency = 0.1;
  const double bandwidth = 10e6;
  const Bytes bytes = 2'000'000;
  Progress progress(world, shaped(profile::Network::uniform(world.size(), latency, bandwidth)));
  std::array<std::vector<std::int64_t>, 3> data;
  for (auto& part : data) part.resize(bytes / sizeof(std::int64_t));
  if (world.rank() == 0) {
    const std::int64_t begin = comm::detail::now_ns();
    for (auto& part : data) part.front() = begin;
    SendTask first("0", 1, std::span(data[0]));
    SendTask second("1", 1, std::span(data[1]));
    SendTask third("2", 1, std::span(data[2]));
    progress.submit(progress.queue("0"), first);
    progress.submit(progress.queue("0"), second);
    progress.submit(progress.queue("0"), third);
    progress.wait_all();
    EXPECT_GE(comm::detail::to_seconds(comm::detail::now_ns() - begin),
              3 * static_cast<double>(bytes) / bandwidth);
  } else if (world.rank() == 1) {
    rusage before{};
    getrusage(RUSAGE_SELF, &before);
    const std::int64_t begin = comm::detail::now_ns();
    for (int i = 0; i < 3; ++i) {
      auto& part = data[static_cast<std::size_t>(i)];
      receive(progress, std::to_string(i), 0, std::span(part));
      const Seconds took = comm::detail::to_seconds(comm::detail::now_ns() - part.front());
      const Seconds model = (i + 1) * static_cast<double>(bytes) / bandwidth + latency;
      EXPECT_GE(took, model) << i;
    }
    rusage after{};
    getrusage(RUSAGE_SELF, &after);
    const auto seconds = [](const timeval& time) {
      return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_usec) * 1e-6;
    };
    const double busy = seconds(after.ru_utime) - seconds(before.ru_utime) +
                        seconds(after.ru_stime) - seconds(before.ru_stime);
    const Seconds waited = comm::detail::to_seconds(comm::detail::now_ns() - begin);  // at least 0.7 s
    EXPECT_LT(busy, waited / 2);
  }
}

TEST(ShapedLinks, messages_that_queue_up_take_no_longer_than_their_link) {
  const Communicator world;
  if (world.size() == 1) GTEST_SKIP() << "no link";
  const Seconds latency = 0.02;
  const double bandwidth = 10e6;
  std::array<std::vector<std::int64_t>, 3> data;
  for (auto& part : data) part.resize(50'000);  // 0.04 s each
  const double model = 3 * 8 * 50'000 / bandwidth + latency;
  Progress progress(world, shaped(profile::Network::uniform(world.size(), latency, bandwidth)));
  expect_in_time([&] {
    barrier(progress, "before");
    if (world.rank() > 1) return 0.0;
    const std::int64_t begin = comm::detail::now_ns();
    for (int i = 0; i < 3; ++i) {
      const std::span part(data[static_cast<std::size_t>(i)]);
      if (world.rank() == 1) {
        receive(progress, std::to_string(i), 0, part);
      } else {
        part.front() = begin;
        send(progress, std::to_string(i), 1, std::span<const std::int64_t>(part));
      }
    }
    return comm::detail::to_seconds(comm::detail::now_ns() - data[0].front()) / model;
  });
}

TEST(ShapedLinks, what_is_sent_after_a_long_wait_is_seen_in_time) {
  const Communicator world;
  if (world.size() == 1) GTEST_SKIP() << "no link";
  // MPI moves so much after an agreement, for which both ends look several times within the link's time.
  const Seconds latency = 4e-3;
  std::vector<std::int64_t> data(16'384 / sizeof(std::int64_t));
  Progress progress(world, shaped(profile::Network::uniform(world.size(), latency, 1e9)));
  Seconds least_late = 1;  // a machine that is busy makes some later
  char in_time = 0;
  for (int i = 0; i < 30 && in_time == 0; ++i) {
    const std::string name = std::to_string(i);
    if (world.rank() == 0) {
      std::this_thread::sleep_for(std::chrono::milliseconds(250 + i));
      data.front() = comm::detail::now_ns();
      send(progress, name, 1, std::span(data));
      receive(progress, "in time", 1, std::span(&in_time, 1));
    } else if (world.rank() == 1) {
      receive(progress, name, 0, std::span(data));
      const Seconds took = comm::detail::to_seconds(comm::detail::now_ns() - data.front());
      least_late = std::min(least_late, took - latency);
      in_time = least_late < latency / 2 ? 1 : 0;
      send(progress, "in time", 0, std::span(&in_time, 1));
    } else {
      return;
    }
  }
  if (world.rank() == 1) {
    EXPECT_LT(least_late, latency / 2);
  }
}

#if defined(RUSAGE_THREAD)
TEST(ShapedLinks, who_waits_is_not_woken_for_a_piece_nor_for_those_of_another) {
  const Communicator world;
  if (world.size() == 1) GTEST_SKIP() << "no link";
  constexpr int pieces = 32;
  ProgressOptions options = shaped(profile::Network::uniform(world.size(), 1e-3, 10e6));
  options.piece_bytes = 64 << 10;
  Progress progress(world, options);
  std::vector<char> data(pieces * options.piece_bytes);
  std::vector<char> word(8);
  SendTask sends("pieces", 1, std::span(data));
  ReceiveTask receives("pieces", 0, std::span(data));
  if (world.rank() == 0) {
    progress.submit(progress.queue("large"), sends);
    progress.wait(sends);
    send(progress, "word", 1, std::span(word));
  }
  if (world.rank() != 1) return;
  progress.submit(progress.queue("large"), receives);
  rusage before{};
  getrusage(RUSAGE_THREAD, &before);
  receive(progress, "word", 0, std::span(word));  // one message, and it comes after all pieces
  progress.wait(receives);
  rusage after{};
  getrusage(RUSAGE_THREAD, &after);
  // Asleep, called before the only message, and when another task ends; perhaps asleep again for a moment.
  EXPECT_LT(after.ru_nvcsw - before.ru_nvcsw, pieces / 2);
}
#endif

TEST(ShapedLinks, each_ordered_pair_has_its_own_link) {
  const Communicator world;
  if (world.size() == 1) GTEST_SKIP() << "no link";
  // Only the link from 0 to 1 is slow.
  const auto ranks = static_cast<std::size_t>(world.size());
  std::vector<Seconds> latency(ranks * ranks, 0.0);
  latency[1] = 0.1;
  Progress progress(
      world, shaped({.devices = world.size(), .latencies = latency, .rates = std::vector<double>(ranks * ranks, 1e9)}));
  std::vector<std::int64_t> sent(10);
  std::vector<std::int64_t> received(10);
  const auto took = [&] {
    return comm::detail::to_seconds(comm::detail::now_ns() - received.front());
  };
  expect_in_time([&] {
    if (world.rank() == 0) {
      sent.front() = comm::detail::now_ns();
      send(progress, "there", 1, std::span(sent));
      receive(progress, "back", 1, std::span(received));
      return took() / 0.05;  // by the slow link 2
    }
    if (world.rank() > 1) return 0.0;
    receive(progress, "there", 0, std::span(received));
    const Seconds there = took();
    EXPECT_GE(there, 0.1);
    sent.front() = comm::detail::now_ns();
    send(progress, "back", 0, std::span(sent));
    return there / 0.1;
  });
}

TEST(ShapedLinks, an_uplink_carries_one_message_after_another_to_whomever) {
  const Communicator world;
  if (world.size() == 1) GTEST_SKIP() << "no link";
  const auto ranks = static_cast<std::size_t>(world.size());
  const double rate = 10e6;
  const Bytes bytes = 500'000;  // 0.05 s each
  const std::vector<double> each(ranks, rate);
  Progress progress(world,
                    shaped(profile::Network::uniform(world.size(), 0, rate).with_uplinks(each, each)));
  const auto took = [](std::int64_t begin) {
    return comm::detail::to_seconds(comm::detail::now_ns() - begin);
  };
  const double one = static_cast<double>(bytes) / rate;
  const double all = (world.size() - 1) * one;
  std::vector<std::vector<std::int64_t>> data(
      ranks, std::vector<std::int64_t>(bytes / sizeof(std::int64_t)));
  const auto from_rank_0_to_all_others = [&] {
    barrier(progress, "before");
    if (world.rank() != 0) {
      receive(progress, "to " + std::to_string(world.rank()), 0, std::span(data[0]));
      const Seconds seconds = took(data[0].front());
      EXPECT_GE(seconds, one);
      return seconds / all;
    }
    std::vector<std::unique_ptr<SendTask>> sends;
    for (int peer = 1; peer < world.size(); ++peer) {
      const std::string name = "to " + std::to_string(peer);
      data[static_cast<std::size_t>(peer)].front() = comm::detail::now_ns();
      sends.push_back(std::make_unique<SendTask>(
          name, peer, std::span<const std::int64_t>(data[static_cast<std::size_t>(peer)])));
      progress.submit(progress.queue(name), *sends.back());
    }
    const std::int64_t begin = data[1].front();
    progress.wait_all();
    const Seconds seconds = took(begin);
    EXPECT_GE(seconds, all);
    return seconds / all;
  };
  expect_in_time(from_rank_0_to_all_others);
  const auto from_all_others_to_rank_0 = [&] {
    barrier(progress, "before");
    if (world.rank() != 0) {
      data[0].front() = comm::detail::now_ns();
      send(progress, "from " + std::to_string(world.rank()), 0, std::span(data[0]));
      return 0.0;
    }
    std::vector<std::unique_ptr<ReceiveTask>> receives;
    for (int peer = 1; peer < world.size(); ++peer) {
      const std::string name = "from " + std::to_string(peer);
      receives.push_back(std::make_unique<ReceiveTask>(
          name, peer, std::span(data[static_cast<std::size_t>(peer)])));
      progress.submit(progress.queue(name), *receives.back());
    }
    progress.wait_all();
    std::int64_t first = comm::detail::now_ns();
    for (int peer = 1; peer < world.size(); ++peer) {
      first = std::min(first, data[static_cast<std::size_t>(peer)].front());
    }
    const Seconds seconds = took(first);
    EXPECT_GE(seconds, all);
    return seconds / all;
  };
  expect_in_time(from_all_others_to_rank_0);
}

TEST(ShapedLinks, a_network_for_fewer_ranks_is_refused) {
  const Communicator world;
  if (world.size() == 1) GTEST_SKIP() << "one rank fits every network";
  EXPECT_THROW(Progress(world, shaped(profile::Network::uniform(world.size() - 1, 0, 1e9))),
               OptionError);
}

}  // namespace
