#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include <reef/core/error.hpp>
#include <reef/core/finite.hpp>
#include <reef/core/units.hpp>
#include <reef/plan/pipeline_time.hpp>
#include <reef/profile/network.hpp>

namespace reef::inline v0::plan {

/// Consecutive operators [first, end) on one device.
struct Stage {
  int device = 0;
  int first = 0;
  int end = 0;

  friend bool operator==(const Stage&, const Stage&) = default;
};

/// How many operators and devices a pipeline is planned for.
inline constexpr int most_pipeline_operators = 4096;
inline constexpr int most_pipeline_devices = 1024;

/// A chain of operators, and devices that may run it. A graph of operators becomes one in any topological order,
/// with crossing_bytes().
struct PipelineProblem {
  std::vector<double> flops{};     ///< by operator, for one micro-batch
  std::vector<Bytes> memory{};     ///< by operator: what it needs where it runs
  std::vector<double> cut{};       ///< by boundary, one more than operators: bytes that cross it
  std::vector<double> speed{};     ///< by device: operations per second, as measured
  std::vector<Bytes> capacity{};   ///< by device
  profile::Network links{};        ///< messages take links.time(from, to, bytes)
  std::int64_t micro_batches = 1;  ///< n_b

  [[nodiscard]] int operators() const { return static_cast<int>(flops.size()); }
  [[nodiscard]] int devices() const { return static_cast<int>(speed.size()); }

  /// Eq. 1 for every stage, then Eq. 2 to 4. The first stage receives nothing.
  [[nodiscard]] PipelineTime time(const std::vector<Stage>& stages, double samples = 1) const {
    std::vector<Seconds> compute;
    std::vector<Seconds> receive;
    for (std::size_t p = 0; p < stages.size(); ++p) {
      const Stage& stage = stages[p];
      double sum = 0;
      for (int o = stage.first; o < stage.end; ++o) sum += flops[static_cast<std::size_t>(o)];
      compute.push_back(sum / speed[static_cast<std::size_t>(stage.device)]);
      receive.push_back(p == 0 ? 0
                               : links.time(stages[p - 1].device, stage.device,
                                            cut[static_cast<std::size_t>(stage.first)]));
    }
    return pipeline_time(compute, receive, micro_batches, samples);
  }

  /// Whether each stage's operators fit its device.
  [[nodiscard]] bool fits(const std::vector<Stage>& stages) const {
    return std::all_of(stages.begin(), stages.end(), [&](const Stage& stage) {
      Bytes sum = 0;
      for (int o = stage.first; o < stage.end; ++o) sum += memory[static_cast<std::size_t>(o)];
      return sum <= capacity[static_cast<std::size_t>(stage.device)];
    });
  }

  /// Throws OptionError, naming the figure, unless there are operators and devices, sizes agree, speeds and links
  /// are above 0, and sums are numbers.
  void validate() const {
    const auto refuse = [](const auto&... pieces) {
      throw OptionError("reef::plan::PipelineProblem: ", pieces...);
    };
    const auto size = [&](const char* name, std::size_t is, std::size_t wanted, const char* of) {
      if (is != wanted)
        refuse(name, " has ", is, " numbers.\n  fix: ", wanted, ", one for each ", of, ".");
    };
    if (flops.empty() || operators() > most_pipeline_operators)
      refuse("flops has ", flops.size(), " numbers.\n  fix: 1 to ", most_pipeline_operators, ".");
    if (speed.empty() || speed.size() > most_pipeline_devices)
      refuse("speed has ", speed.size(), " numbers.\n  fix: 1 to ", most_pipeline_devices, ".");
    size("mem", memory.size(), flops.size(), "operator");
    size("cut", cut.size(), flops.size() + 1, "boundary, first and last included");
    size("cap", capacity.size(), speed.size(), "device");
    size("the network", static_cast<std::size_t>(std::max(links.devices, 0)), speed.size(),
         "device");
    links.validate();
    const auto figures = [&](const char* name, const std::vector<double>& values, double least,
                             double most) {
      for (std::size_t i = 0; i < values.size(); ++i) {
        if (!within(values[i], least, most))
          refuse(name, "[", i, "] is ", values[i], ".\n  fix: from ", least, " to ", most, ".");
      }
    };
    figures("flops", flops, 0, 1e24);
    figures("cut", cut, 0, 1e18);
    figures("speed", speed, 1, 1e24);
    for (std::size_t i = 0; i < memory.size(); ++i) {
      if (memory[i] > Bytes{1} << 50)
        refuse("mem[", i, "] is ", memory[i], ".\n  fix: at most 2^50.");
    }
    if (micro_batches < 1 || micro_batches > 1'000'000'000)
      refuse("n_b is ", micro_batches, ".\n  fix: from 1 to 1e9 micro-batches.");
  }
};

/// What crosses each boundary of operators in a topological order: an operator's output once for all that read it,
/// however far behind. One more than operators; nothing crosses the first and the last.
///
/// | outputs | bytes that each operator hands on, of any size                                  |
/// | edges   | from an operator to one behind it                                               |
/// | cost    | O(edges + operators^2): each boundary is a sum of its own, so none keeps the    |
/// |         | rounding of what crosses another                                                |
/// | errors  | OptionError for an edge that does not lead forward                               |
inline std::vector<double> crossing_bytes(const std::vector<double>& outputs,
                                          const std::vector<std::pair<int, int>>& edges) {
  const int n = static_cast<int>(outputs.size());
  std::vector<int> last(outputs.size(), 0);  // reader of each operator's output
  for (const auto& [from, to] : edges) {
    if (from < 0 || to <= from || to >= n) {
      throw OptionError("reef::plan::crossing_bytes: an edge leads from ", from, " to ", to,
                        ".\n  why: ", n,
                        " operators are in an order in which each comes after "
                        "those that it reads.\n  fix: sort them so, and number them from 0.");
    }
    last[static_cast<std::size_t>(from)] = std::max(last[static_cast<std::size_t>(from)], to);
  }
  std::vector<double> crossing(outputs.size() + 1, 0);
  for (std::size_t from = 0; from < outputs.size(); ++from) {
    const auto reader = static_cast<std::size_t>(last[from]);
    for (std::size_t k = from + 1; k <= reader; ++k) crossing[k] += outputs[from];
  }
  return crossing;
}

}  // namespace reef::inline v0::plan
