#pragma once

#include <cstdint>

#include <torch/torch.h>

#include <reef/device/host.hpp>

namespace reef::inline v0::torch::detail {

/// Where libtorch computes for a device of Reef's, and how its lanes call libtorch. That of device::Cuda: torch/cuda.hpp.
///
/// | type                | of libtorch's tensors                                                              |
/// | run(lane, function) | calls function(at::Device) on the lane's thread; what it enqueues keeps the lane's order |
template <class Device>
struct Place;

template <>
struct Place<device::Host> {
  static constexpr c10::DeviceType type = c10::kCPU;

  template <class F>
  static void run(device::Host::Lane& lane, const F& function) {
    lane.parallel(1, [&](std::int64_t /*part*/) { function(at::Device(type)); });
  }
};

/// A device of Reef's that libtorch computes on.
template <class Device>
concept has_place = requires { Place<Device>::type; };

/// While it lives, libtorch refuses operations of a GPU that may give other bits at a second call. Of the whole process.
class Deterministic {
public:
  explicit Deterministic(bool wanted) : wanted_(wanted) {
    if (wanted_) set(true, false, true, false);
  }
  Deterministic(const Deterministic&) = delete;
  Deterministic& operator=(const Deterministic&) = delete;
  ~Deterministic() {
    if (wanted_) set(algorithms_, warns_, convolutions_, tries_);
  }

private:
  static void set(bool algorithms, bool warns, bool convolutions, bool tries) {
    at::globalContext().setDeterministicAlgorithms(algorithms, warns);
    at::globalContext().setDeterministicCuDNN(convolutions);
    at::globalContext().setBenchmarkCuDNN(tries);
  }

  bool wanted_;
  // As they were before.
  bool algorithms_ = at::globalContext().deterministicAlgorithms();
  bool warns_ = at::globalContext().deterministicAlgorithmsWarnOnly();
  bool convolutions_ = at::globalContext().deterministicCuDNN();
  bool tries_ = at::globalContext().benchmarkCuDNN();
};

}  // namespace reef::inline v0::torch::detail
