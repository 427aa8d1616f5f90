#pragma once

#include <vector>

#include <reef/core/error.hpp>
#include <reef/core/units.hpp>

namespace reef {
inline namespace v0 {
namespace plan {

/// A link of a pipeline, and the time that an uncompressed message takes over it.
struct AdaTopKLink {
  Seconds latency = 0;   ///< latency alpha of any message over the link, in seconds
  /// The time in seconds to transfer an uncompressed message: its bytes times beta, in seconds per byte.
  Seconds transfer = 0;

  [[nodiscard]] Seconds time() const { return latency + transfer; }
};

/// Options of adatopk(), which chooses compression ratios, besides the links.
///
/// | compute == 0 | as in the paper: each compressed link takes as long as the slowest link at `ratio` |
/// | compute > 0  | the same, but no shorter than the slowest stage computes: a faster link would wait |
struct AdaTopKOptions {
  double ratio = 1;     ///< largest ratio r of the bytes of an uncompressed message to its compressed bytes
  int index_bytes = 8;  ///< bytes of the index that is sent with each value of 4 bytes
  Seconds compute = 0;  ///< seconds that the slowest stage computes; 0: not considered, as in the paper
};

/// The result of adatopk(): a compression ratio for each link, and the resulting times.
struct AdaTopKRatios {
  /// Compression ratio n / k of each link: the values of a message over the values sent; 1: all are sent.
  std::vector<double> ratios;
  std::vector<Seconds> times;  ///< the seconds of a message at this ratio, by link
  Seconds target = 0;          ///< target T*, the seconds of a message that compression aims at on each link
  Seconds bottleneck = 0;      ///< the longest of `times`, in seconds
};

/// Returns the ratio at which the messages of each link are compressed: the smallest at which a message takes the
/// target time T* or less.
///
///     T*  = max(max over links q of  alpha_q + B_q / r,  slowest stage's compute),    B dense transfer
///     r_p = c (R_p - alpha_p) / (T* - alpha_p),    R_p = alpha_p + B_p,   c = (4 + index bytes) / 4    (Eq. 7)
///
/// | most   | r_p is c r at most, even if the latency then makes a message take longer than T*              |
/// | dense  | the ratio is 1 if a dense message takes T* at most, or if r_p <= c, which would not shrink it |
/// | wire   | r counts bytes on the wire: at r = 100 and 8-byte indices one value in 300 is sent            |
/// | errors | OptionError, naming the link or the option                                                    |
///
/// Source: Tang et al., FusionLLM, arXiv 2410.12707, section 5, Eq. 7 and 8. Deviation: compression does not reduce
/// the latency, and with `compute` no link is made faster than the pipeline can use.
///
/// \code
/// const std::vector<plan::AdaTopKLink> links{{.latency = 0.01, .transfer = 2.0},
///                                            {.latency = 0.01, .transfer = 0.2}};
/// const std::vector<double> ratios = plan::adatopk(links, {.ratio = 100}).ratios;
/// \endcode
AdaTopKRatios adatopk(const std::vector<AdaTopKLink>& links, const AdaTopKOptions& options);

}  // namespace plan
}  // namespace v0
}  // namespace reef

#ifndef REEF_COMPILED
#include <reef/plan/adatopk.ipp>
#endif
