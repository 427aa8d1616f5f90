#pragma once

#include <cstddef>
#include <cstdint>

#include <reef/core/finite.hpp>
#include <reef/core/inline.hpp>
#include <reef/plan/number_json.hpp>

namespace reef {
inline namespace v0 {
namespace plan {

REEF_INLINE double number_from_json(const io::Json& json, std::string_view path, double least,
                                    double most, std::string_view source) {
  const auto value = io::require<double>(json, path, source);
  if (!within(value, least, most)) {
    throw DecodeError("reef::plan: ", source, ": '", path, "' is ", value,
                      ".\n  fix: a number from ", least, " to ", most, ".");
  }
  return value;
}

REEF_INLINE std::vector<double> numbers_from_json(const io::Json& json, std::string_view path,
                                                  double least, double most,
                                                  std::string_view source) {
  auto values = io::require<std::vector<double>>(json, path, source);
  for (std::size_t i = 0; i < values.size(); ++i) {
    if (within(values[i], least, most)) continue;
    throw DecodeError("reef::plan: ", source, ": ", path, "[", i, "] is ", values[i],
                      ".\n  fix: a number from ", least, " to ", most, ".");
  }
  return values;
}

REEF_INLINE int count_from_json(const io::Json& json, std::string_view path, int least, int most,
                                std::string_view source) {
  const auto value = io::require<std::int64_t>(json, path, source);
  if (value < least || value > most) {
    throw DecodeError("reef::plan: ", source, ": '", path, "' is ", value,
                      ".\n  fix: a whole number from ", least, " to ", most, ".");
  }
  return static_cast<int>(value);
}

}  // namespace plan
}  // namespace v0
}  // namespace reef
