// Orders of pipelines: their closed forms where those hold, what they hold in memory, what is refused.

#include <reef/plan/pipeline_order.hpp>
#include <reef/plan/pipeline_schedules.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include <reef/core/error.hpp>
#include <reef/core/random.hpp>
#include <reef/plan/pipeline_model.hpp>

namespace reef::test {
namespace {

using plan::PipelineEstimate;
using plan::PipelineModel;
using plan::PipelineOrder;
using plan::PipelineTask;
using plan::PipelineTaskKind;
using plan::PipelineTimes;
using testing::HasSubstr;

/// Whole numbers, so that sums are exact.
class Draws {
public:
  explicit Draws(std::uint64_t seed) : seed_(seed) {}
  int from(int least, int most) {
    return least + static_cast<int>(random_bits({seed_, 0, 7, 0}, next_++) %
                                    static_cast<unsigned>(most - least + 1));
  }

private:
  std::uint64_t seed_;
  std::uint64_t next_ = 0;
};

struct Even {
  int f, b, w, c = 0;
};

PipelineEstimate taken(const PipelineOrder& order, const Even& times) {
  return plan::estimate({order, PipelineTimes::even(order, times.f, times.b, times.w,
                                                    {static_cast<Seconds>(times.c), 0})});
}

int most(const std::vector<int>& values) { return *std::max_element(values.begin(), values.end()); }

template <class Error, class Call>
std::string complaint(Call&& call) {
  try {
    call();
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

TEST(PipelineOrder, every_order_is_valid_and_ends_for_any_number_of_ranks_and_micro_batches) {
  for (const std::string_view name : plan::pipeline_schedule_names(false)) {
    for (int p = 1; p <= 9; ++p) {
      for (int m = 1; m <= 21; ++m) {
        SCOPED_TRACE(concat(name, ", ", p, " ranks, ", m, " micro-batches"));
        const PipelineOrder order = plan::pipeline_order_of(name, p, m);
        ASSERT_NO_THROW(order.validate());
        ASSERT_EQ(order.micro_batches, m);
        ASSERT_EQ(order.ranks(), p);
        Draws draws(static_cast<std::uint64_t>(100 * p + m));
        const PipelineEstimate estimate =
            taken(order, {draws.from(1, 9), draws.from(1, 9), draws.from(1, 9), draws.from(0, 30)});
        ASSERT_GT(estimate.makespan, 0);
        ASSERT_EQ(plan::parse_pipeline_order(plan::text_of(order)), order);
      }
    }
  }
}

TEST(PipelineOrder, more_chunks_and_larger_groups_are_valid_too) {
  for (std::uint64_t seed = 0; seed < 200; ++seed) {
    Draws draws(seed);
    const int p = draws.from(1, 6);
    const int m = draws.from(1, 17);
    const int v = draws.from(1, 4);
    const int group = draws.from(p, p + 9);
    SCOPED_TRACE(concat(p, " ranks, ", m, " micro-batches, ", v, " chunks, groups of ", group));
    for (const PipelineOrder& order :
         {plan::interleaved_order(p, m, v, group), plan::interleaved_zb_order(p, m, v, group),
          plan::looped_bfs_order(p, m, v)}) {
      ASSERT_NO_THROW(order.validate());
      ASSERT_NO_THROW(taken(order, {3, 5, 2, 1}));
    }
  }
}

TEST(PipelineOrder, gpipe_takes_what_two_flow_shops_take_on_any_chunks_and_links) {
  for (std::uint64_t seed = 0; seed < 300; ++seed) {
    SCOPED_TRACE(seed);
    Draws draws(seed);
    const int p = draws.from(1, 7);
    const int m = draws.from(1, 12);
    PipelineModel model{plan::gpipe_order(p, m)};
    model.times = PipelineTimes::even(model.order, 0, 0, 0);
    Seconds sum = 0;
    Seconds forward = 0;
    Seconds backward = 0;
    for (std::size_t s = 0; s < static_cast<std::size_t>(p); ++s) {
      const Seconds f = model.times.forward[s] = draws.from(1, 20);
      const Seconds b = model.times.input_backward[s] = draws.from(1, 20);
      const Seconds w = model.times.weight_backward[s] = draws.from(0, 20);
      sum += f + b + w;
      forward = std::max(forward, f);
      backward = std::max(backward, b + w);
    }
    for (int s = 1; s < p; ++s) {
      for (const bool back : {false, true}) {
        const Bytes wire = static_cast<Bytes>(draws.from(1, 25));
        const Seconds latency = draws.from(0, 40);
        const int from = back ? s : s - 1;
        const int to = back ? s - 1 : s;
        (back ? model.backward : model.forward).push_back({from, to, wire});
        model.times.world.links[static_cast<std::size_t>(from * p + to)] = {latency, 1};
        sum += static_cast<Seconds>(wire) + latency;
        Seconds& slowest = back ? backward : forward;
        slowest = std::max(slowest, static_cast<Seconds>(wire));
      }
    }
    const PipelineEstimate estimate = plan::estimate(model);
    EXPECT_EQ(estimate.makespan, sum + (m - 1) * (forward + backward));
    for (const int held : estimate.peak_activations) EXPECT_EQ(held, m);
    for (int s = 1; s < p; ++s) {
      EXPECT_EQ(estimate.messages.at({s - 1, s}), m);
      EXPECT_EQ(estimate.messages.at({s, s - 1}), m);
    }
  }
}

TEST(PipelineOrder, one_f_one_b_takes_its_closed_form_at_any_latency) {
  for (std::uint64_t seed = 0; seed < 500; ++seed) {
    SCOPED_TRACE(seed);
    Draws draws(seed);
    const int p = draws.from(1, 8);
    const int m = draws.from(1, 20);
    const Even t{draws.from(1, 12), draws.from(1, 12), draws.from(0, 12), draws.from(0, 60)};
    const PipelineOrder order = plan::one_f_one_b_order(p, m);
    const PipelineEstimate estimate = taken(order, t);
    const int stage = t.f + t.b + t.w;
    EXPECT_EQ(estimate.makespan, (m + p - 1) * stage + 2 * t.c * (p - 1 + (m - 1) * (p - 1) / p));
    for (int r = 0; r < p; ++r) {
      EXPECT_EQ(estimate.peak_activations[static_cast<std::size_t>(r)], std::min(m, p - r));
    }
    // Eager, it hides delays of half a stage but for the ramps.
    const int hidden = std::min(t.c, stage / 2);
    const PipelineOrder eager = plan::one_f_one_b_order(p, m, true);
    const PipelineEstimate other = taken(eager, {t.f, t.b, t.w, hidden});
    EXPECT_EQ(other.makespan, (m + p - 1) * stage + 2 * (p - 1) * hidden);
    for (int r = 0; r < p; ++r) {
      EXPECT_EQ(other.peak_activations[static_cast<std::size_t>(r)],
                std::min(m, 2 * (p - 1 - r) + 1));
    }
  }
}

TEST(PipelineOrder, alternating_orders_have_the_period_of_their_slowest_circle) {
  constexpr int all =
      2520;  // a multiple of as many micro-batches as a circle may take at a time, 1 to 9
  for (std::uint64_t seed = 0; seed < 60; ++seed) {
    SCOPED_TRACE(seed);
    Draws draws(seed);
    const int p = draws.from(1, 5);
    std::vector<int> warm_up(static_cast<std::size_t>(p));
    for (int r = p - 1, least = 0; r >= 0; --r) {
      warm_up[static_cast<std::size_t>(r)] = least += draws.from(0, 2);
    }
    std::vector<Seconds> f, b, w;
    for (int s = 0; s < p; ++s) {
      f.push_back(draws.from(1, 20));
      b.push_back(draws.from(1, 20));
      w.push_back(draws.from(0, 20));
    }
    std::vector<Seconds> round_trip;
    auto world = schedule::World::uniform(p, {}, {});
    for (int s = 0; s + 1 < p; ++s) {
      const int up = draws.from(0, 50);
      const int down = draws.from(0, 50);
      world.links[static_cast<std::size_t>(s * p + s + 1)].latency = up;
      world.links[static_cast<std::size_t>((s + 1) * p + s)].latency = down;
      round_trip.push_back(up + down);
    }
    Seconds period = 0;
    for (int r = 0; r < p; ++r) {
      Seconds sum = 0;
      for (int q = r; q < p; ++q) {
        const auto s = static_cast<std::size_t>(q);
        sum += f[s] + b[s] + w[s] + (q > r ? round_trip[s - 1] : 0);
        period = std::max(period, sum / (warm_up[static_cast<std::size_t>(r)] - warm_up[s] + 1));
      }
    }
    const auto takes = [&](int m) {
      const PipelineOrder order = plan::one_f_one_b_order(p, m, warm_up);
      return plan::estimate({order, {f, b, w, world}}).makespan;
    };
    EXPECT_NEAR(takes(2 * all) - takes(all), all * period, 1e-9 * all * period);
  }
}

TEST(PipelineOrder, interleaved_takes_its_closed_form_where_p_divides_m) {
  for (std::uint64_t seed = 0; seed < 300; ++seed) {
    SCOPED_TRACE(seed);
    Draws draws(seed);
    const int p = draws.from(1, 6);
    const int m = p * draws.from(1, 4);
    const int v = draws.from(1, 4);
    const Even t{draws.from(1, 12), draws.from(1, 12), draws.from(0, 12)};
    const PipelineEstimate estimate = taken(plan::interleaved_order(p, m, v), t);
    EXPECT_EQ(estimate.makespan, (m * v + p - 1) * (t.f + t.b + t.w));
    if (m > p && v > 1) {
      EXPECT_EQ(estimate.peak_activations[0], (v + 1) * p - 1);
    }
    const int more = p + draws.from(0, 9);
    const PipelineEstimate bfs = taken(plan::looped_bfs_order(p, more, v), t);
    EXPECT_EQ(bfs.makespan, (more * v + p - 1) * (t.f + t.b + t.w));
    for (const int held : bfs.peak_activations) EXPECT_EQ(held, more * v);
  }
}

TEST(PipelineOrder, zero_bubble_takes_its_closed_form_where_w_is_no_longer_than_f_and_b) {
  int longer = 0;
  for (std::uint64_t seed = 0; seed < 500; ++seed) {
    SCOPED_TRACE(seed);
    Draws draws(seed);
    const int p = draws.from(1, 7);
    const int v = draws.from(1, 3);
    const int m = v == 1 ? p + draws.from(0, 12) : p * draws.from(1, 4);
    const Even t{draws.from(1, 12), draws.from(1, 12), draws.from(0, 12)};
    const PipelineEstimate estimate =
        taken(v == 1 ? plan::zb_h1_order(p, m) : plan::interleaved_zb_order(p, m, v), t);
    const int form = m * v * (t.f + t.b + t.w) + (p - 1) * (t.f + t.b - t.w);
    if (t.w <= std::min(t.f, t.b)) {
      EXPECT_EQ(estimate.makespan, form);
    } else {
      longer += estimate.makespan > form ? 1 : 0;
    }
    for (int r = 0; r < p; ++r) {
      const auto at = static_cast<std::size_t>(r);
      EXPECT_EQ(estimate.peak_activations[at], p * v);
      if (v == 1) {
        EXPECT_EQ(estimate.peak_until_input_half[at], p - r);
      }
    }
  }
  EXPECT_GT(longer, 50) << "beyond that the form does not hold";
  EXPECT_EQ(taken(plan::zb_h1_order(3, 7), {4, 1, 4}).makespan, 71);
}

TEST(PipelineOrder, zb_h2_hides_delays_of_up_to_f) {
  for (std::uint64_t seed = 0; seed < 200; ++seed) {
    SCOPED_TRACE(seed);
    Draws draws(seed);
    const int p = draws.from(1, 7);
    const int m = std::max(1, 2 * p - 1 + draws.from(0, 9));
    const int f = draws.from(1, 12);
    const int c = draws.from(0, f);
    const PipelineEstimate estimate = taken(plan::zb_h2_order(p, m), {f, f, f, c});
    EXPECT_EQ(estimate.makespan, 3 * m * f + (p - 1) * (f + c));
    EXPECT_EQ(most(estimate.peak_activations), 2 * p - 1);
    if (c == 0) {
      for (const Seconds idle : estimate.span_idle) EXPECT_EQ(idle, 0);
    }
    const Even t{f + draws.from(0, 5), draws.from(1, 12), f};
    if (t.f >= std::min(t.b, t.w)) {
      const PipelineEstimate uneven = taken(plan::zb_h2_order(p, m), t);
      const Seconds span = *std::max_element(uneven.span_idle.begin(), uneven.span_idle.end());
      EXPECT_EQ(span, (p - 1) * std::max(0, t.f + t.b - 2 * t.w));
    }
  }
}

TEST(PipelineOrder, v_orders_take_their_closed_forms_where_f_b_and_w_are_equal) {
  for (int p = 1; p <= 12; ++p) {
    for (int more = 0; more <= 8; ++more) {
      SCOPED_TRACE(concat(p, " ranks, ", more, " more"));
      const Even t{5, 5, 5};
      int m = 2 * p - 1 + more;
      const PipelineEstimate zb = taken(plan::zb_v_order(p, m), t);
      EXPECT_EQ(zb.makespan, (6 * m + p - 1) * 5);
      EXPECT_EQ(most(zb.peak_activations), 2 * p);
      for (const Seconds idle : zb.span_idle) EXPECT_EQ(idle, 0);
      m = 2 * p + more;
      const PipelineEstimate dual = taken(plan::dualpipe_v_order(p, m), t);
      EXPECT_EQ(dual.makespan, (6 * m + p - 1) * 5);
      EXPECT_EQ(most(dual.peak_activations), 2 * p + 1);
      const PipelineEstimate half = taken(plan::v_half_order(p, m), t);
      EXPECT_EQ(most(half.peak_activations), 2 * ((p + 2) / 2));
      const PipelineEstimate min = taken(plan::v_min_order(p, m), t);
      EXPECT_EQ(most(min.peak_activations), 2 * ((p + 4) / 3));
      if (p < 2) continue;
      EXPECT_EQ(half.makespan, 5 * (6 * m + (p % 2 == 0 ? 3.5 * p - 2 : 3.5 * (p - 1))));
      EXPECT_EQ(min.makespan, 5 * (6 * m + 4 * p - (p % 3 == 0 ? 3 : 5)));
    }
  }
}

TEST(PipelineOrder, what_is_no_order_is_refused_by_rank_and_task) {
  const PipelineOrder good = plan::zb_h1_order(2, 2);
  EXPECT_EQ(plan::text_of(good), "F0 F1 I0 W0 I1 W1\nF0 I0 F1 I1 W0 W1\n");
  const auto refused = [&](const std::string& text, const std::string& says) {
    const std::string said = complaint<DecodeError>([&] { plan::parse_pipeline_order(text); });
    EXPECT_THAT(said, HasSubstr(says)) << text;
    EXPECT_THAT(said, HasSubstr("fix: ")) << text;
  };
  refused("F0 B0\nF0 B0 F0\n", "rank 1 of the order: F0 is there twice");
  refused("F0 B0\nF0 B0 B0\n", "rank 1 of the order: B0 is there twice");
  refused("F0 B0\nF0 I0 W0 W0\n", "rank 1 of the order: W0 is there twice");
  refused("F0 B0\nF0 B0 W0\n", "rank 1 of the order: W0 is there twice");
  refused("F0 B0\nF0 B0 I0\n", "rank 1 of the order: I0 is there twice");
  refused("F1 F0 B0 B1\n", "rank 0 of the order: F1 comes before F0");
  refused("F0 F1 B1 B0\n", "rank 0 of the order: B1 comes before B0");
  refused("F0 F1 I0 I1 W1 W0\n", "rank 0 of the order: W1 comes before W0");
  refused("F0 F1 I0 B1 W0\n", "rank 0 of the order: B1 comes before W0");
  refused("F0 W0 I0\n", "rank 0 of the order: W0 comes before I0");
  refused("B0 F0\n", "rank 0 of the order: B0 comes before F0");
  refused("F0\n", "rank 0 of the order: B0 is missing");
  refused("F0 I0\n", "rank 0 of the order: W0 is missing");
  refused("F0 F1 B0\n", "rank 0 of the order: B1 is missing");
  refused("F0 B0 F1 B1\nF0 B0\n", "rank 1 of the order: F1 is missing");
  refused("0F0 0B0 2F0 2B0\n1F0 1B0 2F0\n", "rank 1 of the order: 2F0 is on the wrong rank");
  refused("F0 B0 3F0 3B0\nF0 B0\n", "no rank runs chunk 2 of 4");
  refused("F0 F7 B0 B7\n", "the number 7 among 4 tasks");
  refused("F0 F2147483647\n", "the number 2147483647 among");
  refused("", "there are no tasks");
  refused("\xEF\xBB\xBF" "F0 B0\n", "begins with a byte order mark of UTF-8");
  refused(std::string("\xFF\xFE" "F\0" "0\0", 6), "begins with a byte order mark of UTF-16");
  refused("F0 G0\n", "line 1: 'G0' is no task");
  refused("F0 B0\nF0 F\n", "line 2: 'F' is no task");
  refused("F-1\n", "is no task");
  refused("F99999999999\n", "is no task");
  refused("+1F0\n", "is no task");
  EXPECT_EQ(plan::parse_pipeline_order("# warm-up\n  F0\tB0  # and the rest\r\n\nF0 B0"),
            plan::gpipe_order(2, 1));

  PipelineOrder order = good;
  order.micro_batches = 0;
  EXPECT_THAT(complaint<OptionError>([&] { order.validate(); }), HasSubstr("0 micro-batches"));
  order = good;
  order.rank_of_chunk[1] = 2;
  EXPECT_THAT(complaint<OptionError>([&] { order.validate(); }),
              HasSubstr("rank_of_chunk[1] is 2"));
  order = good;
  order.tasks.emplace_back();
  EXPECT_THAT(complaint<OptionError>([&] { order.validate(); }),
              HasSubstr("rank 2 of the order holds"));
  order = good;
  order.tasks[0][0].chunk = -1;
  EXPECT_THAT(complaint<OptionError>([&] { order.validate(); }), HasSubstr("is of chunk -1 of 2"));
  order = good;
  order.tasks[0][1].micro_batch = 2;
  EXPECT_THAT(complaint<OptionError>([&] { order.validate(); }),
              HasSubstr("F2 is of no micro-batch"));
}

TEST(PipelineOrder, sizes_that_cannot_be_are_refused) {
  for (const std::string_view name : plan::pipeline_schedule_names(false)) {
    for (const auto& [p, m] : std::vector<std::pair<int, int>>{
             {0, 1}, {1, 0}, {-1, 4}, {1 << 30, 1}, {1, 1 << 30}, {2'147'483'647, 2'147'483'647}}) {
      EXPECT_THAT(
          complaint<OptionError>([&, p = p, m = m] { plan::pipeline_order_of(name, p, m); }),
          HasSubstr("fix: "))
          << name << " " << p << " " << m;
    }
  }
  EXPECT_THROW(plan::interleaved_order(4, 8, 0), OptionError);
  EXPECT_THROW(plan::interleaved_order(4, 8, 1 << 29), OptionError);
  EXPECT_THAT(complaint<OptionError>([] { plan::interleaved_order(4, 8, 2, 3); }),
              HasSubstr("groups of 3 micro-batches on 4 ranks"));
  EXPECT_THAT(complaint<OptionError>([] {
                plan::one_f_one_b_order(3, 8, {2, 1});
              }),
              HasSubstr("2 warm-ups for 3 ranks"));
  EXPECT_THAT(complaint<OptionError>([] {
                plan::one_f_one_b_order(2, 8, {0, -1});
              }),
              HasSubstr("rank 1 warms up with -1"));
  EXPECT_THAT(complaint<OptionError>([] {
                plan::one_f_one_b_order(2, 8, {0, 1});
              }),
              HasSubstr("rank 1 would wait for more forwards"));
  EXPECT_NO_THROW(plan::one_f_one_b_order(2, 1, {0, 1}).validate());
  EXPECT_THAT(complaint<OptionError>([] { plan::pipeline_order_of("zb-x", 2, 2); }),
              HasSubstr("no schedule is named 'zb-x'"));
  EXPECT_THAT(complaint<OptionError>([] { plan::pipeline_order_of("zb-v", 2, 2, 3); }),
              HasSubstr("3 chunks on each rank"));
  EXPECT_THAT(complaint<OptionError>([] { plan::pipeline_order_of("gpipe", 2, 2, 1, 4); }),
              HasSubstr("groups of 4"));
}

TEST(PipelineOrder, thousands_of_ranks_and_micro_batches_take_a_moment) {
  for (const auto& [p, m] : std::vector<std::pair<int, int>>{{1000, 1000}, {2000, 2}, {2, 3000}}) {
    const PipelineOrder order = plan::one_f_one_b_order(p, m);
    EXPECT_NO_THROW(order.validate());
    PipelineModel model{order, {}};
    model.times.forward.assign(static_cast<std::size_t>(p), 1);
    model.times.input_backward = model.times.weight_backward = model.times.forward;
    model.times.world = schedule::World::uniform(p, {}, {});
    EXPECT_EQ(plan::estimate(model).makespan, 3.0 * (m + p - 1));
  }
  EXPECT_NO_THROW(plan::zb_v_order(3000, 1).validate());
  EXPECT_NO_THROW(plan::dualpipe_v_order(500, 3).validate());
}

}  // namespace
}  // namespace reef::test
