// reef-measure as a user runs it, on links whose figures are known.

#include <sys/stat.h>

#include <algorithm>
#include <cstddef>
#include <map>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <reef/core/text.hpp>
#include <reef/io/json.hpp>
#include <reef/profile/network_json.hpp>

#include "support/job.hpp"
#include "support/temporary_folder.hpp"

namespace reef::test {
namespace {

using testing::HasSubstr;

class ReefMeasure : public testing::Test {
protected:
  [[nodiscard]] std::string path(const std::string& name) const {
    return (folder_ / name).string();
  }
  [[nodiscard]] static Ending measure(int ranks, const std::string& options) {
    return run_ranks(REEF_TEST_MPIEXEC, ranks, concat(REEF_MEASURE, " ", options));
  }

  /// The figures of links that are not near those of the network, with what was found.
  [[nodiscard]] static std::map<std::string, double> differences(const io::Json& found,
                                                                 const profile::Network& wanted) {
    const auto network = profile::network_from_json(found, "measured");
    EXPECT_EQ(network.devices, wanted.devices);
    EXPECT_FALSE(network.names.empty());
    if (network.devices != wanted.devices) return {};
    std::map<std::string, double> far;
    for (int from = 0; from < wanted.devices; ++from) {
      for (int to = 0; to < wanted.devices; ++to) {
        if (from == to) continue;
        const auto require = [&](const char* what, double value, double least, double most) {
          if (!(value >= least && value <= most)) far[concat(what, " from ", from, " to ", to)] = value;
        };
        const double latency = wanted.latency(from, to);
        const double rate = wanted.rate(from, to);
        require("latency", network.latency(from, to), 0.8 * latency, 1.1 * latency + 0.02);
        require("rate", network.rate(from, to), 0.6 * rate, 1.4 * rate);
        const io::Json& row = found["reciprocal_gbps"][static_cast<std::size_t>(from)];
        require("rate while as much goes the other way",
                row[static_cast<std::size_t>(to)].get<double>() * 1e9 / 8, 0.5 * rate,
                1.0001 * network.rate(from, to));
      }
    }
    return far;
  }

