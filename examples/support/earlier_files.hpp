#pragma once

#include <cstddef>
#include <filesystem>
#include <fstream>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>

#include <reef/core/error.hpp>
#include <reef/core/text.hpp>
#include <reef/io/json.hpp>
#include <reef/io/safetensors.hpp>

// One rule for every file that a run writes. Where something else is at its place, the run is refused; what an
// earlier run left there goes aside, to the next free name, when the new one is about to be written.

namespace reef_examples {

/// What a run writes.
enum class Output { metrics, trace, report, weights, network, drawing, order, plan };

/// What a network that was measured begins with.
inline constexpr std::string_view measured_case_begins =
    "{\n  \"name\": \"a network as reef-measure found it\"";

/// What a drawing of a network begins with.
inline constexpr std::string_view drawing_begins = "<svg data-drawn-by=\"reef-plan\"";

/// What an order of a pipeline begins with: it is a text with remarks.
inline constexpr std::string_view order_begins = "# An order of a pipeline, written by reef-plan";

/// What a plan for reef-train begins with.
inline constexpr std::string_view plan_begins = "{\n  \"written_by\": \"reef-plan plan\"";

namespace detail {

/// As far as its beginning tells.
inline bool is_of_a_run(Output kind, const std::filesystem::path& path) {
  std::string text(std::size_t{1} << 16, '\0');
  std::ifstream file(path, std::ios::binary);
  file.read(text.data(), static_cast<std::streamsize>(text.size()));
  text.resize(static_cast<std::size_t>(file.gcount()));
  try {
    switch (kind) {
      case Output::metrics: {
        const std::size_t end = text.find('\n');
        if (end == std::string::npos) return text.starts_with('{');  // a crash in the first line
        const auto json = reef::io::parse_json(text.substr(0, end), "a line of the metrics");
        return json.is_object() && (json.contains("step") || json.contains("summary"));
      }
      case Output::trace: return text.starts_with("{\"displayTimeUnit\":\"ms\",\"traceEvents\":[");
      case Output::report:
        return text.starts_with("<!doctype html>") &&
               text.find("<title>reef-train ") != std::string::npos;
      case Output::weights: {
        const reef::io::SafetensorsFile weights(path);
        return true;
      }
      case Output::network: return text.starts_with(measured_case_begins);
      case Output::drawing: return text.starts_with(drawing_begins);
      case Output::order: return text.starts_with(order_begins);
      case Output::plan: return text.starts_with(plan_begins);
    }
  } catch (const reef::Error&) {
  }
  return false;
}

}  // namespace detail

/// Whether a file with something in it is there, not a pipe or a terminal.
inline bool keeps_something(const std::filesystem::path& path) {
  std::error_code none;
  return std::filesystem::is_regular_file(path, none) &&
         std::filesystem::file_size(path, none) > 0 && !none;
}

/// Why an output of this kind cannot take the place of what is there; nothing if it can.
inline std::optional<std::string> in_the_way(Output kind, const std::filesystem::path& path) {
  if (path.empty() || !keeps_something(path) || detail::is_of_a_run(kind, path))
    return std::nullopt;
  constexpr const char* names[]{"a run's metrics",    "a run's trace",
                                "a run's report",     "weights (.safetensors)",
                                "a measured network", "an earlier drawing",
                                "an earlier order",   "an earlier plan"};
  return reef::concat("'", path.string(), "' holds something else than ",
                      names[static_cast<std::size_t>(kind)],
                      ", which would be lost.\n  fix: another name, or remove it");
}

/// The first of PATH.1, PATH.2, ... that is free.
inline std::filesystem::path next_free_name(const std::filesystem::path& path) {
  std::filesystem::path name;
  for (int number = 1;
       name.empty() || std::filesystem::exists(std::filesystem::symlink_status(name)); ++number)
    name = reef::concat(path.string(), ".", number);
  return name;
}

/// Writes a file in place of what is there, which goes aside, and comes back if `write` throws. Returns where it is
/// now, for a person; empty where nothing was there.
template <class F>
std::string write_in_place(const std::filesystem::path& path, const F& write) {
  if (!keeps_something(path)) {
    write();
    return {};
  }
  const std::filesystem::path aside = next_free_name(path);
  std::filesystem::rename(path, aside);
  try {
    write();
  } catch (...) {
    std::error_code ignored;
    if (!std::filesystem::exists(path, ignored)) std::filesystem::rename(aside, path, ignored);
    throw;
  }
  return reef::concat(" (what an earlier run left there is now in ", aside.string(), ")");
}

}  // namespace reef_examples
