#pragma once

#include <string_view>

#include <reef/core/error.hpp>

namespace reef {
inline namespace v0 {
namespace optim::detail {

/// Throws OptionError unless it holds: "reef::optim::AdamW: beta1 is 1.", and what it may be.
template <class T>
void require_option(bool holds, std::string_view of, std::string_view option, T value,
                    std::string_view range) {
  if (holds) return;
  throw OptionError("reef::optim::", of, ": ", option, " is ", value, ".\n  fix: ", range, ".");
}

}  // namespace optim::detail
}  // namespace v0
}  // namespace reef
