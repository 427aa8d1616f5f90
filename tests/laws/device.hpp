#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstring>
#include <memory>
#include <numeric>
#include <optional>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include <reef/core/error.hpp>
#include <reef/device/concept.hpp>

namespace reef::laws {

/// The laws of device::device, for every model.
///
/// `Model` says how to make one:
///
///     struct HostModel {
///       using Device = device::Host;
///       static std::optional<std::string> unavailable();            // a reason to skip
///       static std::unique_ptr<Device> make(Bytes memory_bytes);    // 0: no budget
///     };
template <class Model>
class DeviceLaws : public testing::Test {
protected:
  using Device = typename Model::Device;

  void SetUp() override {
    if (const std::optional<std::string> why = Model::unavailable()) GTEST_SKIP() << *why;
    device_ = Model::make(0);
  }

  static std::vector<std::uint32_t> pattern(std::size_t count, std::uint32_t first) {
    std::vector<std::uint32_t> values(count);
    std::iota(values.begin(), values.end(), first);
    return values;
  }

  // What lies at `from` on the device.
  static std::vector<std::uint32_t> read_back(typename Device::Lane& lane, const void* from,
                                              std::size_t count) {
    std::vector<std::uint32_t> values(count);
    lane.submit([&](typename Device::Lane& l) {
      l.copy(values.data(), from, count * sizeof(std::uint32_t), device::Copy::to_host);
    });
    lane.synchronize();
    return values;
  }

  static void write(typename Device::Lane& lane, void* to,
                    const std::vector<std::uint32_t>& values) {
    lane.submit([&](typename Device::Lane& l) {
      l.copy(to, values.data(), values.size() * sizeof(std::uint32_t), device::Copy::to_device);
    });
    lane.synchronize();
  }

  std::unique_ptr<Device> device_;
};

TYPED_TEST_SUITE_P(DeviceLaws);

TYPED_TEST_P(DeviceLaws, a_lane_runs_its_functions_in_the_order_of_submission) {
  using Lane = typename TypeParam::Device::Lane;
  Lane lane(*this->device_, "compute");
  std::vector<int> order;
  for (int i = 0; i < 1000; ++i) lane.submit([&order, i](Lane&) { order.push_back(i); });
  lane.synchronize();
  ASSERT_EQ(order.size(), 1000U);
  for (int i = 0; i < 1000; ++i) EXPECT_EQ(order[static_cast<std::size_t>(i)], i);
}

TYPED_TEST_P(DeviceLaws, functions_submitted_from_several_threads_all_run_once) {
  using Lane = typename TypeParam::Device::Lane;
  Lane lane(*this->device_, "compute");
  std::vector<int> runs(400, 0);  // only the lane's thread writes
  std::vector<std::thread> threads;
  for (std::size_t t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      for (std::size_t i = 0; i < 100; ++i)
        lane.submit([&runs, t, i](Lane&) { ++runs[t * 100 + i]; });
    });
  }
  for (std::thread& thread : threads) thread.join();
  lane.synchronize();
  EXPECT_EQ(runs, std::vector<int>(400, 1));
}

TYPED_TEST_P(DeviceLaws, stamps_tell_when_the_work_between_them_was_done) {
  using Lane = typename TypeParam::Device::Lane;
  Lane lane(*this->device_, "compute");
  const std::vector<std::uint32_t> from(1 << 20, 3);
  const auto to = this->device_->allocate(from.size() * 4, "to");
  const Seconds before = trace::now();
  Seconds begin = 0;
  Seconds end = 0;
  lane.submit([&](Lane& self) {
    self.stamp(begin);
    self.copy(to.data(), from.data(), from.size() * 4, device::Copy::to_device);
    self.stamp(end);
  });
  lane.synchronize();
  EXPECT_LE(before, begin);
  EXPECT_LT(begin, end);
  EXPECT_LE(end, trace::now());
}

