#include <reef/trace/sink.hpp>

#include <gtest/gtest.h>

#include <atomic>
#include <cstdint>
#include <string>
#include <thread>
#include <vector>

namespace {

using namespace reef;
using trace::Activity;

TEST(Sink, hands_out_one_track_per_lane_and_keeps_it_in_place) {
  trace::Sink sink(3);
  trace::Track& compute = sink.track("compute");
  for (int i = 0; i < 100; ++i) sink.track("lane " + std::to_string(i));
  EXPECT_EQ(&compute, &sink.track("compute"));
  EXPECT_EQ(compute.lane(), "compute");
  EXPECT_EQ(sink.rank(), 3);
}

TEST(Sink, collects_what_was_written_once_and_with_its_names) {
  trace::Sink sink(1);
  sink.track("compute").span(Activity::compute, "forward", 1, 2);
  sink.track("reduce").span(Activity::communication, "all_gather w", 1.5, 3, 4096,
                            {.message = 7, .id = 9, .cause = 8, .role = trace::Role::meets});
  trace::Recording recording;
  ASSERT_EQ(sink.collect(recording).size(), 2U);
  EXPECT_EQ(recording.rank, 1);
  EXPECT_EQ(recording.tracks, (std::vector<std::string>{"compute", "reduce"}));
  const trace::Span& span = recording.spans[1];
  EXPECT_EQ(recording.name_of(span), "all_gather w");
  EXPECT_EQ(recording.tracks[span.track], "reduce");
  EXPECT_EQ(span.activity, Activity::communication);
  EXPECT_EQ(span.begin, 1.5);
  EXPECT_EQ(span.end, 3);
  EXPECT_EQ(span.bytes, 4096U);
  EXPECT_EQ(span.message, 7U);
  EXPECT_EQ(span.id, 9U);
  EXPECT_EQ(span.cause, 8U);
  EXPECT_EQ(span.role, trace::Role::meets);

  EXPECT_EQ(sink.collect(recording).size(), 0U);
  sink.track("compute").span(Activity::compute, "backward", 3, 4);
  const auto fresh = sink.collect(recording);
  ASSERT_EQ(fresh.size(), 1U);
  EXPECT_EQ(recording.name_of(fresh[0]), "backward");
  EXPECT_EQ(recording.spans.size(), 3U);
}

TEST(Sink, refuses_more_spans_than_there_can_be) {
  EXPECT_THROW(trace::Sink(0, {.spans_per_track = ~std::size_t{0}}), OptionError);
  EXPECT_NO_THROW(trace::Sink(0, {.spans_per_track = 0}));
}

TEST(Sink, writes_nothing_while_disabled) {
  trace::Sink sink(0, {.spans_per_track = 16, .enabled = false});
  trace::Track& track = sink.track("compute");
  track.span(Activity::compute, "a", 0, 1);
  trace::Recording recording;
  EXPECT_EQ(sink.collect(recording).size(), 0U);
  sink.enable(true);
  track.span(Activity::compute, "c", 1, 2, 5);
  ASSERT_EQ(sink.collect(recording).size(), 1U);
  EXPECT_EQ(recording.name_of(recording.spans[0]), "c");
  EXPECT_EQ(recording.spans[0].bytes, 5U);
}

TEST(Sink, drops_and_counts_what_a_full_track_has_no_room_for) {
  trace::Sink sink(0, {.spans_per_track = 8});
  trace::Track& track = sink.track("compute");
  for (int i = 0; i < 11; ++i) track.span(Activity::compute, "x", i, i + 1);
  EXPECT_EQ(sink.dropped(), 3U);
  trace::Recording recording;
  EXPECT_EQ(sink.collect(recording).size(), 8U);
  EXPECT_EQ(recording.dropped, 3U);
  for (int i = 0; i < 8; ++i) track.span(Activity::compute, "x", i, i + 1);
  EXPECT_EQ(sink.collect(recording).size(), 8U);
  EXPECT_EQ(recording.dropped, 3U);
}

TEST(Sink, a_full_recording_forgets_the_oldest_and_counts_them) {
  trace::Sink sink(0);
  trace::Track& track = sink.track("compute");
  trace::Recording recording;
  recording.limit = 10;
  std::uint64_t written = 0;
  for (int round = 0; round < 20; ++round) {
    for (int i = 0; i < 7; ++i)
      track.span(Activity::compute, "x", static_cast<double>(written++), 0);
    EXPECT_EQ(sink.collect(recording).size(), 7U);
    EXPECT_LE(recording.spans.size(), recording.limit + 7);
    EXPECT_EQ(recording.spans.back().begin, static_cast<double>(written - 1));
    EXPECT_EQ(recording.spans.size() + recording.dropped, written);
  }
}

TEST(Sink, interns_equal_names_once_across_tracks_and_keeps_a_temporary_apart_from_its_successor) {
  trace::Sink sink(0);
  trace::Track& a = sink.track("a");
  trace::Track& b = sink.track("b");
  for (int i = 0; i < 1000; ++i) {
    const std::string name = "op " + std::to_string(i);  // the same memory for different names
    EXPECT_EQ(a.intern(name), b.intern(name));
    a.span(Activity::compute, name, i, i + 1);
  }
  trace::Recording recording;
  sink.collect(recording);
  ASSERT_EQ(recording.spans.size(), 1000U);
  for (std::size_t i = 0; i < 1000; ++i) {
    EXPECT_EQ(recording.name_of(recording.spans[i]), "op " + std::to_string(i));
  }
  EXPECT_EQ(recording.names.size(), 1001U);
}

TEST(Sink, bounds_its_names) {
  trace::Sink sink(0, {.spans_per_track = std::size_t{1} << 17});
  trace::Track& track = sink.track("a");
  for (int i = 0; i < 70'000; ++i) track.span(Activity::other, "name " + std::to_string(i), 0, 1);
  trace::Recording recording;
  sink.collect(recording);
  EXPECT_EQ(recording.names.size(), std::size_t{1} << 16);
  EXPECT_EQ(recording.name_of(recording.spans[5]), "name 5");
  EXPECT_EQ(recording.name_of(recording.spans.back()), "(more names than a sink keeps)");
}

TEST(Sink, loses_nothing_while_four_lanes_write_and_one_thread_collects) {
  constexpr int lanes = 4;
  constexpr int each = 20'000;
  trace::Sink sink(0, {.spans_per_track = 64});
  std::atomic<int> writing{lanes};
  std::vector<std::thread> threads;
  for (int lane = 0; lane < lanes; ++lane) {
    threads.emplace_back([&, lane] {
      trace::Track& track = sink.track("lane " + std::to_string(lane));
      for (int i = 0; i < each; ++i) {
        track.span(Activity::compute, "op " + std::to_string(i % 37), i, i + 1,
                   static_cast<Bytes>(lane));
      }
      writing.fetch_sub(1);
    });
  }
  trace::Recording recording;
  while (writing.load() != 0) sink.collect(recording);
  for (std::thread& thread : threads) thread.join();
  sink.collect(recording);
  EXPECT_EQ(recording.spans.size() + recording.dropped, static_cast<std::size_t>(lanes * each));
  std::vector<double> last(lanes, -1);
  for (const trace::Span& span : recording.spans) {
    const auto lane = static_cast<std::size_t>(span.bytes);
    EXPECT_EQ(recording.tracks[span.track], "lane " + std::to_string(lane));
    EXPECT_GT(span.begin, last[lane]);
    last[lane] = span.begin;
    EXPECT_EQ(recording.name_of(span), "op " + std::to_string(static_cast<int>(span.begin) % 37));
  }
}

}  // namespace
