#include <reef/optim/diloco.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include <gtest/gtest.h>

#include <reef/optim/adamw.hpp>

namespace {

using namespace reef;
using Overlap = run::OuterSchedule::Overlap;

std::int64_t unsynchronised(run::OuterSchedule outer, std::int64_t began, std::int64_t steps) {
  run::StepPlan plan;
  plan.outer_schedule = outer;
  return optim::DiLoCo<optim::AdamW>::unsynchronised(plan, began, steps);
}

std::int64_t longer_run(run::OuterSchedule outer, std::int64_t began, std::int64_t steps) {
  run::StepPlan plan;
  plan.outer_schedule = outer;
  return optim::DiLoCo<optim::AdamW>::longer_run(plan, began, steps);
}

int variant_after(run::OuterSchedule outer, std::int64_t began, std::int64_t committed) {
  run::StepPlan plan;
  plan.outer_schedule = outer;
  return optim::DiLoCo<optim::AdamW>::variant_after(plan, began, committed);
}

TEST(DiLoCo, a_run_leaves_out_the_steps_since_the_oldest_of_the_last_outer_steps) {
  EXPECT_EQ(unsynchronised({10, 1, Overlap::none}, 0, 40), 0);
  EXPECT_EQ(unsynchronised({10, 1, Overlap::none}, 0, 49), 9);
  EXPECT_EQ(unsynchronised({10, 4, Overlap::none}, 0, 40), 8)
      << "the first fragment was due after 32";
  EXPECT_EQ(unsynchronised({10, 4, Overlap::none}, 0, 42), 7) << "the second after 35";
  EXPECT_EQ(unsynchronised({10, 4, Overlap::none}, 0, 48), 8) << "the last after 40";
  EXPECT_EQ(unsynchronised({10, 4, Overlap::none}, 0, 50), 8);
  EXPECT_EQ(unsynchronised({10, 4, Overlap::none}, 0, 9), 9) << "the last was never due";
  EXPECT_EQ(unsynchronised({10, 4, Overlap::mix}, 0, 42), 10) << "42's leaves beside step 43";
  EXPECT_EQ(unsynchronised({10, 1, Overlap::mix}, 0, 40), 10) << "the outer step is beside step 41";
  EXPECT_EQ(unsynchronised({10, 1, Overlap::mix}, 0, 41), 1);
  EXPECT_EQ(unsynchronised({10, 2, Overlap::eager}, 0, 45), 15)
      << "half of 40's leaves beside step 46";
  EXPECT_EQ(unsynchronised({10, 2, Overlap::eager}, 0, 46), 6);
  EXPECT_EQ(unsynchronised({10, 1, Overlap::none}, 43, 49), 6)
      << "a resume begins at equal weights";
  EXPECT_EQ(unsynchronised({10, 1, Overlap::none}, 43, 43), 0);
}

TEST(DiLoCo, what_is_left_out_follows_the_last_outer_steps_of_all_fragments) {
  for (const Overlap overlap : {Overlap::none, Overlap::mix, Overlap::eager}) {
    for (int every = 1; every <= 7; ++every) {
      for (int fragments = 1; fragments <= every; ++fragments) {
        for (std::int64_t began = 0; began <= 2 * every; ++began) {
          const run::OuterSchedule outer{every, fragments, overlap};
          std::vector<std::int64_t> kept(static_cast<std::size_t>(fragments), began);
          for (std::int64_t steps = began; steps <= began + 4 * every; ++steps) {
            EXPECT_EQ(unsynchronised(outer, began, steps),
                      steps - *std::min_element(kept.begin(), kept.end()))
                << every << ' ' << fragments << ' ' << began << ' ' << steps;
            const int variant = variant_after(outer, began, steps);
            if (variant == 0) continue;
            kept[static_cast<std::size_t>(variant - 1)] = overlap == Overlap::none ? steps + 1
                                                          : overlap == Overlap::mix
                                                              ? steps
                                                              : steps / every * every;
          }
        }
      }
    }
  }
}

TEST(DiLoCo, knows_the_next_longer_run_that_leaves_out_fewer_steps) {
  EXPECT_EQ(longer_run({5, 2, Overlap::none}, 0, 41), 42);
  EXPECT_EQ(longer_run({5, 2, Overlap::mix}, 0, 43), 43) << "3, as few as ever";
  EXPECT_EQ(longer_run({10, 1, Overlap::none}, 0, 40), 40) << "nothing is left out";
  EXPECT_EQ(longer_run({10, 4, Overlap::none}, 0, 1), 1) << "no outer step leaves out fewer than 7";
  for (const Overlap overlap : {Overlap::none, Overlap::mix, Overlap::eager}) {
    for (int every = 1; every <= 7; ++every) {
      for (int fragments = 1; fragments <= every; ++fragments) {
        for (std::int64_t began = 0; began <= 2 * every; ++began) {
          const run::OuterSchedule outer{every, fragments, overlap};
          for (std::int64_t steps = began; steps <= began + 3 * every; ++steps) {
            std::int64_t more = steps + 1;
            const auto fewer = [&] {
              return unsynchronised(outer, began, more) < unsynchronised(outer, began, steps);
            };
            while (more < steps + 9 * every && !fewer()) ++more;
            EXPECT_EQ(longer_run(outer, began, steps), fewer() ? more : steps)
                << every << ' ' << fragments << ' ' << began << ' ' << steps;
          }
        }
      }
    }
  }
}

}  // namespace
