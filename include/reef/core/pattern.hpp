#pragma once

#include <string_view>

namespace reef {
inline namespace v0 {

/// Returns true if a name fits a pattern: * stands for any characters, also none, and ? for one.
///
/// \code
/// const bool is_bias = fits_pattern("*.bias", "transformer.h.0.ln_1.bias");
/// \endcode
bool fits_pattern(std::string_view pattern, std::string_view name);

}  // namespace v0
}  // namespace reef

#ifndef REEF_COMPILED
#include <reef/core/pattern.ipp>
#endif
