#pragma once

#include <reef/core/inline.hpp>
#include <reef/nn/class_head.hpp>

namespace reef {
inline namespace v0 {
namespace nn {

REEF_INLINE void ClassHead::validate() const {
  if (classes >= 1 && classes <= most) return;
  throw OptionError("reef::nn::ClassHead: classes is ", classes, ".\n  fix: 1 to ", most, ".");
}

REEF_INLINE bool is_of_class_head(std::string_view parameter) { return parameter == "score.weight"; }

}  // namespace nn
}  // namespace v0
}  // namespace reef
