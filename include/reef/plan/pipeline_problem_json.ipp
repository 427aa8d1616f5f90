#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <reef/core/inline.hpp>
#include <reef/io/known_keys.hpp>
#include <reef/plan/number_json.hpp>
#include <reef/plan/pipeline_problem_json.hpp>
#include <reef/profile/network_json.hpp>

namespace reef {
inline namespace v0 {
namespace plan {

REEF_INLINE PipelineProblem pipeline_problem_from_json(const io::Json& json,
                                                       std::string_view source) {
  std::vector<std::string_view> known{"flops", "mem",     "cut",        "outputs",        "edges",
                                      "speed", "cap",     "alpha",      "beta",           "n_b",
                                      "devices", "latency_ms", "bandwidth_gbps", "seed"};
  known.insert(known.end(), profile::measured_keys.begin(), profile::measured_keys.end());
  io::require_known_keys(json, known, source);
  constexpr double max_bytes = 1e18;
  const auto numbers = [&](const char* key, double least, double most) {
    return numbers_from_json(json, key, least, most, source);
  };
  const auto require_size = [&](const char* key, std::size_t is, std::size_t wanted,
                                const char* of) {
    if (is == wanted) return;
    throw DecodeError("reef::plan: ", source, ": '", key, "' has ", is, " entries for ", wanted,
                      " ", of, ".\n  fix: one for each.");
  };
  const auto at_most = [&](const char* key, std::size_t is, int most) {
    if (is > 0 && is <= static_cast<std::size_t>(most)) return;
    throw DecodeError("reef::plan: ", source, ": '", key, "' has ", is,
                      " numbers.\n  fix: from 1 to ", most, ".");
  };
  PipelineProblem problem;
  problem.flops = numbers("flops", 0, 1e24);
  at_most("flops", problem.flops.size(), max_pipeline_operators);
  for (const double bytes : numbers("mem", 0, 1e15))
    problem.memory.push_back(static_cast<Bytes>(std::ceil(bytes)));
  require_size("mem", problem.memory.size(), problem.flops.size(), "operators");
  if (json.contains("edges") && !json.contains("cut")) {
    std::vector<std::pair<int, int>> edges;
    const auto pairs = io::require<std::vector<std::vector<int>>>(json, "edges", source);
    for (std::size_t i = 0; i < pairs.size(); ++i) {
      if (pairs[i].size() != 2) {
        throw DecodeError("reef::plan: ", source, ": edges[", i, "] has ", pairs[i].size(),
                          " numbers.\n  fix: [from, to].");
      }
      edges.emplace_back(pairs[i][0], pairs[i][1]);
    }
    const std::vector<double> outputs = numbers("outputs", 0, max_bytes);
    require_size("outputs", outputs.size(), problem.flops.size(), "operators");
    try {
      problem.cut = crossing_bytes(outputs, edges);
    } catch (const OptionError& error) {
      throw DecodeError("reef::plan: ", source, ": 'edges': ", error.what());
    }
    for (std::size_t k = 0; k < problem.cut.size(); ++k) {
      if (problem.cut[k] <= max_bytes) continue;
      throw DecodeError("reef::plan: ", source, ": the 'outputs' that cross boundary ", k, " have ",
                        problem.cut[k], " bytes.\n  fix: at most ", max_bytes, " together.");
    }
  } else {
    for (const char* const key : {"edges", "outputs"}) {
      if (!json.contains(key)) continue;
      throw DecodeError("reef::plan: ", source, ": '", key, "' beside ",
                        json.contains("cut") ? "'cut'" : "no 'edges'",
                        ".\n  fix: 'cut', or 'outputs' and 'edges'.");
    }
    problem.cut = numbers("cut", 0, max_bytes);
    require_size("cut", problem.cut.size(), problem.flops.size() + 1,
                 "boundaries, the first and the last among them");
  }
  const bool has_flops = !json.contains("speed") && json.contains("device_flops");
  const char* const speed = has_flops ? "device_flops" : "speed";
  problem.speed = numbers(speed, 1, 1e24);
  at_most(speed, problem.speed.size(), max_pipeline_devices);
  for (const double bytes : numbers("cap", 0, max_bytes))
    problem.capacity.push_back(static_cast<Bytes>(bytes));
  require_size("cap", problem.capacity.size(), problem.speed.size(), "devices");
  const bool is_network = json.contains("latency_ms") || json.contains("bandwidth_gbps");
  if (is_network && (json.contains("alpha") || json.contains("beta"))) {
    throw DecodeError("reef::plan: ", source, ": '", json.contains("alpha") ? "alpha" : "beta",
                      "' beside a network's links.\n  fix: 'alpha' and 'beta', or 'latency_ms' and "
                      "'bandwidth_gbps'.");
  }
  if (is_network) {
    problem.links = profile::network_from_json(json, source);
    require_size("latency_ms", json["latency_ms"].size(), problem.speed.size(), "devices");
  } else {
    problem.links.devices = problem.devices();
    problem.links.latencies = profile::square_from_json(json, "alpha", source, 1, 0, 1e6);
    require_size("alpha", json["alpha"].size(), problem.speed.size(), "devices");
    problem.links.rates = profile::square_from_json(json, "beta", source, 1, 1e-18, 1);
    require_size("beta", json["beta"].size(), problem.speed.size(), "devices");
    for (double& beta : problem.links.rates) beta = beta > 0 ? 1 / beta : 0;  // 0 on the diagonal
    if (json.contains("devices")) {
      problem.links.names = io::require<std::vector<std::string>>(json, "devices", source);
      require_size("devices", problem.links.names.size(), problem.speed.size(), "speeds");
    }
  }
  problem.micro_batches = io::require<std::int64_t>(json, "n_b", source);
  if (problem.micro_batches < 1 || problem.micro_batches > 1'000'000'000) {
    throw DecodeError("reef::plan: ", source, ": 'n_b' is ", problem.micro_batches,
                      ".\n  fix: from 1 to 1e9 micro-batches.");
  }
  try {
    problem.validate();
  } catch (const OptionError& error) {
    throw DecodeError("reef::plan: ", source, ": ", error.what());
  }
  return problem;
}

}  // namespace plan
}  // namespace v0
}  // namespace reef
