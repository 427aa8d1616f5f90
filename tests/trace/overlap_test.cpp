#include <reef/trace/overlap.hpp>

#include <gtest/gtest.h>

#include <cstddef>
#include <string>
#include <utility>
#include <vector>

#include <reef/core/random.hpp>
#include <reef/trace/sink.hpp>

namespace {

using namespace reef;
using trace::Activity;
using trace::Intervals;
using trace::Overlap;

trace::Span span(Activity activity, double begin, double end) {
  return {begin, end, 0, 0, 0, 0, trace::Name{0}, 0, activity, trace::Role::none};
}

TEST(Intervals, unite_what_overlaps_nests_or_touches_and_forget_what_is_empty) {
  const Intervals all({{5, 6}, {1, 3}, {2, 4}, {2.5, 2.75}, {4, 4.5}, {7, 7}, {9, 8}});
  ASSERT_EQ(all.parts().size(), 2U);
  EXPECT_EQ(all.parts()[0], (Intervals::Interval{1, 4.5}));
  EXPECT_EQ(all.parts()[1], (Intervals::Interval{5, 6}));
  EXPECT_EQ(all.length(), 4.5);
  EXPECT_EQ(Intervals().length(), 0);
}

TEST(Intervals, say_how_much_of_a_stretch_they_cover) {
  const Intervals all({{1, 2}, {3, 5}});
  EXPECT_EQ(all.covered(0, 10), 3);
  EXPECT_EQ(all.covered(1.5, 4), 1.5);
  EXPECT_EQ(all.covered(2, 3), 0);
  EXPECT_EQ(all.covered(6, 7), 0);
}

TEST(Overlap, tells_hidden_from_exposed_communication) {
  const std::vector<trace::Span> spans{
      span(Activity::compute, 0, 4), span(Activity::communication, 3, 6),
      span(Activity::compute, 7, 8), span(Activity::copy, 3.5, 4.5), span(Activity::wait, 0, 10)};
  const Overlap o = trace::analyze(spans, 0, 10);
  EXPECT_EQ(o.compute, 5);
  EXPECT_EQ(o.communication, 3);
  EXPECT_EQ(o.union_, 7);
  EXPECT_EQ(o.exposed, 2);
  EXPECT_EQ(o.overlap(), 1);
  EXPECT_EQ(o.copy, 1);
  EXPECT_EQ(o.exposed_copy, 0.5);
  EXPECT_EQ(o.wall, 10);
  EXPECT_EQ(o.idle(), 3);
  EXPECT_DOUBLE_EQ(o.hidden(), 1.0 / 3);
  EXPECT_DOUBLE_EQ(o.exposed_share(), 0.2);
}

TEST(Overlap, counts_nested_and_parallel_spans_once_and_cuts_them_to_the_window) {
  const std::vector<trace::Span> spans{
      span(Activity::compute, -5, 2), span(Activity::compute, 0, 1), span(Activity::compute, 1, 3),
      span(Activity::communication, 8, 20), span(Activity::communication, 9, 12)};
  const Overlap o = trace::analyze(spans, 0, 10);
  EXPECT_EQ(o.compute, 3);
  EXPECT_EQ(o.communication, 2);
  EXPECT_EQ(o.exposed, 2);
  EXPECT_EQ(o.overlap(), 0);
}

TEST(Overlap, of_nothing_is_idle_and_hides_all) {
  const Overlap o = trace::analyze({}, 1, 3);
  EXPECT_EQ(o.idle(), 2);
  EXPECT_EQ(o.hidden(), 1);
  EXPECT_EQ(trace::analyze({}, 3, 1).exposed_share(), 0);
}

TEST(Overlap, equals_a_count_over_a_grid_for_random_spans) {
  constexpr int cells = 200;
  for (std::uint32_t trial = 0; trial < 200; ++trial) {
    const DrawKey key{42, trial, 0, 0};
    std::vector<trace::Span> spans;
    std::vector<std::vector<bool>> grid(3, std::vector<bool>(cells, false));
    for (std::uint64_t i = 0; i < 12; ++i) {
      const auto activity = static_cast<Activity>(random_bits(key, 3 * i) % 3);
      const auto begin = static_cast<int>(random_bits(key, 3 * i + 1) % cells);
      const int end = begin + static_cast<int>(random_bits(key, 3 * i + 2) % 40);
      spans.push_back(span(activity, begin, end));
      for (int c = begin; c < std::min(end, cells); ++c) {
        grid[static_cast<std::size_t>(activity)][static_cast<std::size_t>(c)] = true;
      }
    }
    int compute = 0;
    int communication = 0;
    int both = 0;
    int exposed = 0;
    int exposed_copy = 0;
    for (std::size_t c = 0; c < cells; ++c) {
      compute += grid[0][c];
      communication += grid[1][c];
      both += grid[0][c] && grid[1][c];
      exposed += grid[1][c] && !grid[0][c];
      exposed_copy += grid[2][c] && !grid[0][c];
    }
    const Overlap o = trace::analyze(spans, 0, cells);
    EXPECT_EQ(o.compute, compute);
    EXPECT_EQ(o.communication, communication);
    EXPECT_EQ(o.overlap(), both);
    EXPECT_EQ(o.exposed, exposed);
    EXPECT_EQ(o.exposed_copy, exposed_copy);
  }
}

TEST(Overlap, prints_a_row_for_each_rank_and_one_for_the_mean) {
  const std::vector<Overlap> ranks{
      trace::analyze(std::vector{span(Activity::compute, 0, 2)}, 0, 4),
      trace::analyze(std::vector{span(Activity::compute, 0, 4)}, 0, 4)};
  EXPECT_EQ(trace::mean(ranks).compute, 3);
  EXPECT_EQ(trace::mean({}).wall, 0);
  EXPECT_EQ(trace::overlap_table(ranks),
            "rank     wall s  compute s     comm s    union s  overlap s  exposed s     copy s     "
            "idle s  hidden\n"
            "0        4.0000     2.0000     0.0000     2.0000     0.0000     0.0000     0.0000     "
            "2.0000  100.0%\n"
            "1        4.0000     4.0000     0.0000     4.0000     0.0000     0.0000     0.0000     "
            "0.0000  100.0%\n"
            "mean     4.0000     3.0000     0.0000     3.0000     0.0000     0.0000     0.0000     "
            "1.0000  100.0%\n");
}

TEST(CheckOverlap, is_empty_when_enough_is_hidden_and_else_names_what_is_exposed_longest) {
  trace::Sink sink(2);
  sink.track("compute").span(Activity::compute, "forward", 0, 10);
  sink.track("reduce").span(Activity::communication, "reduce_scatter", 8, 11);
  sink.track("reduce").span(Activity::communication, "all_gather", 11, 15);
  trace::Recording recording;
  sink.collect(recording);
  EXPECT_EQ(trace::check_overlap(recording, 0, 15, 0.25), "");
  EXPECT_EQ(
      trace::check_overlap(recording, 0, 15, 0.5),
      "rank 2: compute hides 28.6% of the communication, less than 50.0%; exposed: 5 s of 7 s; "
      "longest: all_gather 4 s, reduce_scatter 1 s");
}

}  // namespace
