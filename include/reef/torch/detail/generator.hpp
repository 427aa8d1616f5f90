#pragma once

#include <cstdint>
#include <mutex>

#include <torch/torch.h>

#include <reef/core/language.hpp>

namespace reef::inline v0::torch::detail {

/// While it lives, this thread alone draws from libtorch's default generator, which begins with this seed. Then the generator
/// is as before. Who holds one waits for no other thread that may want one.
class DefaultGenerator {
public:
  explicit DefaultGenerator(std::uint64_t seed)
      : lock_(mutex()), generator_(at::detail::getDefaultCPUGenerator()), state_(generator_.get_state()) {
    generator_.set_current_seed(seed);
  }
  DefaultGenerator(const DefaultGenerator&) = delete;
  DefaultGenerator& operator=(const DefaultGenerator&) = delete;
  ~DefaultGenerator() { generator_.set_state(state_); }

private:
  static std::mutex& mutex() {
    static std::mutex one;  // the default generator is one of the process
    return one;
  }

  std::scoped_lock<std::mutex> lock_;
  at::Generator generator_;
  at::Tensor state_;
};

}  // namespace reef::inline v0::torch::detail
