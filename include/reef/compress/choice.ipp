#pragma once

#include <reef/compress/choice.hpp>
#include <reef/core/finite.hpp>
#include <reef/core/inline.hpp>

namespace reef {
inline namespace v0 {
namespace compress {

REEF_INLINE Choice::Ratio Choice::at(const Carried& carried, std::int64_t step) const {
  const Ratio chosen = by_step_(carried, step);
  if (!chosen || within(*chosen, least, detail::most_ratio)) return chosen;
  throw OptionError("reef::compress::Choice: in the step after ", step, " committed ones ",
                    schedule::name_of(carried.traffic), " ", carried.index,
                    " is to have the ratio ", *chosen,
                    ".\n  why: messages have room for ratios from ", least,
                    " on.\n  state: nothing of that step has run.\n  fix: a ratio from ", least,
                    " to ", detail::most_ratio,
                    ", or nothing for what it has else; options.compress.choose.least is what "
                    "ratios begin with.");
}

REEF_INLINE void Choice::validate() const {
  if (within(least, 1, detail::most_ratio)) return;
  throw OptionError("reef::compress::Choice: the least ratio is ", least,
                    ".\n  fix: from 1, at which all numbers are sent, to ", detail::most_ratio,
                    ".");
}

}  // namespace compress
}  // namespace v0
}  // namespace reef
