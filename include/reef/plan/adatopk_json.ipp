#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <string>

#include <reef/core/finite.hpp>
#include <reef/core/inline.hpp>
#include <reef/core/text.hpp>
#include <reef/io/known_keys.hpp>
#include <reef/plan/adatopk_json.hpp>
#include <reef/plan/number_json.hpp>

namespace reef {
inline namespace v0 {
namespace plan {

REEF_INLINE AdaTopKCase adatopk_from_json(const io::Json& json, std::string_view source) {
  // The ratios that are expected may stand beside them.
  constexpr std::array<std::string_view, 9> known{
      "link_times", "user_ratio", "alpha", "beta", "bytes", "r", "index_bytes", "compute_s", "ratios"};
  io::require_known_keys(json, known, source);
  const auto refuse = [&](const std::string& what, const std::string& fix) {
    throw DecodeError("reef::plan: ", source, ": ", what, ".\n  fix: ", fix, ".");
  };
  const auto number = [&](const std::string& name, double value, double least, double most) {
    if (!within(value, least, most))
      refuse(concat(name, " is ", value), concat("a number from ", least, " to ", most));
    return value;
  };
  const auto numbers = [&](const char* key, double most) {
    return numbers_from_json(json, key, 0, most, source);
  };
  constexpr double max_seconds = 1e12;
  AdaTopKCase result;
  if (json.is_object() && json.contains("link_times")) {
    for (const char* const key : {"alpha", "beta", "bytes", "r"}) {
      if (json.contains(key))
        refuse(concat("'", key, "' beside 'link_times'"),
               "link_times and user_ratio, or alpha, beta, bytes and r");
    }
    for (const double time : numbers("link_times", max_seconds)) result.links.push_back({0, time});
    result.options.ratio =
        number("user_ratio", io::require<double>(json, "user_ratio", source), 1, 1e12);
  } else {
    if (json.is_object() && json.contains("user_ratio"))
      refuse("'user_ratio' without 'link_times'", "link_times, or alpha, beta, bytes and r");
    const std::vector<double> alpha = numbers("alpha", max_seconds);
    const std::vector<double> beta = numbers_from_json(json, "beta", 1e-18, 1, source);
    if (beta.size() != alpha.size())
      refuse(concat("'beta' has ", beta.size(), " numbers and 'alpha' ", alpha.size()),
             "one for each link");
    std::vector<double> bytes;
    if (io::require<io::Json>(json, "bytes", source).is_array()) {
      bytes = numbers("bytes", 1e18);
    } else {
      const double all = number("bytes", io::require<double>(json, "bytes", source), 0, 1e18);
      bytes.assign(alpha.size(), all);
    }
    if (bytes.size() != alpha.size())
      refuse(concat("'bytes' has ", bytes.size(), " numbers and 'alpha' ", alpha.size()),
             "one for each link, or one for all");
    for (std::size_t i = 0; i < alpha.size(); ++i) {
      result.links.push_back(
          {alpha[i], number(concat("beta[", i, "] x bytes"), beta[i] * bytes[i], 0, max_seconds)});
    }
    result.options.ratio = number("r", io::require<double>(json, "r", source), 1, 1e12);
  }
  result.options.index_bytes = io::value_or<int>(json, "index_bytes", 8, source);
  number("index_bytes", result.options.index_bytes, 0, 16);
  if (json.contains("compute_s")) {
    const std::vector<double> compute = numbers("compute_s", max_seconds);
    const std::size_t links = result.links.size();
    if (compute.empty() || (compute.size() != links && compute.size() != links + 1))
      refuse(concat("'compute_s' has ", compute.size(), " numbers for ", links, " links"),
             "one for each stage: as many as links, or one more");
    for (const double time : compute)
      result.slowest_compute = (std::max)(result.slowest_compute, time);
  }
  return result;
}

}  // namespace plan
}  // namespace v0
}  // namespace reef
