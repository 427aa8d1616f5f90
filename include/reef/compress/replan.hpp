#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <vector>

#include <reef/comm/link_probe.hpp>
#include <reef/core/error.hpp>
#include <reef/core/finite.hpp>
#include <reef/core/hash.hpp>
#include <reef/run/edge_ratios.hpp>

namespace reef {
inline namespace v0 {
namespace compress {

/// Options for computing the compression ratios between stages again while a Trainer trains, from the links as measured
/// at that time.
///
/// \code
/// #include <cstdio>
/// compress::Replan replan{.every = 100};
/// std::vector<run::EdgeRatios> log;
/// replan.told = [&log](const run::EdgeRatios& ratios) { log.push_back(ratios); };
/// // Another run, with the bits of that one:
/// const compress::Replan again{.replay = log};
/// \endcode
///
/// | measured | each `every` committed steps, the links between stages: a few messages each (comm::probe_links)       |
/// | agreed   | every rank receives the same times, and plans the same ratios from them                               |
/// | stay     | ratios stay if none would change by more than `tolerance` times itself                                |
/// | first    | the first ratios follow TrainerOptions::network; without it, links are measured                       |
/// | bits     | depend on measured times, hence on the calls of `told`: `replay` of these repeats them on any network |
/// | room     | for messages at a ratio of 1, whose bytes programs, plans and simulations count; those sent are less  |
/// | resume   | a checkpoint keeps the ratios in force; a log overrides them. Before its first entry codecs use their |
/// |          | own                                                                                                   |
/// | held out | an evaluation uses the ratios of the step before it                                                   |
/// | choose   | ratios that Options::choose returns by step override planned ratios                                   |
/// | errors   | OptionError from a Trainer's constructor: impossible values; no codec between stages that has a ratio |
struct Replan {
  std::int64_t every = 0;  ///< number of committed steps between plans; 0: never
  double tolerance = 0.2;
  comm::ProbeOptions probe{};
  /// A function that is called on every rank with each plan that changes compression ratios, before the first step that
  /// uses them.
  std::function<void(const run::EdgeRatios&)> told{};
  /// The calls of `told` in an earlier run, by step, whose ratios are used again: with such a log no link is measured.
  std::vector<run::EdgeRatios> replay{};

  [[nodiscard]] bool is_on() const { return every > 0 || !replay.empty(); }

  void validate() const {
    if (every < 0 || !within(tolerance, 0, 1e3)) {
      throw OptionError("reef::compress::Replan: every ", every, " steps, with a tolerance of ", tolerance,
                        ".\n  fix: 0 steps, which is never, or more; a tolerance from 0 to 1000.");
    }
    if (every > 0 && !replay.empty()) {
      throw OptionError(
          "reef::compress::Replan: ratios are to be planned every so many steps, and are in a log.\n  fix: one of "
          "these.");
    }
    if (probe.bytes < 2 || probe.repeats < 1) {
      throw OptionError("reef::compress::Replan: links are to be probed by ", probe.repeats, " messages of ",
                        probe.bytes, " bytes.\n  fix: at least one, and of at least 2 bytes.");
    }
    for (std::size_t i = 1; i < replay.size(); ++i) {
      if (replay[i - 1].step < replay[i].step) continue;
      throw OptionError("reef::compress::Replan: ratios of step ", replay[i].step, " after those of step ",
                        replay[i - 1].step, ".\n  fix: by step, as they were told.");
    }
  }

  void add_to(Hash& hash) const {
    hash.add(every).add(tolerance).add(probe.bytes).add(probe.repeats);
    for (const run::EdgeRatios& ratios : replay) {
      hash.add(ratios.step);
      for (const double ratio : ratios.by_edge) hash.add(ratio);
    }
  }
};

}  // namespace compress
}  // namespace v0
}  // namespace reef
