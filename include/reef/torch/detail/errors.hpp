#pragma once

#include <exception>
#include <string>

#include <c10/util/Exception.h>

#include <reef/core/error.hpp>

namespace reef {
inline namespace v0 {
namespace torch::detail {

/// What an exception of any type says; one of libtorch without the stack.
inline std::string words_of(const std::exception_ptr& thrown) {
  try {
    std::rethrow_exception(thrown);
  } catch (const c10::Error& error) {
    return error.what_without_backtrace();
  } catch (const std::exception& error) {
    return error.what();
  } catch (...) {
    return "it has thrown what is no std::exception.";
  }
}

/// A GPU has no room left.
inline bool is_of_memory(const std::exception_ptr& thrown) {
  try {
    std::rethrow_exception(thrown);
  } catch (const c10::OutOfMemoryError&) {
    return true;
  } catch (...) {
    return false;
  }
}

/// A module that cannot be a node because of what crosses into it, or out of it. Together with the module before it, or
/// behind it, it may be one.
class BoundaryError : public ShapeError {
public:
  enum class Side { input, output };

  template <class... Pieces>
  explicit BoundaryError(Side side, const Pieces&... pieces) : ShapeError(pieces...), side_(side) {}

  [[nodiscard]] Side side() const noexcept { return side_; }

private:
  Side side_;
};

}  // namespace torch::detail
}  // namespace v0
}  // namespace reef
