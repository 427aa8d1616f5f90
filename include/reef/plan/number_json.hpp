#pragma once

#include <string_view>
#include <vector>

#include <reef/core/error.hpp>
#include <reef/io/json.hpp>

namespace reef {
inline namespace v0 {
namespace plan {

/// Reads a number of a case that must lie in a range. Throws DecodeError, naming it.
///
/// \code
/// // given: const io::Json& json
/// const int stages = plan::count_from_json(json, "D_PP", 1, 64, "case.json");
/// const double bytes = plan::number_from_json(json, "c_pp_bytes", 0, 1e15, "case.json");
/// \endcode
double number_from_json(const io::Json& json, std::string_view path, double least, double most,
                        std::string_view source);

/// Reads a list, of any length, of numbers that must lie in a range. Throws DecodeError, naming the number.
std::vector<double> numbers_from_json(const io::Json& json, std::string_view path, double least,
                                      double most, std::string_view source);

/// Reads a whole number that must lie in a range. Throws DecodeError, naming it.
int count_from_json(const io::Json& json, std::string_view path, int least, int most,
                    std::string_view source);

}  // namespace plan
}  // namespace v0
}  // namespace reef

#ifndef REEF_COMPILED
#include <reef/plan/number_json.ipp>
#endif
