#pragma once

#include <cstdint>
#include <exception>

#include <torch/torch.h>

#include <reef/device/host.hpp>

namespace reef {
inline namespace v0 {
namespace torch::detail {

/// Where libtorch computes for a device of Reef's, and how its lanes call libtorch. That of device::Cuda:
/// torch/cuda.hpp.
///
/// | type                | of libtorch's tensors                                                                    |
/// | run(lane, function) | calls function(at::Device) on the lane's thread; what it enqueues keeps the lane's order |
/// | device(options)     | of libtorch, for a device of Reef's with these options                                   |
/// | release()           | gives back memory that libtorch keeps for later and no lane would use                    |
/// | require_settings()  | throws OptionError where operations that give equal bits are not to be had               |
template <class Device>
struct Place;

template <>
struct Place<device::Host> {
  static constexpr c10::DeviceType type = c10::kCPU;

  template <class F>
  static void run(device::Host::Lane& lane, const F& function) {
    lane.parallel(1, [&](std::int64_t /*part*/) { function(at::Device(type)); });
  }
  static at::Device device(const device::Host::Options& /*options*/) { return type; }
  static void release() {}
  static void require_settings() {}
};

/// A device of Reef's that libtorch computes on.
template <class Device>
concept has_place = requires { Place<Device>::type; };

/// When it goes, memory that libtorch has taken on this device and keeps for later is given back, unless that is the
/// host.
template <class Device>
class Released {
public:
  explicit Released(at::Device where) : where_(where) {}
  Released(const Released&) = delete;
  Released& operator=(const Released&) = delete;
  ~Released() {
    if (where_.is_cpu()) return;
    try {
      Place<Device>::release();
    } catch (const std::exception&) {
      // The GPU has failed, and whoever uses it next is told.
    }
  }

private:
  at::Device where_;
};

/// While it lives, libtorch refuses operations of a GPU that may give other bits at a second call. Of the whole
/// process.
class Deterministic {
public:
  explicit Deterministic(bool wanted) : wanted_(wanted) {
    if (wanted_) set({true, false, true, false, false});
  }
  Deterministic(const Deterministic&) = delete;
  Deterministic& operator=(const Deterministic&) = delete;
  ~Deterministic() {
    if (wanted_) set(before_);
  }

private:
  struct Settings {
    bool algorithms;
    bool warns;         ///< rather than refuses
    bool convolutions;  ///< are deterministic
    bool tries;         ///< which convolution is the fastest
    bool fills;         ///< memory that is not initialised, by a kernel more
  };

  static Settings now() {
    const at::Context& context = at::globalContext();
    return {context.deterministicAlgorithms(), context.deterministicAlgorithmsWarnOnly(), context.deterministicCuDNN(),
            context.benchmarkCuDNN(), fills(context)};
  }

  static void set(const Settings& settings) {
    at::Context& context = at::globalContext();
    context.setDeterministicAlgorithms(settings.algorithms, settings.warns);
    context.setDeterministicCuDNN(settings.convolutions);
    context.setBenchmarkCuDNN(settings.tries);
    fill(context, settings.fills);
  }

  // libtorch 2.2 and later.
  static bool fills(const auto& context) {
    if constexpr (requires { context.deterministicFillUninitializedMemory(); })
      return context.deterministicFillUninitializedMemory();
    return false;
  }
  static void fill(auto& context, bool fills) {
    if constexpr (requires { context.setDeterministicFillUninitializedMemory(fills); })
      context.setDeterministicFillUninitializedMemory(fills);
  }

  bool wanted_;
  Settings before_ = now();
};

}  // namespace torch::detail
}  // namespace v0
}  // namespace reef
