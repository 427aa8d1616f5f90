#pragma once

#include <exception>
#include <string_view>
#include <thread>
#include <utility>

#include <reef/core/error.hpp>

namespace reef {
inline namespace v0 {

/// Starts a thread that runs `function`. Throws OptionError, naming `who`, where the system cannot start another.
///
/// \code
/// std::thread loader = make_thread("my-program: the loader", [] { /* reads ahead */ });
/// loader.join();
/// \endcode
template <class Function>
[[nodiscard]] std::thread make_thread(std::string_view who, Function function) {
  try {
    return std::thread(std::move(function));
  } catch (const std::exception& error) {
    throw OptionError(who, " gets no thread: ", error.what(),
                      ".\n  fix: fewer threads, or a higher limit (ulimit -u, -v).");
  }
}

}  // namespace v0
}  // namespace reef
