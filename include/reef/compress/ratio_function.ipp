#pragma once

#include <reef/compress/ratio_function.hpp>
#include <reef/core/finite.hpp>
#include <reef/core/inline.hpp>

namespace reef {
inline namespace v0 {
namespace compress {

REEF_INLINE RatioFunction::Ratio RatioFunction::at(const CodedMessages& messages, std::int64_t step) const {
  const Ratio chosen = by_step_(messages, step);
  if (!chosen || within(*chosen, least, detail::max_ratio)) return chosen;
  throw OptionError("reef::compress::RatioFunction: in the step after ", step, " committed ones ",
                    schedule::name_of(messages.traffic), " ", messages.index,
                    " is to have the ratio ", *chosen,
                    ".\n  why: messages have room for ratios from ", least,
                    " on.\n  state: nothing of that step has run.\n  fix: a ratio from ", least,
                    " to ", detail::max_ratio,
                    ", or nothing for what it has else; options.compress.choose.least is what "
                    "ratios begin with.");
}

REEF_INLINE void RatioFunction::validate() const {
  if (within(least, 1, detail::max_ratio)) return;
  throw OptionError("reef::compress::RatioFunction: the least ratio is ", least,
                    ".\n  fix: from 1, at which all numbers are sent, to ", detail::max_ratio,
                    ".");
}

}  // namespace compress
}  // namespace v0
}  // namespace reef
