#pragma once

#include <exception>
#include <string>
#include <utility>

#include <c10/util/Exception.h>

#include <reef/core/error.hpp>

namespace reef::inline v0::torch {

/// What the function that gives batches, or that of their weights, has thrown: the rank, the micro-batch, and its words. Of the
/// step nothing is known.
class BatchError : public Error {
public:
  template <class... Pieces>
  explicit BatchError(std::exception_ptr cause, const Pieces&... pieces) : Error(pieces...), cause_(std::move(cause)) {}

  /// What the function threw itself: `std::rethrow_exception(error.cause())`.
  [[nodiscard]] const std::exception_ptr& cause() const noexcept { return cause_; }

private:
  std::exception_ptr cause_;
};

namespace detail {

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

}  // namespace detail
}  // namespace reef::inline v0::torch
