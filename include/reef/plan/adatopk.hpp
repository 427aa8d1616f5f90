#pragma once

#include <vector>

#include <reef/core/error.hpp>
#include <reef/core/units.hpp>

namespace reef {
inline namespace v0 {
namespace plan {

/// A link of a pipeline, and the time that a dense message takes over it.
struct AdaTopKLink {
  Seconds latency = 0;   ///< alpha, the latency of any message
  Seconds transfer = 0;  ///< beta times the bytes of a dense message

  [[nodiscard]] Seconds time() const { return latency + transfer; }
};

/// Options of AdaTopK besides the links.
///
/// | paper | every compressed link takes the time of the slowest link at the user's ratio     |
/// | stage | as `paper`, but no less than the slowest stage computes: faster links would wait |
struct AdaTopKOptions {
  double ratio = 1;     ///< r, of bytes on the wire: the most by which any message shrinks
  int index_bytes = 8;  ///< the bytes of an index that is sent with each value of 4 bytes
  Seconds compute = 0;  ///< the compute time of the slowest stage; 0: not considered, as in the paper
};

/// Ratios of AdaTopK, by link.
struct AdaTopKRatios {
  std::vector<double> ratios;  ///< n / k, values over values kept; 1: sent dense
  std::vector<Seconds> times;  ///< the time of a compressed message, by link
  Seconds target = 0;          ///< T*, the time that compressed links take
  Seconds bottleneck = 0;      ///< the longest of the times
};

/// Returns the ratio by which each link is compressed: no link is slower than need be, and none loses more values than
/// it must.
///
///     T*  = max(max over links q of  alpha_q + B_q / r,  slowest stage's compute),    B dense transfer
///     r_p = c (R_p - alpha_p) / (T* - alpha_p),    R_p = alpha_p + B_p,   c = (4 + index bytes) / 4    (Eq. 7)
///
/// | most   | no r_p is above c r, however little time latency leaves                               |
/// | dense  | a link that takes T* at most, and one whose message would not shrink: r_p <= c        |
/// | wire   | r is of bytes: at r = 100 and 8-byte indices one value in 300 is kept                 |
/// | errors | OptionError, naming the link or the option                                           |
///
/// Source: Tang et al., FusionLLM, arXiv 2410.12707, section 5, Eq. 7 and 8. Deviation: latency is not compressed
/// away, and with `compute` no link is made faster than the pipeline can use.
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
