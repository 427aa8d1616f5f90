#pragma once

#include <string_view>
#include <vector>

#include <reef/core/error.hpp>
#include <reef/io/json.hpp>
#include <reef/plan/adatopk.hpp>

namespace reef {
inline namespace v0 {
namespace plan {

/// A case of AdaTopK: links to compress, and the options.
struct AdaTopKCase {
  std::vector<AdaTopKLink> links;
  AdaTopKOptions options;       ///< `compute` is 0, whatever the case says
  Seconds slowest_compute = 0;  ///< the longest of compute_s; 0 where there is none
};

/// Reads links by the times that dense messages take, or by their latency, time per byte and bytes.
///
/// | link_times         | seconds, by link; with user_ratio                                          |
/// | alpha, beta, bytes | seconds, seconds per byte, by link; bytes of all links, or by link; with r |
/// | index_bytes        | 8 where it is left out                                                     |
/// | compute_s          | seconds by stage, as many as links or one more; may be left out            |
/// | errors             | DecodeError, naming the entry                                              |
///
/// \code
/// const io::Json json = io::read_json("links.json");
/// const plan::AdaTopKCase read = plan::adatopk_from_json(json, "links.json");
/// const plan::AdaTopKRatios ratios = plan::adatopk(read.links, read.options);
/// \endcode
AdaTopKCase adatopk_from_json(const io::Json& json, std::string_view source);

}  // namespace plan
}  // namespace v0
}  // namespace reef

#ifndef REEF_COMPILED
#include <reef/plan/adatopk_json.ipp>
#endif
