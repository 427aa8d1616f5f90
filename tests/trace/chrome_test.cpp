#include <reef/trace/chrome.hpp>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <functional>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include <reef/core/random.hpp>
#include <reef/trace/sink.hpp>

#include "trace_format.hpp"

namespace {

using namespace reef;
using nlohmann::json;
using test::TraceFormat;
using trace::Activity;

trace::Recording two_lanes(int rank) {
  trace::Sink sink(rank);
  sink.track("compute").span(Activity::compute, "forward", 10, 10.5);
  sink.track("send").span(Activity::communication, "send \"x\"\n\x01\xff", 10.25, 11, 128);
  sink.track("receive").span(Activity::communication, "receive x", 11, 11.25, 128);
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

using Row = std::pair<int, int>;

/// The arrows of the recordings' file, which keeps the format's rules.
std::vector<TraceFormat::Arrow> arrows_of(const std::vector<trace::Recording>& ranks) {
  const TraceFormat format(json::parse(trace::chrome_json(ranks)));
  EXPECT_EQ(format.broken(), "");
  return format.arrows();
}

trace::Recording recorded(int rank, const std::function<void(trace::Sink&)>& write) {
  trace::Sink sink(rank);
  write(sink);
  trace::Recording recording;
  sink.collect(recording);
  return recording;
}

TEST(Chrome, draws_an_arrow_from_what_a_lane_waited_for_to_what_it_did_then) {
  const auto arrows = arrows_of({recorded(2, [](trace::Sink& sink) {
    sink.track("compute").span(Activity::compute, "a", 0, 1e-6, 0, {.id = 5});
    sink.track("load").span(Activity::copy, "b", 1.5e-6, 2e-6, 0, {.id = 6, .cause = 5});
    // Begins before its cause ends: that has signalled before it read the clock.
    sink.track("evict").span(Activity::copy, "c", 0.9e-6, 2e-6, 0, {.id = 7, .cause = 5});
    // Forgotten, and from a time to come.
    sink.track("load").span(Activity::copy, "d", 3e-6, 4e-6, 0, {.id = 8, .cause = 99});
    sink.track("compute").span(Activity::compute, "e", 3e-6, 4e-6, 0, {.id = 9, .cause = 10});
    sink.track("load").span(Activity::copy, "f", 5e-6, 6e-6, 0, {.id = 10});
  })});
  ASSERT_EQ(arrows.size(), 2U);
  EXPECT_EQ(arrows[0].category, "dependency");
  EXPECT_EQ(arrows[0].from, Row(2, 0));
  EXPECT_EQ(arrows[0].begin, 999);
  EXPECT_EQ(arrows[0].to, Row(2, 1));
  EXPECT_EQ(arrows[0].end, 1500);
  EXPECT_EQ(arrows[1].begin, 900);
  EXPECT_EQ(arrows[1].to, Row(2, 2));
  EXPECT_EQ(arrows[1].end, 900);
}

TEST(Chrome, draws_an_arrow_from_a_send_to_the_end_of_its_receive) {
  const auto send = [](trace::Sink& sink) {
    sink.track("send").span(Activity::communication, "x", 1e-6, 2e-6, 8,
                            {.message = 77, .role = trace::Role::sends});
    sink.track("send").span(Activity::communication, "x", 9e-6, 10e-6, 8,
                            {.message = 78, .role = trace::Role::sends});
  };
  const auto receive = [](trace::Sink& sink) {
    sink.track("receive").span(Activity::communication, "x", 0, 3e-6, 8,
                               {.message = 77, .role = trace::Role::receives});
    // By this rank's clock before it was sent; and one whose sender is forgotten.
    sink.track("receive").span(Activity::communication, "x", 4e-6, 5e-6, 8,
                               {.message = 78, .role = trace::Role::receives});
    sink.track("receive").span(Activity::communication, "x", 6e-6, 7e-6, 8,
                               {.message = 79, .role = trace::Role::receives});
  };
  const auto arrows = arrows_of({recorded(0, send), recorded(1, receive)});
  ASSERT_EQ(arrows.size(), 1U);
  EXPECT_EQ(arrows[0].category, "message");
  EXPECT_EQ(arrows[0].from, Row(0, 0));
  EXPECT_EQ(arrows[0].begin, 1999);
  EXPECT_EQ(arrows[0].to, Row(1, 0));
  EXPECT_EQ(arrows[0].end, 2999);
}

TEST(Chrome, draws_arrows_from_the_rank_that_came_last_to_a_collective_to_the_others) {
  std::vector<trace::Recording> ranks;
  for (int rank = 0; rank < 3; ++rank) {
    ranks.push_back(recorded(rank, [rank](trace::Sink& sink) {
      const double begin = rank == 1 ? 5e-6 : 1e-6;
      sink.track("comm").span(Activity::communication, "sum", begin, (6 + rank) * 1e-6, 8,
                              {.message = 7, .role = trace::Role::meets});
    }));
  }
  const auto arrows = arrows_of(ranks);
  ASSERT_EQ(arrows.size(), 2U);  // times count from the first begin of all
  for (const auto& arrow : arrows) EXPECT_EQ(arrow.from, Row(1, 0));
  EXPECT_EQ(arrows[0].to, Row(0, 0));
  EXPECT_EQ(arrows[0].begin, 4999);
  EXPECT_EQ(arrows[0].end, 4999);
  EXPECT_EQ(arrows[1].to, Row(2, 0));
  EXPECT_EQ(arrows[1].begin, 5999);
  EXPECT_EQ(arrows[1].end, 6999);
}

TEST(Chrome, keeps_the_rules_of_the_format_whatever_was_written) {
  for (std::uint64_t trial = 0; trial < 50; ++trial) {
    std::vector<trace::Recording> ranks;
    std::uint64_t n = 0;
    const auto draw = [&](std::uint64_t bound) {
      return random_bits({4, trial, 0, 0}, n++) % bound;
    };
    for (int rank = 0; rank < 3; ++rank) {
      ranks.push_back(recorded(rank, [&](trace::Sink& sink) {
        for (int i = 0; i < 60; ++i) {
          const double begin = 1e-9 * static_cast<double>(draw(4000));
          // Also of no length, and one that ends before it begins.
          const double end = begin + 1e-9 * (static_cast<double>(draw(300)) - 10);
          trace::Links links;
          links.id = static_cast<std::uint32_t>(draw(40));
          links.cause = static_cast<std::uint32_t>(draw(40));
          links.message = 1 + draw(30);
          links.role = static_cast<trace::Role>(draw(trace::role_count));
          sink.track("lane " + std::to_string(draw(4)))
              .span(static_cast<Activity>(draw(trace::activity_count)), "x", begin, end, draw(2),
                    links);
        }
      }));
    }
    EXPECT_GT(arrows_of(ranks).size(), 20U);
  }
}

TEST(TraceFormat, finds_what_breaks_the_rules) {
  const json whole = json::parse(
      trace::chrome_json(std::vector<trace::Recording>{recorded(0, [](trace::Sink& sink) {
        sink.track("a").span(Activity::compute, "x", 0, 2e-6, 0, {.id = 1});
        sink.track("b").span(Activity::copy, "y", 3e-6, 4e-6, 0, {.id = 2, .cause = 1});
        sink.track("b").span(Activity::copy, "z", 5e-6, 6e-6);
      })}));
  ASSERT_EQ(TraceFormat(whole).broken(), "");
  const auto broken = [&](const std::function<void(json & events)>& change) {
    json document = whole;
    change(document["traceEvents"]);
    return TraceFormat(document).broken();
  };
  const auto find = [](json& events, const char* phase) -> json& {
    return *std::find_if(events.begin(), events.end(),
                         [&](const json& event) { return event["ph"] == phase; });
  };
  EXPECT_NE(broken([&](json& e) { find(e, "X")["dur"] = -1; }), "");
  EXPECT_NE(broken([&](json& e) { find(e, "X")["ts"] = "0"; }), "");
  EXPECT_NE(broken([&](json& e) { find(e, "X")["ts"] = 0.0005; }), "");
  EXPECT_NE(broken([&](json& e) { find(e, "X").erase("pid"); }), "");
  EXPECT_NE(broken([&](json& e) { find(e, "X")["tid"] = 7; }), "");
  EXPECT_NE(broken([&](json& e) { find(e, "X")["dur"] = 1; }), "");  // its arrow begins outside
  EXPECT_NE(broken([&](json& e) { find(e, "X")["colour"] = "red"; }), "");
  EXPECT_NE(broken([&](json& e) { find(e, "s")["id"] = 99; }), "");
  EXPECT_NE(broken([&](json& e) { find(e, "s")["ts"] = 3.5; }), "");
  EXPECT_NE(broken([&](json& e) { find(e, "f").erase("bp"); }), "");
  EXPECT_NE(broken([&](json& e) { find(e, "M")["name"] = "process"; }), "");
  EXPECT_NE(broken([&](json& e) { e.push_back(find(e, "s")); }), "");
  EXPECT_NE(broken([&](json& e) { e.push_back(find(e, "M")); }), "");
  EXPECT_NE(broken([&](json& e) { e.back()["ph"] = "B"; }), "");
  EXPECT_NE(broken([&](json& e) {
              for (json& event : e) {
                if (event["name"] == "y") event["dur"] = 2.5;
              }
            }),
            "");
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
  const auto path = std::filesystem::path(testing::TempDir()) / ("reef_chrome_" + std::to_string(::getpid()) + ".json");
  const std::vector<trace::Recording> ranks{two_lanes(0)};
  trace::write_chrome(path, ranks);
  std::ifstream file(path);
  EXPECT_EQ(events(json::parse(file), "X").size(), 3U);
  std::filesystem::remove(path);
  EXPECT_THROW(trace::write_chrome("/nonexistent/folder/x.json", ranks), FileError);
}

}  // namespace
