#include <reef/device/cuda.hpp>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include <laws/device.hpp>

namespace reef {
namespace {

using device::Copy;
using device::Cuda;

struct CudaModel {
  using Device = Cuda;
  static std::optional<std::string> unavailable() {
    std::string why;
    if (device::cuda_available(&why)) return std::nullopt;
    return why;
  }
  static std::unique_ptr<Cuda> make(Bytes memory_bytes) {
    return std::make_unique<Cuda>(
        Cuda::Options{.memory_bytes = memory_bytes, .poison_freed = true});
  }
};

}  // namespace

namespace laws {
INSTANTIATE_TYPED_TEST_SUITE_P(Cuda, DeviceLaws, CudaModel);
}  // namespace laws

namespace {

class CudaDevice : public testing::Test {
protected:
  void SetUp() override {
    if (const auto why = CudaModel::unavailable()) GTEST_SKIP() << *why;
  }
};

TEST(CudaAvailability, says_what_is_missing_where_no_device_answers) {
  std::string why = "untouched";
  const bool available = device::cuda_available(&why);
  EXPECT_EQ(device::cuda_available(), available);
  if (available) {
    EXPECT_EQ(why, "untouched");
    return;
  }
  EXPECT_NE(why.find("device"), std::string::npos) << why;
  try {
    const Cuda cuda;
    ADD_FAILURE() << "a device was made that does not answer";
  } catch (const device::CudaError& error) {
    EXPECT_NE(std::string(error.what()).find(why), std::string::npos) << error.what();
    EXPECT_NE(error.code(), 0);
  }
}

TEST_F(CudaDevice, an_ordinal_that_is_not_there_is_refused_by_number) {
  try {
    const Cuda cuda(Cuda::Options{.ordinal = 12345});
    ADD_FAILURE() << "device 12345 was made";
  } catch (const device::CudaError& error) {
    const std::string text = error.what();
    EXPECT_NE(text.find("12345"), std::string::npos) << text;
    EXPECT_NE(text.find("cudaGetDeviceProperties"), std::string::npos) << text;
    EXPECT_EQ(error.code(), static_cast<int>(cudaErrorInvalidDevice));
  }
}

TEST_F(CudaDevice, the_drivers_counter_agrees_with_its_own) {
  Cuda cuda;
  const auto free_now = [] {
    std::size_t free = 0;
    std::size_t all = 0;
    EXPECT_EQ(cudaMemGetInfo(&free, &all), cudaSuccess);
    return free;
  };
  Cuda::Lane lane(cuda, "compute");  // whatever the driver takes at first
  lane.synchronize();
  const std::size_t before = free_now();
  const auto buffer = cuda.allocate(Bytes{256} << 20, "weights");
  const std::size_t after = free_now();
  ASSERT_LE(after, before);
  const std::size_t taken = before - after;
  EXPECT_EQ(cuda.memory().used, Bytes{256} << 20);
  EXPECT_GE(taken, std::size_t{256} << 20);
  EXPECT_LE(taken, std::size_t{258} << 20) << "at most a granule of 2 MiB more";
}

TEST_F(CudaDevice, a_failed_call_stops_the_lane_and_names_call_code_and_device) {
  Cuda cuda;
  Cuda::Lane lane(cuda, "compute");
  auto buffer = cuda.allocate(64, "target");
  lane.submit([&](Cuda::Lane& l) { l.fill_zero(buffer.data(), ~Bytes{0} / 2); });
  try {
    lane.synchronize();
    ADD_FAILURE() << "the call did not fail";
  } catch (const device::CudaError& error) {
    const std::string text = error.what();
    for (const char* part : {"cudaMemsetAsync", "cudaError", "CUDA device 0"}) {
      EXPECT_NE(text.find(part), std::string::npos) << part << " is not in: " << text;
    }
  }
  // A refused call leaves the context usable.
  lane.submit([&](Cuda::Lane& l) { l.fill_zero(buffer.data(), 64); });
  EXPECT_NO_THROW(lane.synchronize());
}

TEST_F(CudaDevice, an_event_is_recorded_far_ahead_of_those_who_ask_for_early_completions) {
  Cuda cuda;
  Cuda::Lane compute(cuda, "compute");
  Cuda::Lane evict(cuda, "evict");
  Cuda::Event done(cuda);
  constexpr Bytes bytes = Bytes{8} << 20;
  auto from = cuda.allocate(bytes, "from");
  auto to = cuda.allocate(bytes, "to");
  for (int i = 0; i < 200; ++i) {
    compute.submit([&](Cuda::Lane& lane) {
      lane.copy(to.data(), from.data(), bytes, Copy::on_device);
      lane.record(done);
    });
  }
  // Many more than the event's places: each is asked for by another lane and by this thread.
  for (std::uint64_t epoch = 1; epoch <= 200; epoch += 3) {
    evict.submit([&, epoch](Cuda::Lane& lane) { lane.wait(done, epoch); });
    done.synchronize(epoch);
    EXPECT_TRUE(done.ready(epoch));
    EXPECT_GE(done.epoch(), epoch);
    EXPECT_LE(done.epoch(), 200U);
  }
  compute.synchronize();
  evict.synchronize();
  EXPECT_EQ(done.epoch(), 200U);
}

TEST_F(CudaDevice, an_event_behind_a_copy_says_when_its_source_may_be_reused) {
  Cuda cuda;
  Cuda::Lane lane(cuda, "load");
  constexpr Bytes bytes = Bytes{64} << 20;
  auto pinned = cuda.allocate_pinned(bytes, "staging");
  auto buffer = cuda.allocate(bytes, "weights");
  auto* const words = static_cast<std::uint32_t*>(pinned.data());
  for (std::size_t i = 0; i < bytes / 4; ++i) words[i] = static_cast<std::uint32_t>(i);
  Cuda::Event copied(cuda);
  lane.submit([&](Cuda::Lane& l) {
    l.copy(buffer.data(), words, bytes, Copy::to_device);
    l.record(copied);
  });
  copied.synchronize(1);
  for (std::size_t i = 0; i < bytes / 4; ++i) words[i] = 0;
  lane.submit([&](Cuda::Lane& l) { l.copy(words, buffer.data(), bytes, Copy::to_host); });
  lane.synchronize();
  std::size_t wrong = 0;
  for (std::size_t i = 0; i < bytes / 4; ++i) wrong += words[i] != static_cast<std::uint32_t>(i);
  EXPECT_EQ(wrong, 0U);
}

}  // namespace
}  // namespace reef
