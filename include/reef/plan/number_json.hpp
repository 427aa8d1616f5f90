#pragma once

#include <string_view>
#include <vector>

#include <reef/core/error.hpp>
#include <reef/io/json.hpp>

namespace reef {
inline namespace v0 {
namespace plan {

/// Reads the number at `path` of a JSON text. Throws DecodeError, naming the path, unless it is from `least` to `most`.
///
/// \code
/// // given: const io::Json& json
/// const int stages = plan::count_from_json(json, "D_PP", 1, 64, "case.json");
/// const double bytes = plan::number_from_json(json, "c_pp_bytes", 0, 1e15, "case.json");
/// \endcode
double number_from_json(const io::Json& json, std::string_view path, double least, double most,
                        std::string_view source);

/// Reads the list of numbers at `path` of a JSON text. Throws DecodeError, naming the number, unless each is in range.
std::vector<double> numbers_from_json(const io::Json& json, std::string_view path, double least,
                                      double most, std::string_view source);

/// Reads the integer at `path` of a JSON text. Throws DecodeError, naming the path, unless it is from `least` to
/// `most`.
int count_from_json(const io::Json& json, std::string_view path, int least, int most,
                    std::string_view source);

}  // namespace plan
}  // namespace v0
}  // namespace reef

#ifndef REEF_COMPILED
#include <reef/plan/number_json.ipp>
#endif
