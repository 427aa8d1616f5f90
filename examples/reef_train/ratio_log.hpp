#pragma once

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <reef/core/error.hpp>
#include <reef/core/text.hpp>
#include <reef/io/json.hpp>
#include <reef/run/edge_ratios.hpp>

namespace reef_examples {

/// The ratios that were planned while training: for people, for the metrics, and out of the metrics of another run.
class RatioLog {
public:
  void note(const reef::run::EdgeRatios& ratios) { last_ = ratios; }

  /// Those that came since it was asked last.
  [[nodiscard]] std::optional<reef::run::EdgeRatios> take() { return std::exchange(last_, std::nullopt); }

  static reef::io::Json json_of(const reef::run::EdgeRatios& ratios) {
    return {{"step", ratios.step}, {"by_edge", ratios.by_edge}};
  }

  /// Those in a file of metrics, by step. Throws OptionError for a file that has none.
  static std::vector<reef::run::EdgeRatios> read(const std::filesystem::path& file) {
    std::ifstream lines(file);
    std::vector<reef::run::EdgeRatios> all;
    int number = 0;
    for (std::string line; std::getline(lines, line);) {
      const std::string where = reef::concat("'", file.string(), "', line ", ++number);
      if (line.find("\"ratios\"") == std::string::npos) continue;
      const reef::io::Json json = reef::io::parse_json(line, where);
      const auto found = json.find("ratios");
      if (found == json.end()) continue;
      const reef::io::JsonSource source(where, "give the metrics of a run with --replan-ratios.");
      all.push_back({reef::io::require<std::int64_t>(*found, "step", source),
                     reef::io::require<std::vector<double>>(*found, "by_edge", source)});
    }
    if (!all.empty()) return all;
    throw reef::OptionError("--replay-ratios: no ratios are in '", file.string(),
                            "'.\n  fix: the --metrics of a run with --replan-ratios.");
  }

  /// "after step 20 of 3 edges: 1, 12.5, 1".
  static std::string text_of(const reef::run::EdgeRatios& ratios) {
    std::string list;
    int count = 0;
    for (const double ratio : ratios.by_edge) {
      if (ratio == 0) continue;
      ++count;
      list += reef::concat(list.empty() ? "" : ", ", static_cast<double>(static_cast<std::int64_t>(ratio * 10 + 0.5)) / 10);
    }
    return reef::concat("after step ", ratios.step, " of ", count, " edges: ", list);
  }

private:
  std::optional<reef::run::EdgeRatios> last_{};
};

}  // namespace reef_examples
