#pragma once

#include <cstdint>
#include <exception>
#include <mutex>
#include <optional>
#include <utility>

#include <torch/torch.h>

#include <reef/core/config.hpp>
#include <reef/core/language.hpp>

namespace reef {
inline namespace v0 {
namespace torch::detail {

/// While it lives, one thread at a time draws from libtorch's default generators, of the host and of this device, which
/// begin with this seed. Then they are as before. Who holds one waits for no other thread that may want one.
class DefaultGenerator {
public:
  explicit DefaultGenerator(std::uint64_t seed, at::Device device = at::kCPU)
      : lock_(mutex()), host_(at::globalContext().defaultGenerator(at::kCPU), seed) {
    if (!device.is_cpu()) device_.emplace(at::globalContext().defaultGenerator(device), seed);
  }
  DefaultGenerator(const DefaultGenerator&) = delete;
  DefaultGenerator& operator=(const DefaultGenerator&) = delete;

private:
  class Begun {
  public:
    Begun(at::Generator generator, std::uint64_t seed)
        : generator_(std::move(generator)), state_(generator_.get_state()) {
      generator_.set_current_seed(seed);
    }
    Begun(const Begun&) = delete;
    Begun& operator=(const Begun&) = delete;
    ~Begun() {
      try {
        generator_.set_state(state_);
      } catch (const std::exception&) {
        // A kernel has failed, and so does all else on that GPU: what told it is under way.
      }
    }

  private:
    at::Generator generator_;
    at::Tensor state_;  ///< before
  };

  REEF_OF_THE_PROCESS static std::mutex& mutex() {
    static std::mutex one;  // the default generators are the process's
    return one;
  }

  std::scoped_lock<std::mutex> lock_;
  Begun host_;
  std::optional<Begun> device_;
};

}  // namespace torch::detail
}  // namespace v0
}  // namespace reef
