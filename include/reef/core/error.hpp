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

/// A zero byte, out of a file that is quoted, would end what(), and the fix is said last.
std::string without_zeros(std::string text);

}  // namespace detail

/// The root of everything that Reef throws. The text says what happened, why, and the fix; it is
/// given in pieces: throw OptionError("n is ", n, ", at least 1.").
///
/// Each folder derives its own: `MpiError` in comm/, `CudaError` in device/. An error's comment
/// states what the object that threw it is worth afterwards: unchanged, unspecified or unusable.
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

/// What other code has thrown, an operator or a function that was given, of any type: the text says where, and what it said.
class CausedError : public Error {
public:
  template <class... Pieces>
  explicit CausedError(std::exception_ptr cause, const Pieces&... pieces) : Error(pieces...), cause_(std::move(cause)) {}

  /// What was thrown itself, for those who act by its type: `std::rethrow_exception(error.cause())`.
  [[nodiscard]] std::exception_ptr cause() const noexcept { return cause_; }

private:
  std::exception_ptr cause_;
};

/// An option, argument or environment variable that cannot be used. Nothing was changed.
class OptionError : public Error {
public:
  using Error::Error;
};

/// A file or a message that does not mean what its reader needs. The reader's target is unchanged.
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

/// Memory that is not to be had: who asked for how much, and what holds the rest. Nothing was
/// allocated.
class MemoryError : public Error {
public:
  using Error::Error;
};

/// A set of programs that would deadlock, use a value that is not there, or exceed a memory.
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
