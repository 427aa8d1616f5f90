#pragma once

#include <array>
#include <cstddef>
#include <cstdio>
#include <map>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <reef/core/text.hpp>
#include <reef/io/json.hpp>

#include "../support/earlier_files.hpp"

namespace reef_examples {

/// A matrix or a list of the case: its key and its numbers.
struct Figures {
  std::string_view key;
  std::vector<double> values;
  double unit = 1;  ///< what one of the case is in the values' unit
};

/// What was measured, by rank.
struct MeasuredCase {
  std::string note;
  std::vector<std::string> names;
  std::vector<Figures> matrices;  ///< (P, P), row-major
  std::vector<Figures> lists;     ///< (P)
};

/// The names, of which none is there twice: "host" of one rank, "host.0", "host.1" of two.
inline std::vector<std::string> unique_names(const std::vector<std::string>& names) {
  std::map<std::string, int> count;
  for (const std::string& name : names) ++count[name];
  std::map<std::string, int> next;
  std::set<std::string> taken;
  std::vector<std::string> unique;
  for (const std::string& name : names) {
    std::string own = name;
    while ((count[name] > 1 && own == name) || taken.contains(own) ||
           (own != name && count.contains(own))) {
      own = reef::concat(name, ".", next[name]++);
    }
    taken.insert(own);
    unique.push_back(std::move(own));
  }
  return unique;
}

/// The case as a file: a row of each matrix is a line, and numbers have six digits.
inline std::string case_text(const MeasuredCase& measured) {
  const auto row = [](std::span<const double> values, double unit) {
    std::string text = "[";
    for (const double value : values) {
      std::array<char, 32> number{};
      std::snprintf(number.data(), number.size(), "%.6g", value / unit);
      text += reef::concat(text.size() > 1 ? ", " : "", number.data());
    }
    return text + "]";
  };
  std::string text =
      reef::concat(measured_case_begins, ",\n  \"note\": ", reef::io::Json(measured.note).dump(),
                   ",\n  \"devices\": [");
  for (std::size_t i = 0; i < measured.names.size(); ++i)
    text += reef::concat(i > 0 ? ", " : "", reef::io::Json(measured.names[i]).dump());
  text += "]";
  const std::size_t n = measured.names.size();
  for (const Figures& matrix : measured.matrices) {
    text += reef::concat(",\n  \"", matrix.key, "\": [");
    for (std::size_t from = 0; from < n; ++from) {
      text += reef::concat(from > 0 ? ",\n    " : "\n    ",
                           row(std::span(matrix.values).subspan(from * n, n), matrix.unit));
    }
    text += "]";
  }
  for (const Figures& list : measured.lists)
    text += reef::concat(",\n  \"", list.key, "\": ", row(list.values, list.unit));
  return text + "\n}\n";
}

}  // namespace reef_examples
