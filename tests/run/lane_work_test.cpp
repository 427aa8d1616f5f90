#include <reef/run/lane_work.hpp>

#include <memory>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <reef/comm/communicator.hpp>
#include <reef/device/host.hpp>

namespace reef::test {
namespace {

using testing::IsEmpty;

/// A process of one rank, whose queue is at an instruction or not, and an event for which the queue records.
struct WorkingLane {
  comm::Progress progress{comm::Communicator::alone()};
  device::Host host{device::Host::Options{.threads = 1}};
  std::unique_ptr<device::AnyDevice> device = device::any_device(host);
  std::unique_ptr<device::AnyEvent> event = device->make_event();
  std::string name = "Forward";

  [[nodiscard]] std::vector<comm::detail::Work> told() const { return progress.occupations()->work(); }
};

TEST(LaneWork, tells_the_instruction_that_a_queue_is_at_and_since_when) {
  WorkingLane lane;
  {
    run::LaneWork work(lane.progress, true);
    EXPECT_THAT(lane.told(), IsEmpty());
    work.begin(lane.name, 123, 20);
    const std::vector<comm::detail::Work> told = lane.told();
    ASSERT_EQ(told.size(), 1U);
    EXPECT_EQ(told[0].what, "Forward");
    EXPECT_EQ(told[0].since, 123);
    EXPECT_EQ(told[0].expected, 20);
    work.end(*lane.event, 1);
    EXPECT_THAT(lane.told(), IsEmpty());
    work.begin(lane.name, 456, 0);
    EXPECT_EQ(lane.told().size(), 1U);
  }
  EXPECT_THAT(lane.told(), IsEmpty()) << "the queue is gone";
}

TEST(LaneWork, is_none_while_the_thread_of_the_queue_waits_for_messages) {
  WorkingLane lane;
  run::LaneWork work(lane.progress, true);
  work.begin(lane.name, 0, 0);
  {
    const comm::detail::Waiting waiting(*lane.progress.occupations());
    EXPECT_THAT(lane.told(), IsEmpty());
  }
  EXPECT_EQ(lane.told().size(), 1U);
}

TEST(LaneWork, is_none_while_an_instruction_is_repeated_until_an_event_has_happened) {
  WorkingLane lane;
  run::LaneWork work(lane.progress, true);
  work.begin(lane.name, 0, 0, lane.event.get(), 1);
  EXPECT_THAT(lane.told(), IsEmpty());
  lane.event->signal();
  EXPECT_EQ(lane.told().size(), 1U);
}

TEST(LaneWork, of_a_device_that_runs_behind_its_queue_lasts_until_the_recorded_event_has_happened) {
  WorkingLane lane;
  run::LaneWork work(lane.progress, false);
  work.begin(lane.name, 0, 0);
  work.end(*lane.event, 1);
  EXPECT_EQ(lane.told().size(), 1U);
  lane.event->signal();
  EXPECT_THAT(lane.told(), IsEmpty());
}

}  // namespace
}  // namespace reef::test
