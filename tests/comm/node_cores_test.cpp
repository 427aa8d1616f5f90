#include <reef/comm/node_cores.hpp>

#include <cstddef>

#include <gtest/gtest.h>

#include <reef/comm/communicator.hpp>
#include <reef/device/cores.hpp>

namespace {

using namespace reef;

device::CoreSet cores(int first, int count) {
  device::CoreSet set;
  for (int core = first; core < first + count; ++core) set.set(static_cast<std::size_t>(core));
  return set;
}

struct ShareOfCores : testing::Test {
  /// This rank's share, when its mask is these.
  [[nodiscard]] int share(int first, int count) const {
    return comm::share_of_cores(world, cores(first, count));
  }
  comm::Communicator world;
};

TEST_F(ShareOfCores, ranks_bound_apart_use_all_cores_of_their_own) {
  EXPECT_EQ(share(6 * world.rank(), 6), 6);
  EXPECT_EQ(share(6 * world.rank(), 1 + world.rank()), 1 + world.rank());
}

TEST_F(ShareOfCores, ranks_with_the_same_cores_share_them_evenly) {
  EXPECT_EQ(share(3, 12), 12 / world.size());
  EXPECT_EQ(share(0, 1), 1) << "no rank goes without a thread";
}

TEST_F(ShareOfCores, ranks_of_each_socket_share_that_socket) {
  const int here = world.rank() % 2 == 0 ? (world.size() + 1) / 2 : world.size() / 2;
  EXPECT_EQ(share(world.rank() % 2 * 12, 12), 12 / here);
}

TEST_F(ShareOfCores, cores_that_meet_in_part_are_shared) {
  const int count = world.rank() == 0 ? 6 : 12;
  EXPECT_EQ(share(0, count), count / world.size());
}

}  // namespace
