#pragma once

#include <array>
#include <string_view>
#include <vector>

#include <reef/core/error.hpp>
#include <reef/io/json.hpp>
#include <reef/profile/network.hpp>

namespace reef {
inline namespace v0 {
namespace profile {

/// The members that reef-measure writes beside the links: the rates of pairs that send to each other at once, and
/// figures of each device. A file may have these members even if its reader ignores them.
inline constexpr std::array<std::string_view, 4> measured_keys{"reciprocal_gbps", "device_flops",
                                                               "device_memory_gbps", "model_flops"};

/// Reads a square matrix of numbers, row-major, each times `unit`. Throws DecodeError, naming the entry, for
/// another shape, and for a number outside the diagonal that is not from `least` to `most`.
std::vector<double> square_from_json(const io::Json& json, const char* key, std::string_view source,
                                     double unit, double least, double most);

/// Reads the links between all devices from JSON.
///
/// | latency_ms     | square matrix, milliseconds one way                  |
/// | bandwidth_gbps | square matrix of the same size, 10^9 bits per second |
/// | devices        | names, or how many there are; may be left out        |
/// | errors         | DecodeError, naming the entry                        |
///
/// \code
/// const io::Json json = io::read_json("case.json");
/// const profile::Network network = profile::network_from_json(json, "case.json");
/// \endcode
Network network_from_json(const io::Json& json, std::string_view source);

}  // namespace profile
}  // namespace v0
}  // namespace reef

#ifndef REEF_COMPILED
#include <reef/profile/network_json.ipp>
#endif
