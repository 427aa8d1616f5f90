#pragma once

#include <cstdint>
#include <mutex>
#include <vector>

#include <torch/torch.h>

#include <reef/core/language.hpp>

namespace reef::inline v0::torch::detail {

/// While it lives, this thread alone draws from libtorch's default generators, of the host and of this device, which begin
/// with this seed. Then they are as before. Who holds one waits for no other thread that may want one.
class DefaultGenerator {
public:
  explicit DefaultGenerator(std::uint64_t seed, at::Device device = at::kCPU) : lock_(mutex()) {
    begin(at::globalContext().defaultGenerator(at::kCPU), seed);
    if (device.type() != at::kCPU) begin(at::globalContext().defaultGenerator(device), seed);
  }
  DefaultGenerator(const DefaultGenerator&) = delete;
  DefaultGenerator& operator=(const DefaultGenerator&) = delete;
  ~DefaultGenerator() {
    for (Generator& each : generators_) each.generator.set_state(each.state);
  }

private:
  struct Generator {
    at::Generator generator;
    at::Tensor state;  ///< before
  };

  void begin(at::Generator generator, std::uint64_t seed) {
    generators_.push_back({generator, generator.get_state()});
    generator.set_current_seed(seed);
  }

  static std::mutex& mutex() {
    static std::mutex one;  // the default generator is one of the process
    return one;
  }

  std::scoped_lock<std::mutex> lock_;
  std::vector<Generator> generators_;
};

}  // namespace reef::inline v0::torch::detail
