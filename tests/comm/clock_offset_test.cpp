#include <reef/comm/clock_offset.hpp>

#include <algorithm>
#include <cstdint>
#include <limits>
#include <string>

#include <gtest/gtest.h>

#include <reef/core/random.hpp>

namespace {

using namespace reef;

double hours_ahead = 0;
Seconds other_clock() { return trace::now() + 3600 * hours_ahead; }

/// Clocks of which all readings are known: the n-th of a rank, for one seed.
struct WrittenClock {
  std::uint64_t seed = 0;
  int rank = 0;
  std::uint64_t read = 0;  ///< how often it was

  [[nodiscard]] double drawn(std::uint64_t n) const {
    return random_bits({seed, static_cast<std::uint64_t>(rank), 0, 0}, n) % 1'000'000 * 1e-3;
  }
  /// Rank 0 says any time. Another asks and is answered in turn, and waits for the answer for as long as was drawn.
  [[nodiscard]] Seconds reading(std::uint64_t n) const {
    if (rank == 0) return drawn(n);
    return 1e4 * static_cast<double>(n / 2) + (n % 2 == 0 ? 0 : 1 + drawn(n));
  }
};
WrittenClock written;
Seconds written_clock() { return written.reading(written.read++); }

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
  EXPECT_NEAR(offset, -3600.0 * machine, 1) << "or an answer took 2 s";
  if (machine == 0) {
    EXPECT_EQ(offset, 0);
  }
}

/// By clocks that jump, one exchange says another offset than the next.
TEST_F(ClockOffset, is_that_of_the_exchange_which_took_least) {
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    written = {seed, world.rank()};
    const Seconds offset =
        comm::clock_offset(progress, concat("machine ", world.rank()), &written_clock);
    if (world.rank() == 0) {
      EXPECT_EQ(offset, 0) << "seed " << seed;
      continue;
    }
    const std::uint64_t exchanges = written.read / 2;
    EXPECT_EQ(exchanges, 16U);
    const WrittenClock first{seed, 0};
    Seconds least = std::numeric_limits<Seconds>::infinity();
    Seconds expected = 0;
    for (std::uint64_t i = 0; i < exchanges; ++i) {
      const Seconds begin = written.reading(2 * i);
      const Seconds end = written.reading(2 * i + 1);
      if (end - begin >= least) continue;
      least = end - begin;
      const auto before = static_cast<std::uint64_t>(world.rank() - 1) * exchanges;
      expected = first.reading(before + i) - (begin + end) / 2;
    }
    EXPECT_NEAR(offset, expected, 1e-6) << "seed " << seed << ", rank " << world.rank();
  }
}

}  // namespace
