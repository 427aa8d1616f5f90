#pragma once

#include <array>
#include <cstddef>
#include <string>
#include <string_view>

#include <reef/core/inline.hpp>
#include <reef/core/text.hpp>
#include <reef/run/plan_of_optim.hpp>

namespace reef {
inline namespace v0 {
namespace run {

REEF_INLINE std::string OuterSchedule::text() const {
  constexpr std::array<std::string_view, 3> names{"none", "mix", "eager"};
  return concat("every ", every, " steps in ", fragments, " fragments, overlap ",
                names[static_cast<std::size_t>(overlap)]);
}

}  // namespace run
}  // namespace v0
}  // namespace reef
