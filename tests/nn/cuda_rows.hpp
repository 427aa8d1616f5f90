#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include <reef/core/random.hpp>
#include <reef/device/cuda.hpp>
#include <reef/device/host.hpp>
#include <reef/graph/rows.hpp>

/// Kernels for rows on Cuda, and on the host.
namespace reef::test {

using device::Cuda;
using device::Host;

inline const std::vector<graph::WeightForm>& weight_forms() {
  using enum graph::WeightForm;
  static const std::vector<graph::WeightForm> all = {as_given, bf16, int8, blockwise8, nf4};
  return all;
}

/// Numbers from -0.5 to 0.5, of which each seventh is small.
template <class T>
std::vector<T> drawn(std::int64_t count, std::uint64_t seed) {
  std::vector<T> result;
  for (std::int64_t i = 0; i < count; ++i) {
    const double value = uniform({.seed = seed}, static_cast<std::uint64_t>(i)) - 0.5;
    result.push_back(T(static_cast<float>(i % 7 == 0 ? 0.001 * value : value)));
  }
  return result;
}

/// A device with a lane, whose memory is copied from and to vectors. Each allocation lives as long as this.
template <class Device>
class RowsOn {
public:
  explicit RowsOn(typename Device::Options options = {}) : device_(options), lane_(device_, "rows") {}

  /// Returns memory of so many bytes, which are zeros.
  void* memory(Bytes bytes) {
    buffers_.push_back(device_.allocate(bytes, "rows"));
    void* const data = buffers_.back().data();
    run([&](auto& lane) { lane.fill_zero(data, bytes); });
    return data;
  }
  template <class T>
  T* put(const std::vector<T>& values) {
    const Bytes bytes = values.size() * sizeof(T);
    T* const data = static_cast<T*>(memory(bytes));
    run([&](auto& lane) { lane.copy(data, values.data(), bytes, device::Copy::to_device); });
    return data;
  }
  template <class T>
  std::vector<T> get(const void* from, std::size_t count) {
    std::vector<T> values(count);
    run([&](auto& lane) { lane.copy(values.data(), from, count * sizeof(T), device::Copy::to_host); });
    return values;
  }
  /// Runs a function of the lane.
  template <class F>
  void run(const F& function) {
    lane_.submit([&](typename Device::Lane& lane) { function(lane); });
    lane_.synchronize();
  }

private:
  Device device_;
  typename Device::Lane lane_;
  std::vector<typename Device::Buffer> buffers_;
};

/// Skips where there is no device.
template <class T>
class CudaRows : public testing::Test {
protected:
  void SetUp() override {
    std::string why;
    if (!device::cuda_available(&why)) GTEST_SKIP() << why;
  }
};

}  // namespace reef::test