TYPED_TEST_P(DeviceLaws, functions_may_be_move_only_and_large) {
  using Lane = typename TypeParam::Device::Lane;
  Lane lane(*this->device_, "compute");
  struct Large {
    std::int64_t values[100];
  } large{};
  large.values[99] = 42;
  std::int64_t small_result = 0;
  std::int64_t large_result = 0;
  auto owned = std::make_shared<int>(7);
  lane.submit(
      [&small_result, p = std::make_unique<int>(41), owned](Lane&) { small_result = *p + 1; });
  lane.submit([&large_result, large](Lane&) { large_result = large.values[99]; });
  lane.synchronize();
  EXPECT_EQ(small_result, 42);
  EXPECT_EQ(large_result, 42);
  EXPECT_EQ(owned.use_count(), 1) << "a function that ran still holds what it captured";
}

TYPED_TEST_P(DeviceLaws, the_destructor_of_a_lane_runs_what_is_queued) {
  using Lane = typename TypeParam::Device::Lane;
  int runs = 0;
  {
    Lane lane(*this->device_, "compute");
    for (int i = 0; i < 100; ++i) lane.submit([&runs](Lane&) { ++runs; });
  }
  EXPECT_EQ(runs, 100);
}

TYPED_TEST_P(DeviceLaws, what_is_copied_to_the_device_comes_back) {
  using Lane = typename TypeParam::Device::Lane;
  Lane lane(*this->device_, "load");
  for (const std::size_t count : {std::size_t{1}, std::size_t{17}, std::size_t{1} << 20}) {
    const auto values = this->pattern(count, 5);
    auto buffer = this->device_->allocate(count * 4, "values");
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(buffer.data()) % 64, 0U);
    this->write(lane, buffer.data(), values);
    EXPECT_EQ(this->read_back(lane, buffer.data(), count), values);
  }
}

TYPED_TEST_P(DeviceLaws, copies_on_the_device_and_zeros_are_exact_to_the_byte) {
  using Lane = typename TypeParam::Device::Lane;
  Lane lane(*this->device_, "compute");
  constexpr std::size_t count = 700'001;  // several pieces, the last one odd
  const auto values = this->pattern(count, 9);
  auto from = this->device_->allocate(count * 4, "from");
  auto to = this->device_->allocate(count * 4, "to");
  this->write(lane, from.data(), values);
  this->write(lane, to.data(), std::vector<std::uint32_t>(count, 1));
  lane.submit([&](Lane& l) {
    l.copy(to.data(), from.data(), (count - 1) * 4, device::Copy::on_device);
    l.fill_zero(from.data(), (count - 1) * 4);
    l.fill_zero(from.data(), 0);
  });
  lane.synchronize();
  auto expected = values;
  expected.back() = 1;
  EXPECT_EQ(this->read_back(lane, to.data(), count), expected);
  std::vector<std::uint32_t> zeros(count, 0);
  zeros.back() = values.back();
  EXPECT_EQ(this->read_back(lane, from.data(), count), zeros);
}

TYPED_TEST_P(DeviceLaws, what_has_left_reads_as_not_a_number_where_the_device_checks) {
  using Lane = typename TypeParam::Device::Lane;
  Lane lane(*this->device_, "compute");
  constexpr std::size_t count = 3000;
  const auto memory = this->device_->allocate(count * sizeof(std::uint32_t), "slots");
  auto expected = this->pattern(count, 7);
  this->write(lane, memory.data(), expected);
  auto* const values = static_cast<std::uint32_t*>(memory.data());
  lane.submit([&](Lane& l) {
    l.poison(values + 1000, 500 * sizeof(std::uint32_t));
    l.poison(values, 0);
  });
  lane.synchronize();
  if (this->device_->options().poison_freed) {
    std::fill_n(expected.begin() + 1000, 500, ~std::uint32_t{0});
  }
  EXPECT_EQ(this->read_back(lane, memory.data(), count), expected);
}

