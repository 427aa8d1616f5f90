// device/any_device.hpp: some device moves bytes and keeps order as the device itself, and gives kernels its own lane.

#include <reef/device/any_device.hpp>

#include <cstdint>
#include <memory>
#include <stdexcept>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include <reef/core/error.hpp>
#include <reef/device/host.hpp>

namespace reef {
namespace {

using device::AnyBuffer;
using device::AnyDevice;
using device::AnyEvent;
using device::AnyLane;
using device::Copy;
using device::Host;

TEST(AnyDevice, says_what_the_device_is) {
  Host small({.memory_bytes = 1 << 20, .threads = 3});
  Host here(Host::Options{.threads = 1});
  EXPECT_TRUE(device::any_device(small)->on_host());
  EXPECT_TRUE(device::any_device(small)->discrete());
  EXPECT_FALSE(device::any_device(here)->discrete());
  EXPECT_EQ(device::any_device(small)->threads(), 3);
  EXPECT_EQ(device::any_device(here)->threads(), 1);
}

TEST(AnyDevice, buffers_are_of_the_budget_until_they_go) {
  Host host({.memory_bytes = 4096, .threads = 1});
  const std::unique_ptr<AnyDevice> some = device::any_device(host);
  {
    AnyBuffer buffer = some->allocate(4096, "all of it");
    EXPECT_EQ(buffer.bytes(), 4096U);
    EXPECT_NE(buffer.data(), nullptr);
    EXPECT_EQ(host.memory().used, 4096U);
    EXPECT_THROW(static_cast<void>(some->allocate(1, "one byte more")), MemoryError);
    void* const data = buffer.data();
    AnyBuffer moved = std::move(buffer);
    EXPECT_EQ(moved.data(), data);
    EXPECT_EQ(buffer.bytes(), 0U);  // NOLINT(bugprone-use-after-move): it is empty
    EXPECT_EQ(host.memory().used, 4096U);
    moved = AnyBuffer();
    EXPECT_EQ(host.memory().used, 0U);
    const AnyBuffer small = some->allocate(16, "less");
    EXPECT_EQ(host.memory().used, 16U);
    EXPECT_EQ(host.memory().peak, 4096U) << "the most that it ever held";
  }
  const AnyBuffer pinned = some->allocate_pinned(4096, "beside the budget");
  EXPECT_EQ(pinned.bytes(), 4096U);
  EXPECT_EQ(host.memory().used, 0U);
  const AnyBuffer nothing = some->allocate(0, "nothing");
  EXPECT_EQ(nothing.data(), nullptr);
}

TEST(AnyDevice, a_lane_moves_bytes_in_order_and_kernels_have_the_lane_of_the_device) {
  Host host(Host::Options{.threads = 2});
  const std::unique_ptr<AnyDevice> some = device::any_device(host);
  const std::unique_ptr<AnyLane> lane = some->make_lane("first");
  std::vector<int> from{1, 2, 3};
  std::vector<int> to(3, 7);
  Host::Lane* own = nullptr;
  Seconds before = -1;
  Seconds behind = -2;
  lane->submit([&](AnyLane& self) {
    self.stamp(before);
    self.copy(to.data(), from.data(), 2 * sizeof(int), Copy::to_device);
    self.fill_zero(from.data(), sizeof(int));
    self.stamp(behind);
    own = &device::lane_of<Host>(self);
    EXPECT_EQ(&self, lane.get());
  });
  lane->synchronize();
  EXPECT_EQ(to, (std::vector<int>{1, 2, 7}));
  EXPECT_EQ(from, (std::vector<int>{0, 2, 3}));
  EXPECT_LE(before, behind);
  ASSERT_NE(own, nullptr);
  EXPECT_EQ(own->lane_name(), "first");
  EXPECT_EQ(&own->device(), &host);
}

TEST(AnyDevice, lanes_wait_for_each_other_by_events) {
  Host host(Host::Options{.threads = 1});
  const std::unique_ptr<AnyDevice> some = device::any_device(host);
  const std::unique_ptr<AnyEvent> made = some->make_event();
  const std::unique_ptr<AnyEvent> read = some->make_event();
  const std::unique_ptr<AnyLane> writer = some->make_lane("writer", device::Priority::high);
  const std::unique_ptr<AnyLane> reader = some->make_lane("reader");
  constexpr std::uint64_t rounds = 100;
  std::uint64_t shared = 0;
  std::vector<std::uint64_t> seen;
  EXPECT_TRUE(made->ready(0));
  EXPECT_FALSE(made->ready(1));
  reader->submit([&](AnyLane& self) {
    for (std::uint64_t round = 1; round <= rounds; ++round) {
      self.wait(*made, round);
      seen.push_back(shared);
      self.record(*read);
    }
  });
  writer->submit([&](AnyLane& self) {
    for (std::uint64_t round = 1; round <= rounds; ++round) {
      self.wait(*read, round - 1);
      shared = round;
      self.record(*made);
    }
  });
  read->synchronize(rounds);
  EXPECT_EQ(made->epoch(), rounds);
  EXPECT_TRUE(read->ready(rounds));
  reader->synchronize();
  writer->synchronize();
  ASSERT_EQ(seen.size(), rounds);
  for (std::uint64_t round = 1; round <= rounds; ++round) EXPECT_EQ(seen[round - 1], round);
  made->signal();
  EXPECT_EQ(made->epoch(), rounds + 1);
}

TEST(AnyDevice, what_a_function_throws_synchronize_throws) {
  Host host(Host::Options{.threads = 1});
  const std::unique_ptr<AnyDevice> some = device::any_device(host);
  const std::unique_ptr<AnyLane> lane = some->make_lane("throws");
  bool ran = false;
  lane->submit([](AnyLane&) { throw std::runtime_error("broken"); });
  lane->submit([&](AnyLane&) { ran = true; });
  EXPECT_THROW(lane->synchronize(), std::runtime_error);
  EXPECT_FALSE(ran);
  lane->submit([&](AnyLane&) { ran = true; });
  lane->synchronize();
  EXPECT_TRUE(ran);
}

}  // namespace
}  // namespace reef
