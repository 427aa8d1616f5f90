#pragma once

#include <concepts>
#include <exception>
#include <initializer_list>
#include <stdexcept>
#include <utility>

#include <reef/core/text.hpp>

namespace reef {
inline namespace v0 {

/// The base class of all errors that Reef throws. The text says what happened, why, and how to fix it; the
/// constructor concatenates it from pieces: throw OptionError("n is ", n, ", at least 1.").
///
/// Folders of the library derive their own classes: `MpiError` in comm/, `CudaError` in device/. The comment
/// of an error class says in which state the object that threw it is left: unchanged, unspecified or unusable.
///
/// \code
/// // given: int batch
/// if (batch < 1) throw OptionError("my-program: --batch is ", batch, ".\n  fix: 1 or more.");
/// \endcode
class Error : public std::runtime_error {
public:
  template <class... Pieces>
    requires(sizeof...(Pieces) > 0 && (std::constructible_from<TextPiece, const Pieces&> && ...))
  explicit Error(const Pieces&... pieces) : Error(std::initializer_list<TextPiece>{TextPiece(pieces)...}) {}

private:
  // Makes the text out of line: hundreds of places throw, and each would compile the temporary strings again.
  explicit Error(std::initializer_list<TextPiece> pieces);
};

/// An error that wraps an exception of any type from other code, such as an operator or
/// a function of the user: the text names that code and quotes the exception's text.
class CausedError : public Error {
public:
  template <class... Pieces>
  explicit CausedError(std::exception_ptr cause, const Pieces&... pieces)
      : Error(pieces...), cause_(std::move(cause)) {}

  /// Returns the original exception, for callers who act by its type: `std::rethrow_exception(error.cause())`.
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

/// A request for memory that cannot be met: the text names who asked,
/// how much, and what occupies the rest. Nothing was allocated.
class MemoryError : public Error {
public:
  using Error::Error;
};

/// A set of programs, one for each rank (schedule::Program), that would deadlock, use a value
/// that does not exist, or exceed the capacity of a memory. Thrown before anything starts.
class ScheduleError : public Error {
public:
  using Error::Error;
};

/// A loss, gradient or logit that is NaN or infinite: the text names the first such tensor, the rank and the
/// step. The weights are those of the last committed step; if those are not finite themselves, the text says so.
class NonFiniteError : public Error {
public:
  using Error::Error;
};

}  // namespace v0
}  // namespace reef

#ifndef REEF_COMPILED
#include <reef/core/error.ipp>
#endif
