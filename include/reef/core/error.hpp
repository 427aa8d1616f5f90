#pragma once

#include <concepts>
#include <exception>
#include <stdexcept>
#include <string>
#include <utility>

#include <reef/core/text.hpp>

namespace reef {
inline namespace v0 {

namespace detail {

/// Returns the text without zero bytes, such as a quoted file may have: one would end what() before the fix.
std::string without_zeros(std::string text);

}  // namespace detail

/// The base class of all errors that Reef throws. The text says what happened, why, and the fix; it is
/// given in pieces: throw OptionError("n is ", n, ", at least 1.").
///
/// Folders derive their own: `MpiError` in comm/, `CudaError` in device/. An error's comment states in
/// which state it leaves the object that threw it: unchanged, unspecified or unusable.
///
/// \code
/// // given: int batch
/// if (batch < 1) throw OptionError("my-program: --batch is ", batch, ".\n  fix: 1 or more.");
/// \endcode
class Error : public std::runtime_error {
public:
  template <class... Pieces>
    requires(sizeof...(Pieces) > 0 && (std::constructible_from<TextPiece, const Pieces&> && ...))
  explicit Error(const Pieces&... pieces)
      : std::runtime_error(detail::without_zeros(concat(pieces...))) {}
};

/// An exception of any type from other code, an operator or a function of the user's: the text says where it came from, and
/// its own text.
class CausedError : public Error {
public:
  template <class... Pieces>
  explicit CausedError(std::exception_ptr cause, const Pieces&... pieces) : Error(pieces...), cause_(std::move(cause)) {}

  /// The original exception, for callers who act by its type: `std::rethrow_exception(error.cause())`.
  [[nodiscard]] std::exception_ptr cause() const noexcept { return cause_; }

private:
  std::exception_ptr cause_;
};

/// An option, argument or environment variable that cannot be used. Nothing was changed.
class OptionError : public Error {
public:
  using Error::Error;
};

/// A file or a message whose content its reader cannot accept. The reader's target is unchanged.
class DecodeError : public Error {
public:
  using Error::Error;
};

/// A file that cannot be opened, read, written or renamed. Existing files are unchanged.
class FileError : public Error {
public:
  using Error::Error;
};

/// Shapes, element types or names of a graph that do not fit together. The graph is unchanged.
class ShapeError : public Error {
public:
  using Error::Error;
};

/// A request for memory that cannot be met: who asked for how much, and what holds the rest. Nothing was
/// allocated.
class MemoryError : public Error {
public:
  using Error::Error;
};

/// A set of programs that would deadlock, use a value that does not exist, or exceed a memory.
/// Thrown before anything starts.
class ScheduleError : public Error {
public:
  using Error::Error;
};

/// A loss, gradient or logit that is NaN or infinite: the first tensor, the rank and the step. The
/// weights are those of the last committed step; if those are not finite themselves, the text says so.
class NonFiniteError : public Error {
public:
  using Error::Error;
};

}  // namespace v0
}  // namespace reef

#ifndef REEF_COMPILED
#include <reef/core/error.ipp>
#endif
