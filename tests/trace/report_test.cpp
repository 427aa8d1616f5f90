#include <reef/trace/report.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <limits>
#include <string>
#include <string_view>
#include <vector>

#include <reef/io/file.hpp>
#include <reef/trace/detail/boxes.hpp>
#include <reef/trace/detail/html.hpp>
#include <reef/trace/detail/residency.hpp>
#include <reef/trace/sink.hpp>
#include <support/temporary_folder.hpp>

namespace {

using namespace reef;
using trace::Activity;

/// A run of four ranks whose reduction hides behind the backward pass.
trace::Report sample() {
  trace::Report report;
  report.title = "reef-train <ddp> & co";
  report.subtitle = "GPT 4x4x128, 1.0 M parameters";
  for (int i = 1; i <= 800; ++i) {
    const double noise = 0.08 * std::sin(i * 12.9898) * std::cos(i * 3.1);
    report.steps.push_back({i, i * 4096LL, i * 0.12, 1.7 + 3.8 * std::exp(-i / 90.0) + noise,
                            34'000 + 2'000 * std::sin(i * 0.7)});
  }
  report.validation_loss = 1.8125;
  for (int rank = 0; rank < 4; ++rank) {
    trace::Sink sink(rank);
    trace::Track& compute = sink.track("compute");
    trace::Track& reduce = sink.track("reduce");
    for (int step = 0; step < 3; ++step) {
      double t = 100 + step * 0.12 + rank * 0.002;
      for (int layer = 0; layer < 12; ++layer) {
        compute.span(Activity::compute, "forward h." + std::to_string(layer), t, t + 0.003);
        t += 0.0031;
      }
      for (int layer = 11; layer >= 0; --layer) {
        compute.span(Activity::compute, "backward h." + std::to_string(layer), t, t + 0.005);
        t += 0.0051;
        reduce.span(Activity::communication, "reduce_scatter " + std::to_string(layer), t,
                    t + 0.004, 1 << 20);
      }
      compute.span(Activity::wait, "wait", t, t + 0.006);
      compute.span(Activity::compute, "update", t + 0.006, t + 0.008);
      reduce.span(Activity::communication, "all_gather", t + 0.008, t + 0.014, 4 << 20);
    }
    trace::Recording recording;
    sink.collect(recording);
    report.overlaps.push_back(trace::analyze(recording.spans, 100, 100.36));
    report.recordings.push_back(std::move(recording));
  }
  report.sample = "template <class T>\nvoid f(T&& x);  // \xff\x01 & more";
  report.facts = {{"recipe", "ddp"}, {"ranks", "4"}};
  return report;
}

/// Each tag that is opened is closed, in order.
bool well_formed(const std::string& html) {
  std::vector<std::string> open;
  for (std::size_t at = html.find('<'); at != std::string::npos; at = html.find('<', at + 1)) {
    const std::size_t end = html.find('>', at);
    if (end == std::string::npos) return false;
    const bool closes = html[at + 1] == '/';
    const std::size_t name_at = at + (closes ? 2 : 1);
    const std::string name = html.substr(name_at, html.find_first_of(" />", name_at) - name_at);
    if (name == "!doctype" || name == "meta" || html[end - 1] == '/') continue;
    if (!closes) {
      open.push_back(name);
    } else if (open.empty() || open.back() != name) {
      return false;
    } else {
      open.pop_back();
    }
  }
  return open.empty();
}

TEST(Report, is_one_well_formed_page_without_outside_resources_or_scripts) {
  const std::string html = trace::report_html(sample());
  EXPECT_TRUE(well_formed(html));
  for (const char* outside : {"http:", "https:", "src=", "href=", "<script", "@import", "url("}) {
    EXPECT_EQ(html.find(outside), std::string::npos) << outside;
  }
  EXPECT_LT(html.size(), 500'000U);
}

TEST(Report, shows_the_figures_the_lanes_and_the_text_escaped) {
  const std::string html = trace::report_html(sample());
  for (const char* part : {"reef-train &lt;ddp&gt; &amp; co", "<b>1.812</b>", "reduce_scatter 11",
                           "backward h.11", "rank 3", "template &lt;class T&gt;",
                           "\xEF\xBF\xBD\xEF\xBF\xBD &amp; more", "<td>mean</td>"}) {
    EXPECT_NE(html.find(part), std::string::npos) << part;
  }
  EXPECT_EQ(html.find("<class T>"), std::string::npos);
}

/// How far the labels of all axes stay inside their pictures, at the least, in pixels.
double room_beside_labels(const std::string& html) {
  double least = 1e9;
  double width = 0;
  std::size_t at = 0;
  const auto number_behind = [&](std::string_view mark) {
    return std::strtod(html.c_str() + html.find(mark, at) + mark.size(), nullptr);
  };
  constexpr std::string_view label = "<text class=\"tick mid\"";
  while ((at = html.find('<', at + 1)) != std::string::npos) {
    if (html.compare(at, 4, "<svg") == 0) width = number_behind("viewBox=\"0 0 ");
    if (html.compare(at, label.size(), label) != 0) continue;
    const std::size_t begin = html.find('>', at) + 1;
    const auto letters = static_cast<double>(html.find('<', begin) - begin);
    const double half = 6.2 * letters / 2;  // of 11 pixels, as browsers draw figures
    const double x = number_behind("x=\"");
    least = std::min({least, x - half, width - x - half});
  }
  return least;
}

TEST(Report, clips_no_label_of_an_axis_also_not_the_last) {
  trace::Report report = sample();
  EXPECT_GE(room_beside_labels(trace::report_html(report)), 0);
  for (const std::int64_t last : {12'500, 1'250'000, 98'765'432}) {
    report.steps = {{1, 1, 0.1, 2, 100}, {last / 2, 2, 0.2, 1.5, 100}, {last, 3, 0.36, 1, 100}};
    EXPECT_GE(room_beside_labels(trace::report_html(report)), 0) << last;
  }
  for (const double seconds : {1e-7, 0.01, 0.36, 1.0, 12.0, 120.0}) {
    report.from = 100;
    report.to = report.from + seconds;
    EXPECT_GE(room_beside_labels(trace::report_html(report)), 0) << seconds;
  }
}

TEST(Report, leaves_out_what_is_empty) {
  const std::string html = trace::report_html({});
  EXPECT_TRUE(well_formed(html));
  EXPECT_EQ(html.find("<svg"), std::string::npos);
  EXPECT_EQ(html.find("<table"), std::string::npos);
}

TEST(Report, says_what_links_carried_and_what_of_it_is_known) {
  trace::Report report;
  report.links.push_back({"activation", "0 -> 1", 12, 4096, 1024, 0.25, 1.5});
  report.links.push_back({"gradient", "stage <1>", 0, 512, 512, {}, 0});
  const std::string page = trace::report_html(report);
  EXPECT_NE(page.find("<td>0 -&gt; 1</td><td>12</td><td>4.00 KiB</td><td>1.00 KiB</td><td>4.00</td><td>0.2500</td><td>1.500</td>"),
            std::string::npos);
  EXPECT_NE(page.find("<td>stage &lt;1&gt;</td><td>0</td><td>512 B</td><td>512 B</td><td>1.00</td><td>-</td>"),
            std::string::npos);
  EXPECT_EQ(trace::report_html(trace::Report()).find("What links carried"), std::string::npos);
}

TEST(Report, survives_values_that_are_no_numbers_and_a_single_step) {
  trace::Report report;
  report.steps = {{1, 0, 0, std::numeric_limits<double>::quiet_NaN(), 0}};
  EXPECT_TRUE(well_formed(trace::report_html(report)));
  report.steps[0].loss = 2;
  const std::string html = trace::report_html(report);
  EXPECT_TRUE(well_formed(html));
  EXPECT_EQ(html.find("nan"), std::string::npos);
  EXPECT_EQ(html.find("inf"), std::string::npos);
}

TEST(Report, stays_small_however_long_the_run_was) {
  trace::Report report;
  for (int i = 0; i < 100'000; ++i)
    report.steps.push_back({i, i, i * 0.1, 2.0 + i % 7, 100.0 + i % 9});
  trace::Sink sink(0, {.spans_per_track = std::size_t{1} << 17});
  trace::Track& track = sink.track("compute");
  for (int i = 0; i < 100'000; ++i) track.span(Activity::compute, "op", i * 1e-3, i * 1e-3 + 5e-4);
  trace::Recording recording;
  sink.collect(recording);
  report.recordings.push_back(std::move(recording));
  EXPECT_LT(trace::report_html(report).size(), 700'000U);
}

TEST(Report, shows_only_the_stretch_of_time_that_was_asked_for) {
  trace::Report report = sample();
  report.from = 100;
  report.to = 100.02;
  const std::string html = trace::report_html(report);
  EXPECT_NE(html.find("forward h.0"), std::string::npos);
  EXPECT_EQ(html.find("backward h.0"), std::string::npos);
}

TEST(Report, is_written_whole) {
  const reef::test::TemporaryFolder folder;
  trace::write_report(folder / "report.html", sample());
  EXPECT_EQ(io::read_file(folder / "report.html", 1 << 20), trace::report_html(sample()));
}

TEST(Report, shows_where_communication_is_exposed) {
  using trace::detail::exposed;
  trace::Sink sink(0);
  sink.track("compute").span(Activity::compute, "a", 1, 2);
  sink.track("compute").span(Activity::compute, "b", 3, 4);
  sink.track("reduce").span(Activity::communication, "x", 0, 2.5);
  sink.track("send").span(Activity::communication, "y", 2.25, 3.5);
  sink.track("send").span(Activity::communication, "z", 5, 7);
  trace::Recording recording;
  sink.collect(recording);
  using Parts = std::vector<trace::Intervals::Interval>;
  EXPECT_EQ(exposed(recording, 0, 6), (Parts{{0, 1}, {2, 3}, {5, 6}}));
  EXPECT_EQ(exposed(recording, 3, 4), Parts{});
  // Its length is the analyzer's figure.
  for (double to = 0.25; to < 8; to += 0.25) {
    double length = 0;
    for (const auto& part : exposed(recording, 0.5, to)) length += part.end - part.begin;
    EXPECT_NEAR(length, trace::analyze(recording.spans, 0.5, to).exposed, 1e-12);
  }
  trace::Report report;
  report.recordings = {recording};
  EXPECT_NE(trace::report_html(report).find("communication that no computation hides"),
            std::string::npos);
}

TEST(Report, shows_when_segments_that_are_swapped_are_on_the_device) {
  trace::Sink sink(0);
  trace::Track& load = sink.track("load");
  trace::Track& compute = sink.track("compute");
  trace::Track& evict = sink.track("evict");
  load.span(Activity::copy, "Load(0)", 0, 1);
  load.span(Activity::copy, "Load(1)", 1, 2);
  load.span(Activity::copy, "LoadGradients(1)", 2, 2.25);
  load.span(Activity::copy, "Load(0)", 5, 6);
  compute.span(Activity::compute, "Forward(0, micro-batch 0)", 1, 2);
  compute.span(Activity::compute, "Forward(0, micro-batch 1)", 2, 3);
  compute.span(Activity::compute, "Forward(1, micro-batch 0)", 3, 4);
  compute.span(Activity::compute, "Backward(1, micro-batch 0)", 4, 6);
  compute.span(Activity::compute, "Backward(0, micro-batch 0)", 6, 8);
  compute.span(Activity::compute, "Norms(0)", 9, 10);
  compute.span(Activity::compute, "Evict(0)", 10, 11);  // of two lanes
  evict.span(Activity::copy, "Evict(1)", 6, 7);
  evict.span(Activity::copy, "Evict(0)", 8, 9);
  trace::Recording recording;
  sink.collect(recording);
  const auto stays = trace::detail::stays_of(recording);
  ASSERT_EQ(stays.size(), 2U);
  const auto& first = stays.at(0);
  ASSERT_EQ(first.size(), 2U);
  EXPECT_EQ(first[0].begin, 0);
  EXPECT_EQ(first[0].end, 3) << "the last forward; its backward has another stay";
  EXPECT_EQ(first[0].used.size(), 2U);
  EXPECT_EQ(first[1].ready, 6);
  EXPECT_EQ(first[1].end, 11) << "its gradients leave";
  EXPECT_EQ(first[1].used.size(), 1U) << "which is no use";
  EXPECT_EQ(stays.at(1).front().end, 7);
  trace::Report report;
  report.recordings = {recording};
  const std::string html = trace::report_html(report);
  EXPECT_NE(html.find(">segment 1</text>"), std::string::npos);
  EXPECT_NE(html.find("segment 0 is on the device"), std::string::npos);
  EXPECT_EQ(trace::report_html(sample()).find("is on the device"), std::string::npos);
}

TEST(Report, says_how_many_segments_it_does_not_show) {
  trace::Sink sink(0);
  trace::Track& load = sink.track("load");
  trace::Track& compute = sink.track("compute");
  for (int s = 0; s < 70; ++s) {
    load.span(Activity::copy, "Load(" + std::to_string(s) + ")", s, s + 1);
    compute.span(Activity::compute, "Forward(" + std::to_string(s) + ")", s + 1, s + 2);
  }
  trace::Recording recording;
  sink.collect(recording);
  trace::Report report;
  report.recordings = {recording};
  const std::string html = trace::report_html(report);
  EXPECT_NE(html.find(">segment 63</text>"), std::string::npos);
  EXPECT_EQ(html.find(">segment 64</text>"), std::string::npos);
  EXPECT_NE(html.find(">and 6 segments more</text>"), std::string::npos);
}

TEST(Report, marks_the_ends_of_steps_in_the_timeline) {
  trace::Report report = sample();
  report.origin = 100;
  report.steps = {{7, 1, 0.12, 2, 1}, {8, 2, 0.24, 2, 1}};
  const std::string html = trace::report_html(report);
  EXPECT_NE(html.find(">step 7</text>"), std::string::npos);
  EXPECT_NE(html.find(">step 8</text>"), std::string::npos);
}

TEST(Report, is_to_a_browser_what_was_written) {
#if !defined(REEF_CHROMIUM)
  GTEST_SKIP() << "no Chromium was found when this was built";
#else
  const reef::test::TemporaryFolder folder;
  const auto page = folder / "report.html";
  const auto seen = folder / "seen.html";
  trace::write_report(page, sample());
  const std::string command = "timeout 50 '" REEF_CHROMIUM
                              "' --headless --no-sandbox --disable-gpu --user-data-dir='" +
                              (folder / "profile").string() + "' --dump-dom 'file://" +
                              page.string() + "' > '" + seen.string() + "' 2>/dev/null";
  const int status = std::system(command.c_str());
  const std::string written = io::read_file(page, 1 << 24);
  const std::string dom = io::read_file(seen, 1 << 24);
  if (status != 0 || dom.empty()) GTEST_SKIP() << "Chromium does not start here";
  const auto count = [](const std::string& text, std::string_view part) {
    int found = 0;
    for (std::size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1))
      ++found;
    return found;
  };
  // Nothing was dropped, moved or added while the page was parsed.
  for (const char* tag :
       {"<svg", "<rect", "<text", "<path", "<line", "<title", "<td", "<tr", "</div>"}) {
    EXPECT_EQ(count(dom, tag), count(written, tag)) << tag;
  }
#endif
}

TEST(Compact, keeps_numbers_short) {
  using trace::detail::compact;
  EXPECT_EQ(compact(0), "0");
  EXPECT_EQ(compact(-1e-9), "0");
  EXPECT_EQ(compact(0.125), "0.125");
  EXPECT_EQ(compact(30), "30");
  EXPECT_EQ(compact(2.5), "2.5");
  EXPECT_EQ(compact(1234.5), "1234");
  EXPECT_EQ(compact(34'120), "34.1k");
  EXPECT_EQ(compact(30'000), "30k");
  EXPECT_EQ(compact(3'276'800), "3.28M");
}

TEST(Ticks, are_round_and_inside) {
  EXPECT_EQ(trace::detail::ticks(0, 10, 5), (std::vector<double>{0, 2, 4, 6, 8, 10}));
  EXPECT_EQ(trace::detail::ticks(3, 3, 5), (std::vector<double>{3}));
  for (double high = 1e-6; high < 1e9; high *= 1.37) {
    const std::vector<double> ticks = trace::detail::ticks(0, high, 6);
    EXPECT_GE(ticks.size(), 3U);
    EXPECT_LE(ticks.size(), 7U);
    EXPECT_LE(ticks.back(), high * (1 + 1e-9));
  }
}

}  // namespace