TYPED_TEST_P(DeviceLaws, pinned_memory_is_a_source_and_target_of_copies_outside_the_budget) {
  using Lane = typename TypeParam::Device::Lane;
  auto small = TypeParam::make(1_MiB);
  Lane lane(*small, "load");
  auto pinned = small->allocate_pinned(2_MiB, "staging");
  ASSERT_NE(pinned.data(), nullptr);
  EXPECT_EQ(pinned.bytes(), 2_MiB);
  EXPECT_EQ(small->memory().used, 0U);
  auto buffer = small->allocate(1_KiB, "values");
  auto* const words = static_cast<std::uint32_t*>(pinned.data());
  std::iota(words, words + 256, 3U);
  std::memset(words + 256, 0, 1024);
  lane.submit([&](Lane& l) {
    l.copy(buffer.data(), words, 1024, device::Copy::to_device);
    l.copy(words + 256, buffer.data(), 1024, device::Copy::to_host);
  });
  lane.synchronize();
  EXPECT_EQ(std::memcmp(words, words + 256, 1024), 0);
}

TYPED_TEST_P(DeviceLaws, an_event_counts_completions) {
  using Lane = typename TypeParam::Device::Lane;
  using Event = typename TypeParam::Device::Event;
  Lane lane(*this->device_, "compute");
  Event event(*this->device_);
  EXPECT_TRUE(event.ready(0));
  EXPECT_FALSE(event.ready(1));
  EXPECT_EQ(event.epoch(), 0U);
  for (std::uint64_t round = 1; round <= 20; ++round) {
    bool at_once = true;
    lane.submit([&](Lane& l) {
      l.record(event);
      if constexpr (TypeParam::Device::on_host) at_once = event.ready(round);
    });
    event.synchronize(round);
    lane.synchronize();
    EXPECT_TRUE(at_once);
    EXPECT_TRUE(event.ready(round));
    EXPECT_FALSE(event.ready(round + 1));
    EXPECT_EQ(event.epoch(), round);
  }
}

TYPED_TEST_P(DeviceLaws, a_lane_that_waits_starts_after_the_completion) {
  using Lane = typename TypeParam::Device::Lane;
  using Event = typename TypeParam::Device::Event;
  Lane load(*this->device_, "load", device::Priority::high);
  Lane compute(*this->device_, "compute", device::Priority::normal);
  Event loaded(*this->device_);
  Event used(*this->device_);
  constexpr std::size_t count = 50'000;
  auto slot = this->device_->allocate(count * 4, "slot");
  auto seen = this->device_->allocate(count * 4, "seen");
  std::vector<std::vector<std::uint32_t>> sent;
  std::vector<std::vector<std::uint32_t>> got(30, std::vector<std::uint32_t>(count));
  for (std::uint32_t i = 0; i < 30; ++i) sent.push_back(this->pattern(count, i * 1000));
  // One slot, filled by one lane and read by the other, thirty times; who goes first changes nothing.
  for (std::uint64_t i = 0; i < 30; ++i) {
    load.submit([&, i](Lane& l) {
      l.wait(used, i);
      l.copy(slot.data(), sent[i].data(), count * 4, device::Copy::to_device);
      l.record(loaded);
    });
    compute.submit([&, i](Lane& l) {
      l.wait(loaded, i + 1);
      l.copy(seen.data(), slot.data(), count * 4, device::Copy::on_device);
      l.record(used);
      l.copy(got[i].data(), seen.data(), count * 4, device::Copy::to_host);
    });
  }
  load.synchronize();
  compute.synchronize();
  for (std::size_t i = 0; i < 30; ++i) EXPECT_EQ(got[i], sent[i]) << "round " << i;
}

TYPED_TEST_P(DeviceLaws, a_signal_from_the_host_releases_lanes_that_wait) {
  using Lane = typename TypeParam::Device::Lane;
  using Event = typename TypeParam::Device::Event;
  Event arrived(*this->device_);
  std::atomic<int> released{0};
  Lane first(*this->device_, "first");
  Lane second(*this->device_, "second");
  for (Lane* lane : {&first, &second}) {
    lane->submit([&](Lane& l) { l.wait(arrived, 2); });
    lane->submit([&](Lane&) { released.fetch_add(1); });
  }
  arrived.signal();
  std::this_thread::sleep_for(std::chrono::milliseconds(5));
  EXPECT_FALSE(arrived.ready(2));
  arrived.signal();
  first.synchronize();
  second.synchronize();
  EXPECT_EQ(released.load(), 2);
}

