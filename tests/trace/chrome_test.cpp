#include <reef/trace/chrome.hpp>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <cmath>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include <reef/core/random.hpp>
#include <reef/trace/sink.hpp>

namespace {

using namespace reef;
using nlohmann::json;
using trace::Activity;

trace::Recording two_lanes(int rank) {
  trace::Sink sink(rank);
  sink.track("compute").span(Activity::compute, "forward", 10, 10.5);
  sink.track("send").span(Activity::communication, "send \"x\"\n\x01\xff", 10.25, 11, 128, 0, 77);
  sink.track("receive").span(Activity::communication, "receive x", 11, 11.25, 128, 77, 0);
  trace::Recording recording;
  sink.collect(recording);
  return recording;
}

std::vector<json> events(const json& document, const std::string& phase) {
  std::vector<json> found;
  for (const json& event : document.at("traceEvents")) {
    if (event.at("ph") == phase) found.push_back(event);
  }
  return found;
}

TEST(Chrome, names_ranks_as_processes_and_lanes_as_threads) {
  const std::vector<trace::Recording> ranks{two_lanes(0), two_lanes(3)};
  const json document = json::parse(trace::chrome_json(ranks));
  std::map<std::pair<int, int>, std::string> threads;
  std::map<int, std::string> processes;
  for (const json& event : events(document, "M")) {
    if (event.at("name") == "process_name") processes[event.at("pid")] = event["args"]["name"];
    if (event.at("name") == "thread_name") {
      threads[{event.at("pid"), event.at("tid")}] = event["args"]["name"];
    }
  }
  EXPECT_EQ(processes, (std::map<int, std::string>{{0, "rank 0"}, {3, "rank 3"}}));
  EXPECT_EQ(threads.size(), 6U);
  EXPECT_EQ((threads[{3, 1}]), "send");
}

TEST(Chrome, writes_spans_in_microseconds_from_the_first_of_all_ranks) {
  std::vector<trace::Recording> ranks{two_lanes(0)};
  const json document = json::parse(trace::chrome_json(ranks));
  const std::vector<json> spans = events(document, "X");
  ASSERT_EQ(spans.size(), 3U);
  EXPECT_EQ(spans[0].at("ts"), 0.0);
  EXPECT_EQ(spans[0].at("dur"), 500000.0);
  EXPECT_EQ(spans[0].at("cat"), "compute");
  EXPECT_EQ(spans[1].at("ts"), 250000.0);
  EXPECT_EQ(spans[1].at("name"), "send \"x\"\n\x01\xEF\xBF\xBD");
  EXPECT_EQ(spans[1].at("args").at("bytes"), 128);
  EXPECT_EQ(spans[1].at("tid"), 1);
}

TEST(Chrome, draws_a_flow_from_the_end_of_one_span_to_the_begin_of_the_other) {
  std::vector<trace::Recording> ranks{two_lanes(0)};
  const json document = json::parse(trace::chrome_json(ranks));
  const std::vector<json> from = events(document, "s");
  const std::vector<json> to = events(document, "f");
  ASSERT_EQ(from.size(), 1U);
  ASSERT_EQ(to.size(), 1U);
  EXPECT_EQ(from[0].at("id"), "77");
  EXPECT_EQ(to[0].at("id"), "77");
  EXPECT_EQ(to[0].at("bp"), "e");
  EXPECT_NEAR(from[0].at("ts").get<double>(), 1e6, 0.002);
  EXPECT_LT(from[0].at("ts").get<double>(), 1e6);
  EXPECT_EQ(to[0].at("ts"), 1e6);
}

TEST(Chrome, spans_of_a_row_nest_whatever_was_written) {
  trace::Sink sink(0);
  trace::Track& track = sink.track("compute");
  trace::Track& other = sink.track("other");
  const DrawKey key{1, 0, 0, 0};
  for (std::uint64_t i = 0; i < 400; ++i) {
    const double begin = 1e-6 * (random_bits(key, 2 * i) % 500);
    const double length = 1e-6 * (random_bits(key, 2 * i + 1) % 30);
    (i % 3 == 0 ? other : track).span(Activity::compute, "x", begin, begin + length);
  }
  trace::Recording recording;
  sink.collect(recording);
  const json document = json::parse(trace::chrome_json({&recording, 1}));
  std::map<int, std::vector<std::pair<std::int64_t, std::int64_t>>> rows;  // in ns
  for (const json& event : events(document, "X")) {
    const auto ns = [&](const char* field) {
      return std::llround(event.at(field).get<double>() * 1000);
    };
    rows[event.at("tid")].emplace_back(ns("ts"), ns("ts") + ns("dur"));
  }
  std::size_t count = 0;
  for (const auto& [tid, spans] : rows) {
    count += spans.size();
    for (std::size_t i = 0; i < spans.size(); ++i) {
      for (std::size_t j = i + 1; j < spans.size(); ++j) {
        const auto& [a, b] = spans[i];
        const auto& [c, d] = spans[j];
        const bool apart = b <= c || d <= a;
        const bool nested = (a <= c && d <= b) || (c <= a && b <= d);
        EXPECT_TRUE(apart || nested) << a << ' ' << b << ' ' << c << ' ' << d;
      }
    }
  }
  EXPECT_EQ(count, 400U);
  EXPECT_GT(rows.size(), 2U);
  std::map<int, std::string> names;
  for (const json& event : events(document, "M")) {
    if (event.at("name") == "thread_name") names[event.at("tid")] = event["args"]["name"];
  }
  EXPECT_EQ(names.size(), rows.size());
  EXPECT_EQ(names[0], "compute");
  EXPECT_EQ(names[1], "other");
  EXPECT_EQ(names[2], "compute (2)");
}

TEST(Chrome, spans_that_nest_or_touch_share_one_row_in_whatever_order_they_ended) {
  trace::Sink sink(0);
  trace::Track& track = sink.track("compute");
  track.span(Activity::compute, "child", 0, 1);
  track.span(Activity::compute, "grandchild", 1, 1.5);
  track.span(Activity::compute, "child", 1, 2);
  track.span(Activity::compute, "parent", 0, 2);
  track.span(Activity::compute, "next", 2, 3);
  trace::Recording recording;
  sink.collect(recording);
  const json document = json::parse(trace::chrome_json({&recording, 1}));
  std::vector<std::string> order;
  for (const json& event : events(document, "X")) {
    EXPECT_EQ(event.at("tid"), 0);
    order.push_back(event.at("name"));
  }
  EXPECT_EQ(order, (std::vector<std::string>{"parent", "child", "child", "grandchild", "next"}));
}

TEST(Chrome, an_empty_recording_is_a_valid_document) {
  EXPECT_TRUE(json::parse(trace::chrome_json({})).at("traceEvents").empty());
  const trace::Recording none;
  EXPECT_EQ(events(json::parse(trace::chrome_json({&none, 1})), "X").size(), 0U);
}

TEST(Chrome, writes_a_file_that_parses) {
  const auto path = std::filesystem::path(testing::TempDir()) / "reef_chrome_test.json";
  const std::vector<trace::Recording> ranks{two_lanes(0)};
  trace::write_chrome(path, ranks);
  std::ifstream file(path);
  EXPECT_EQ(events(json::parse(file), "X").size(), 3U);
  std::filesystem::remove(path);
  EXPECT_THROW(trace::write_chrome("/nonexistent/folder/x.json", ranks), FileError);
}

}  // namespace