  TemporaryFolder folder_;
};

TEST_F(ReefMeasure, finds_latency_and_bandwidth_of_links_that_differ_by_direction) {
  // Of times that stand out from what a busy machine takes itself, and far apart.
  const io::Json shaped{
      {"latency_ms", {{0, 15, 100}, {60, 0, 20}, {30, 75, 0}}},
      {"bandwidth_gbps", {{0, 0.02, 0.005}, {0.006, 0, 0.018}, {0.016, 0.0055, 0}}}};
  write_file(folder_ / "shaped.json", shaped.dump());
  const auto wanted = profile::network_from_json(shaped, "shaped");
  // A busy machine makes some figures of an attempt wrong, and others of the next.
  std::map<std::string, double> never_near;
  for (int attempt = 0; attempt == 0 || (attempt < 12 && !never_near.empty()); ++attempt) {
    const Ending ending =
        measure(3, concat("--links-only --sizes 1024 131072 --repeats 3 --network ",
                          path("shaped.json"), " --output ", path("measured.json")));
    ASSERT_EQ(ending.status, 0) << ending;
    EXPECT_THAT(ending.errors, HasSubstr("the network of 3 ranks is in "));
    const auto far = differences(io::read_json(path("measured.json")), wanted);
    if (attempt == 0) never_near = far;
    std::erase_if(never_near, [&](const auto& figure) { return !far.contains(figure.first); });
  }
  EXPECT_THAT(never_near, testing::IsEmpty());
  const io::Json found = io::read_json(path("measured.json"));
  // What an earlier run wrote goes aside.
  const Ending second =
      measure(2, concat("--links-only --sizes 1024 16384 --repeats 1 --network ",
                        path("shaped.json"), " --output ", path("measured.json")));
  EXPECT_EQ(second.status, 0) << second;
  EXPECT_THAT(second.errors, HasSubstr("what an earlier run left there is now in "));
  EXPECT_NE(io::read_json(path("measured.json")), found);
}

TEST_F(ReefMeasure, finds_no_more_than_what_a_machine_s_connection_carries) {
  // 20 Mbit/s, whatever its links could.
  const io::Json shaped{{"latency_ms", {{0, 5}, {5, 0}}},
                        {"bandwidth_gbps", {{0, 1}, {1, 0}}},
                        {"uplink_gbps", 0.02}};
  write_file(folder_ / "shaped.json", shaped.dump());
  double least = 1e9 / 8;  // of the faster direction; a small message that is late makes a link seem faster
  for (int attempt = 0; attempt < 12 && least > 2 * 0.02e9 / 8; ++attempt) {
    const Ending ending =
        measure(2, concat("--links-only --sizes 1024 65536 262144 --repeats 2 --network ",
                          path("shaped.json"), " --output ", path("measured.json")));
    ASSERT_EQ(ending.status, 0) << ending;
    const auto network = profile::network_from_json(io::read_json(path("measured.json")), "measured");
    least = std::min(least, std::max(network.rate(0, 1), network.rate(1, 0)));
  }
  EXPECT_LE(least, 2 * 0.02e9 / 8);
}

TEST_F(ReefMeasure, times_devices_and_a_model_and_reef_train_reads_what_it_wrote) {
  const Ending ending = measure(2, concat("--model 1x2x32 --threads 1 --sizes 1024 65536 ",
                                          "--repeats 2 --output ", path("measured.json")));
  ASSERT_EQ(ending.status, 0) << ending;
  const io::Json found = io::read_json(path("measured.json"));
  EXPECT_EQ(profile::network_from_json(found, "measured").devices, 2);
  for (const char* key : {"device_flops", "device_memory_gbps", "model_flops"}) {
    ASSERT_EQ(found.at(key).size(), 2U) << key;
    for (const io::Json& speed : found.at(key)) EXPECT_GT(speed.get<double>(), 0) << key;
  }
  write_file(folder_ / "text.txt", std::string(4000, 'x'));
  const Ending trained = run_ranks(
      REEF_TEST_MPIEXEC, 2,
      concat(REEF_TRAIN, " --model 1x2x16 --context 16 --batch 4 ",
             "--threads 1 --prompt-bytes 0 --steps 1 --data ", path("text.txt"), " --network ",
             path("measured.json")));
  EXPECT_EQ(trained.status, 0) << trained;
}

TEST_F(ReefMeasure, writes_to_standard_output_and_has_little_to_say_of_one_rank) {
  const Ending ending = measure(1, "--links-only");
  ASSERT_EQ(ending.status, 0) << ending;
  const io::Json found = io::parse_json(ending.output, "output");
  EXPECT_EQ(found.at("latency_ms"), io::Json::array({io::Json::array({0})}));
  EXPECT_THAT(found.at("note").get<std::string>(), HasSubstr("1 rank, "));
  const Ending alone = run_command(concat(REEF_MEASURE, " --links-only --output ", path("alone.json")));
  EXPECT_EQ(alone.status, 0) << alone;
  EXPECT_THAT(alone.errors, HasSubstr("none was measured: mpiexec -n P starts P of them"));
  EXPECT_THAT(alone.errors, HasSubstr("the network of 1 rank is in "));
}

TEST_F(ReefMeasure, finds_what_cannot_be_written_before_it_measures) {
  // It would measure for an hour.
  const std::string long_job = "--sizes 8 1048576 --repeats 1000000 --seconds 3600 --output ";
  for (const auto& [file, why] : {std::pair{std::string("/dev/full"), "No space left on device"}, std::pair{path(""), "it is a folder"},
                                  std::pair{path("none/x"), "does not exist"}}) {
    const Ending ending = measure(2, long_job + file);
    EXPECT_EQ(ending.status, 1) << ending;
    EXPECT_EQ(ending.output, "");
    EXPECT_THAT(ending.errors, testing::AllOf(HasSubstr("cannot write"), HasSubstr(why))) << file;
  }
}

TEST_F(ReefMeasure, a_case_whose_file_cannot_be_written_at_the_end_is_on_standard_output) {
  ASSERT_EQ(::mkfifo(path("pipe").c_str(), 0600), 0);
  const Ending ending = measure(1, "--links-only --output " + path("pipe"));
  EXPECT_EQ(ending.status, 1) << ending;
  EXPECT_THAT(ending.errors, HasSubstr("it is a pipe that nobody reads"));
  EXPECT_EQ(io::parse_json(ending.output, "the case").at("devices").size(), 1U);
}

TEST_F(ReefMeasure, reads_a_list_of_sizes_as_other_numbers_are_read) {
  for (const char* const sizes : {"0x8,16", "8,", "8,,16", "-8,16", "8,+16", "8,words", "16,8"}) {
    const Ending ending = run_command(concat(REEF_MEASURE, " --sizes '", sizes, "'"));
    EXPECT_EQ(ending.status, 2) << ending;
    EXPECT_THAT(ending.errors, HasSubstr("--sizes")) << sizes;
  }
  const Ending ending = measure(1, "--links-only --sizes 08,016");
  EXPECT_EQ(ending.status, 0) << ending;
  EXPECT_THAT(ending.output, HasSubstr("messages of 8 to 16 bytes"));
}

TEST_F(ReefMeasure, refuses_what_cannot_be_and_files_that_hold_something_else) {
  const auto refused = [](const std::string& options, const std::string& text) {
    const Ending ending = run_command(concat(REEF_MEASURE, " ", options));
    EXPECT_EQ(ending.status, 2) << ending;
    EXPECT_THAT(ending.errors, HasSubstr(text));
  };
  refused("--sizes 1024", "two at least");
  refused("--sizes 4096 1024", "each above the one before");
  refused("--model 1x2", "LAYERSxHEADSxCHANNELS");
  refused("--model 1x2x16 --links-only", "without --links-only");
  write_file(folder_ / "mine.json", R"({"latency_ms": [[0]], "bandwidth_gbps": [[0]]})");
  refused("--output " + path("mine.json"), "which would be lost");
  refused(concat("--network ", path("mine.json"), " --output ", path("mine.json")), "--network");
  const Ending few = measure(2, "--links-only --network " + path("mine.json"));
  EXPECT_EQ(few.status, 1) << few;
  EXPECT_THAT(few.errors, HasSubstr("there are 2 ranks"));
}

}  // namespace
}  // namespace reef::test
