#include <reef/comm/clock_offset.hpp>

#include <string>

#include <gtest/gtest.h>

namespace {

using namespace reef;

double hours_ahead = 0;
Seconds other_clock() { return trace::now() + 3600 * hours_ahead; }

class ClockOffset : public testing::Test {
protected:
  comm::Communicator world;
  comm::Progress progress{world, {}};
};

TEST_F(ClockOffset, is_exactly_zero_on_one_machine) { EXPECT_EQ(comm::clock_offset(progress), 0); }

TEST_F(ClockOffset, brings_the_times_of_other_machines_to_those_of_rank_0) {
  // Ranks 0 and 2 are on one machine, each other one on its own.
  const int rank = world.rank();
  const int machine = rank == 2 ? 0 : rank;
  hours_ahead = machine;
  const Seconds offset =
      comm::clock_offset(progress, "machine " + std::to_string(machine), &other_clock);
  EXPECT_NEAR(offset, -3600.0 * machine, 1);
  if (machine == 0) {
    EXPECT_EQ(offset, 0);
  }
}

}  // namespace
