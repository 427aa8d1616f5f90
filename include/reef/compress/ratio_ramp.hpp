#pragma once

#include <algorithm>
#include <cstdint>

#include <reef/codec/adjust.hpp>
#include <reef/codec/concept.hpp>
#include <reef/core/error.hpp>
#include <reef/core/units.hpp>

namespace reef {
inline namespace v0 {
namespace compress {

/// A gradual increase of compression ratios at the beginning of a training: the ratio grows fourfold at a time, from
/// `from` to the codec's own ratio, over `steps` committed steps. Weights change fastest then, and numbers left out of
/// one message are out of date in the next.
///
/// \code
/// const compress::RatioRamp ramp{.steps = 400, .from = 1};
/// const double first = ramp.ratio(0, 100);   // 1, then 4, 16, 64 for 100 steps each
/// const double last = ramp.ratio(400, 100);  // 100
/// \endcode
///
/// | where  | tensors between stages, gradients and weights; not pseudo-gradients, nor a ratio that Options::choose |
/// |        | returns for a step                                                                                    |
/// | cost   | programs have room for the longest messages of the ramp, and count their bytes; those sent may be     |
/// |        | shorter                                                                                               |
/// | errors | OptionError, when a Trainer is made, for `from` below 1 or steps below 0                              |
///
/// Source: Lin et al., Deep Gradient Compression, arXiv 1712.01887, section 3.3.
struct RatioRamp {
  std::int64_t steps = 0;  ///< number of committed steps over which the ratio grows; 0: it does not
  double from = 1;

  /// Returns the compression ratio after `committed` steps for a codec of ratio `own`; exact on every machine, as both
  /// ends need.
  [[nodiscard]] double ratio(std::int64_t committed, double own) const {
    std::int64_t stages = 0;
    for (double reached = from; reached < own; reached *= 4) ++stages;
    if (committed >= steps || stages == 0) return own;
    double reached = from;
    for (std::int64_t stage = committed * stages / steps; stage > 0; --stage) reached *= 4;
    return (std::min)(reached, own);
  }

  /// Returns the codec with its compression ratio after `committed` steps; a codec without a ratio is returned
  /// unchanged.
  template <codec::any_codec C>
  [[nodiscard]] C at(std::int64_t committed, C format) const {
    if constexpr (codec::has_ratio<C>) {
      if (committed < steps && codec::takes_ratio(format)) {
        return codec::with_ratio(format, ratio(committed, codec::ratio_of(format)));
      }
    }
    return format;
  }

  /// Returns the most bytes that a message of n numbers takes while the ratio grows: fewer numbers may take more bytes,
  /// with their indices.
  template <codec::any_codec C>
  [[nodiscard]] Bytes max_bytes(const C& format, std::int64_t n) const {
    Bytes most = format.encoded_bytes(n);
    if constexpr (codec::has_ratio<C>) {
      if (steps == 0 || !codec::takes_ratio(format)) return most;
      for (double reached = from; reached < codec::ratio_of(format); reached *= 4) {
        most = (std::max)(most, codec::with_ratio(format, reached).encoded_bytes(n));
      }
    }
    return most;
  }

  void validate() const {
    if (from >= 1 && steps >= 0) return;
    throw OptionError("reef::compress::RatioRamp: from a ratio of ", from, " in ", steps,
                      " steps.\n  fix: from 1, and 0 steps or more.");
  }
};

}  // namespace compress
}  // namespace v0
}  // namespace reef