TYPED_TEST_P(DeviceLaws, an_exception_stops_the_lane_until_synchronize_throws_it) {
  using Lane = typename TypeParam::Device::Lane;
  Lane lane(*this->device_, "compute");
  int later = 0;
  lane.submit([](Lane&) { throw std::out_of_range("the third shelf"); });
  lane.submit([&](Lane&) { ++later; });
  try {
    lane.synchronize();
    ADD_FAILURE() << "synchronize() did not throw";
  } catch (const std::out_of_range& error) {
    EXPECT_STREQ(error.what(), "the third shelf");
  }
  EXPECT_EQ(later, 0);
  lane.submit([&](Lane&) { ++later; });
  EXPECT_NO_THROW(lane.synchronize());
  EXPECT_EQ(later, 1);
}

TYPED_TEST_P(DeviceLaws, memory_counts_what_lives_and_remembers_the_peak) {
  auto device = TypeParam::make(0);
  EXPECT_EQ(device->memory().used, 0U);
  auto weights = device->allocate(3000, "weights");
  {
    auto a = device->allocate(500, "activations");
    auto b = device->allocate(700, "activations");
    const device::MemoryReport report = device->memory();
    EXPECT_EQ(report.used, 4200U);
    ASSERT_EQ(report.holders.size(), 2U);
    EXPECT_EQ(report.holders[0], (std::pair<std::string, Bytes>{"weights", 3000}));
    EXPECT_EQ(report.holders[1], (std::pair<std::string, Bytes>{"activations", 1200}));
  }
  EXPECT_EQ(device->memory().used, 3000U);
  EXPECT_EQ(device->memory().peak, 4200U);
  auto moved = std::move(weights);
  EXPECT_EQ(weights.data(), nullptr);  // NOLINT(bugprone-use-after-move)
  EXPECT_EQ(device->memory().used, 3000U);
  moved = {};
  EXPECT_EQ(device->memory().used, 0U);
  EXPECT_EQ(device->memory().peak, 4200U);
  EXPECT_EQ(device->allocate(0, "nothing").bytes(), 0U);
}

TYPED_TEST_P(DeviceLaws, the_budget_is_never_exceeded_and_the_refusal_names_everyone) {
  auto device = TypeParam::make(10'000);
  EXPECT_EQ(device->memory().budget, 10'000U);
  auto weights = device->allocate(6000, "weights of segment 3");
  auto slots = device->allocate(1000, "slots");
  try {
    auto more = device->allocate(3001, "gradients of segment 3");
    ADD_FAILURE() << "the budget was exceeded";
  } catch (const MemoryError& error) {
    const std::string text = error.what();
    for (const char* part : {"gradients of segment 3", "2.93 KiB", "weights of segment 3",
                             "5.86 KiB", "slots", "9.77 KiB", "\n  fix: "}) {
      EXPECT_NE(text.find(part), std::string::npos) << part << " is not in: " << text;
    }
  }
  EXPECT_EQ(device->memory().used, 7000U);
  EXPECT_EQ(device->memory().peak, 7000U);
  auto exactly = device->allocate(3000, "gradients of segment 3");
  EXPECT_EQ(device->memory().used, 10'000U);
  EXPECT_THROW(device->allocate(~Bytes{0}, "everything"), MemoryError);
}

REGISTER_TYPED_TEST_SUITE_P(
    DeviceLaws, a_lane_runs_its_functions_in_the_order_of_submission,
    functions_submitted_from_several_threads_all_run_once,
    stamps_tell_when_the_work_between_them_was_done, functions_may_be_move_only_and_large,
    the_destructor_of_a_lane_runs_what_is_queued, what_is_copied_to_the_device_comes_back,
    copies_on_the_device_and_zeros_are_exact_to_the_byte,
    what_has_left_reads_as_not_a_number_where_the_device_checks,
    pinned_memory_is_a_source_and_target_of_copies_outside_the_budget, an_event_counts_completions,
    a_lane_that_waits_starts_after_the_completion, a_signal_from_the_host_releases_lanes_that_wait,
    an_exception_stops_the_lane_until_synchronize_throws_it,
    memory_counts_what_lives_and_remembers_the_peak,
    the_budget_is_never_exceeded_and_the_refusal_names_everyone);

}  // namespace reef::laws
