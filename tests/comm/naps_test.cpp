#include <reef/comm/detail/naps.hpp>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstdint>
#include <thread>

#include <gtest/gtest.h>

namespace reef::comm::detail {
namespace {

TEST(Naps, a_wait_looks_ever_less_often) {
  // Naps of 50 us until 32 of them are that long, then 1/32 of the wait: as many for each factor of e.
  constexpr double wait = 0.25;
  const double most = 32 + 32 * std::log(wait / 1.6e-3) + 10;
  Naps naps;
  naps.rest(true, never_ns, never_ns, 0, [] { return true; });
  const std::int64_t begin = now_ns();
  int looks = 0;
  while (now_ns() - begin < to_ns(wait)) {
    // The turns that it yields at first are no naps.
    if (now_ns() - begin > to_ns(100e-6)) ++looks;
    naps.rest(false, never_ns, never_ns, 0, [] { return true; });
  }
  EXPECT_LE(looks, most);
}

TEST(Naps, where_nothing_comes_soon_it_looks_as_rarely_as_it_is_told) {
  constexpr double wait = 30e-3;
  Naps naps;
  naps.rest(true, never_ns, never_ns, to_ns(1e-3), [] { return true; });
  const std::int64_t begin = now_ns();
  int looks = 0;
  do {
    naps.rest(false, never_ns, never_ns, to_ns(1e-3), [] { return true; });
    ++looks;
  } while (now_ns() - begin < to_ns(wait));
  EXPECT_LE(looks, 30);
}

TEST(Naps, however_long_nothing_has_come_no_nap_is_longer_than_it_is_told) {
  constexpr double long_wait = 0.3;
  Naps naps;
  const auto rest = [&] {
    const std::int64_t begin = now_ns();
    naps.rest(
        false, never_ns, never_ns, 0, [] { return true; }, to_ns(1e-3));
    return now_ns() - begin;
  };
  naps.rest(true, never_ns, never_ns, 0, [] { return true; });
  for (const std::int64_t begin = now_ns(); now_ns() - begin < to_ns(long_wait);) rest();
  const std::int64_t half = to_ns(long_wait / 32) / 2;
  std::int64_t shortest = never_ns;  // a machine that is busy makes many longer
  for (int i = 0; i < 1000 && shortest >= half; ++i) shortest = std::min(shortest, rest());
  EXPECT_LT(shortest, half);
}

TEST(Naps, nobody_oversleeps_what_is_due) {
  Naps naps;
  naps.rest(true, never_ns, never_ns, 0, [] { return false; });
  // Without a task it would sleep for ever: a sign of life that is due ends that, so does an arrival.
  naps.rest(false, now_ns() + to_ns(1e-3), never_ns, 0, [] { return false; });
  naps.rest(false, never_ns, now_ns() + to_ns(1e-3), 0, [] { return false; });
  naps.rest(false, never_ns, now_ns() + to_ns(1e-3), never_ns, [] { return true; });
}

TEST(Naps, who_wakes_before_the_nap_is_not_missed) {
  Naps naps;
  naps.rest(true, never_ns, never_ns, 0, [] { return false; });
  naps.wake();  // while the thread looks whether there is something to do
  naps.rest(false, never_ns, never_ns, 0, [] { return false; });  // would last for ever
}

TEST(Naps, who_is_woken_goes_on_at_once) {
  Naps naps;
  std::atomic<bool> work{false};
  naps.rest(true, never_ns, never_ns, 0, [&] { return work.load(); });
  std::thread other([&] {
    work = true;
    naps.wake();
  });
  while (!work) naps.rest(false, never_ns, never_ns, 0, [&] { return work.load(); });
  other.join();
}

}  // namespace
}  // namespace reef::comm::detail
