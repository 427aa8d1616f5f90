#pragma once

#include <memory>
#include <utility>

#include <reef/core/units.hpp>

namespace reef {
inline namespace v0 {
namespace device::detail {

/// Memory that is freed when this goes: by a Free, which has its bytes. Moved from, it is empty.
template <class Free>
class Owned {
public:
  Owned() = default;

  [[nodiscard]] void* data() const& { return memory_.get(); }
  void data() const&& = delete;
  [[nodiscard]] Bytes bytes() const { return memory_ ? memory_.get_deleter().bytes : 0; }

protected:
  Owned(void* data, Free free) : memory_(data, std::move(free)) {}

private:
  std::unique_ptr<void, Free> memory_;
};

}  // namespace device::detail
}  // namespace v0
}  // namespace reef
