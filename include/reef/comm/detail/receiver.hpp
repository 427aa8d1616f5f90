#pragma once

#include <cstdint>

#include <reef/comm/meter.hpp>
#include <reef/core/units.hpp>

namespace reef {
inline namespace v0 {
namespace comm::detail {

/// Is told when a message that it posted is done. Called on the progress thread; may post more.
class Receiver {
public:
  virtual void delivered(std::uint64_t token) = 0;

  /// Where its messages are counted beside the meter.
  void count_in(Cost& sent) { sent_ = &sent; }
  void count(Bytes bytes) {
    if (sent_ != nullptr) *sent_ = *sent_ + Cost{1, bytes, 0};
  }

protected:
  ~Receiver() = default;

private:
  Cost* sent_ = nullptr;
};

}  // namespace comm::detail
}  // namespace v0
}  // namespace reef
