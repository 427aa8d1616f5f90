#pragma once

#include <string_view>
#include <vector>

#include <reef/core/error.hpp>
#include <reef/io/json.hpp>
#include <reef/plan/adatopk.hpp>

namespace reef {
inline namespace v0 {
namespace plan {

/// The input of adatopk(), which chooses compression ratios, in a file: the links to compress, and the options.
struct AdaTopKCase {
  std::vector<AdaTopKLink> links;
  AdaTopKOptions options;       ///< options of adatopk(); `compute` is 0 even if the file has compute_s
  /// The longest compute time of a stage in the file's compute_s; 0 if the file has none.
  Seconds slowest_compute = 0;
};

/// Reads an input of adatopk() from JSON, with links given by times of uncompressed messages, or by alpha, beta and
/// bytes.
///
/// | link_times         | seconds of a dense message, by link; user_ratio is then the ratio       |
/// | alpha, beta, bytes | seconds, seconds per byte, bytes (or one number), by link; ratio is `r` |
/// | index_bytes        | the bytes of an index; 8 if it is left out                              |
/// | compute_s          | seconds by stage, one stage per link or one more; may be left out       |
/// | errors             | DecodeError, naming the entry                                           |
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
