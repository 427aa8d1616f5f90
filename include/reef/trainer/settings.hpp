#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include <reef/comm/agreement.hpp>
#include <reef/comm/options.hpp>
#include <reef/core/error.hpp>
#include <reef/core/units.hpp>
#include <reef/optim/learning_rate.hpp>
#include <reef/optim/verdict.hpp>
#include <reef/profile/network.hpp>
#include <reef/profile/profile.hpp>
#include <reef/run/parameter_group.hpp>
#include <reef/run/step_plan.hpp>
#include <reef/trace/sink.hpp>
#include <reef/trainer/model_state.hpp>

namespace reef {
inline namespace v0 {

/// The rule by which a rank counts the micro-batches of a phase, where rounds overlap (Acco, AccoWp, Dpu, DpuPredicted).
///
/// | fixed    | as TrainerOptions::micro_batches says: the same bits in every run                    |
/// | adaptive | so many, and extra ones for as long as the phase communicates; without stages each   |
/// |          | rank decides by itself, and computes without a pause; a fast rank's samples weigh more |
/// | capped   | as adaptive, but max_micro_batches at most: then the rank waits                      |
///
/// The stages of a pipeline decide together: as long as any of them communicates, all take as many again as
/// TrainerOptions::micro_batches says. Each such batch of k fills and drains the pipeline, so S equal stages are idle for
/// (S - 1) / (k + S - 1) of the time (GPipe, 1F1B).
///
/// The numbers of the micro-batches that a rank takes as extra ones:
///
/// | own    | numbers rank, rank + P, ...: no message, and a fast rank is further on than a slow one |
/// | shared | whichever is next of all (comm::SharedCounter): each is taken once, in order, by ranks |
/// |        | of any speed; which rank has which is decided by the clock                              |
struct Accumulation {
  enum class Order : std::uint8_t { own, shared };

  bool adapts = false;
  int max_micro_batches = 0;  ///< most micro-batches of a rank in a phase; 0 is no bound
  Order order = Order::own;

  static constexpr Accumulation fixed() { return {}; }
  static constexpr Accumulation adaptive(Order order = Order::own) { return {true, 0, order}; }
  /// Returns accumulation with at most `most` micro-batches in a phase. Throws OptionError if `most` is less than one.
  static constexpr Accumulation capped(int most, Order order = Order::own) {
    if (most < 1) {
      throw OptionError("reef::Accumulation: capped at ", most,
                        " micro-batches.\n  fix: 1 or more, or adaptive() for no bound.");
    }
    return {true, most, order};
  }
};

using run::Activations;

/// The options of a Trainer that are the same for all policies and devices; TrainerOptions adds theirs. The defaults
/// train a small GPT.
///
/// \code
/// TrainerSettings settings;
/// settings.micro_batches = {4};
/// settings.learning_rate = {.peak = 3e-4, .warmup = 100, .steps = 10'000};
/// settings.validate(true);
/// \endcode
struct TrainerSettings {
  /// The number of micro-batches of this rank's replica in a step; with virtual_ranks V > 1 one number for each virtual
  /// rank, or one for all.
  std::vector<int> micro_batches{1};

  Accumulation accumulation{};

  /// A function that returns the number in the job of the micro-batch that this rank computes next, for ranks that decide
  /// themselves which they compute: called once for each, in the order of a step, on the thread of the source. Not
  /// given: the plan numbers them, and extra ones as `accumulation` says. For ranks that have the whole model.
  std::function<std::uint64_t()> next_micro_batch{};

  /// The rank that holds each stage of each replica. Not given: every rank has the whole model. More than one stage
  /// needs a pipeline policy that spans several.
  std::optional<run::Topology> topology{};

  /// The number of ranks that this process stands for, when it is alone: V ranks with the same counts give the same
  /// bits.
  int virtual_ranks = 1;

  std::uint64_t seed = 0;

  optim::LearningRate learning_rate{};

  /// Groups of parameters that have a learning rate, decay or rule of their own (optim::PerGroup), by their names: a
  /// parameter is in the first group that fits. For DiLoCo they concern the inner rule. Empty: all parameters are
  /// alike.
  std::vector<run::ParameterGroup> groups{};
  double clip_norm = 1.0;  ///< the largest norm of the mean gradient; 0 does not clip
  optim::NonFinite non_finite = optim::NonFinite::stop;

  /// A function that step() calls on each rank after each committed step, with the number of committed steps; it may
  /// read the rank's weights and state: where a policy leaves committed weights on their owners, the state alone. An
  /// exception from it leaves step(), whose update stands.
  std::function<void(std::int64_t committed, const ModelState& state)> after_update{};

  /// The fewest bytes of parameters that are reduced at once; 0 chooses an eighth of the model, from 256 KiB to 16 MiB.
  Bytes bucket_bytes = 0;

  /// The cuts of the model into segments: the nodes (graph::Dag) that begin the second and further segments, ascending.
  /// Empty: the planner of a swap policy cuts for device.memory_bytes, if that is given; else the model is cut by
  /// bucket_bytes. Given cuts stay as they are, and the planner chooses the rest.
  std::vector<int> cuts{};

  /// The swap schedule of a model that is swapped. Not given: chosen with the cuts, or the policy's
  /// first. A policy with one schedule takes no other, except for stash_slots, and for
  /// resident_segments where it allows those. Trainer::planned gives cuts and schedule as they
  /// would be chosen.
  std::optional<run::SwapSchedule> swapping{};

  /// The figures by which cuts are chosen, and from which programs() has its times: graph::measure, profile::load. Not
  /// given: estimates.
  std::optional<profile::Profile> profile{};

  /// The links between all ranks that planning knows, a device for each rank, equal on all ranks: pipelines of several
  /// stages put messages in order by them, and compressors choose ratios (compress::AdaTopK, Options::adapt of
  /// compress::Channels). Not given: plans are made as if messages took no time. Planning learns nothing of
  /// communication.network, which is emulated, as it learns nothing of a real network: both may be given the same. Any links
  /// are safe, and but for ratios change no bit; the true ones are fastest.
  std::optional<profile::Network> network{};

  /// Emulates the device of `profile`: in training an instruction of the compute lane takes as long as on that device,
  /// or as long as it must, and the lane sleeps for the rest; later instructions make good a delay that shared cores
  /// cause. So ranks that share cores overlap as if each had a device of its own. Needs device::Host.
  bool paced = false;

  /// The treatment of a segment's activations between its forward and its backward: one for all segments, or one for each;
  /// the last segment keeps. Empty: the planner of a swap policy chooses for device.memory_bytes, if that
  /// is given, segment by segment the fastest that fits; else all keep.
  std::vector<Activations> activations{};

  /// True runs one instruction at a time, in the program's order: the reference.
  bool serial = false;

  comm::ProgressOptions communication{};

  /// Further values that must be equal on all ranks, compared before the first step: above all a checksum of
  /// what the source reads, as {"data", checksum}, since no Trainer can see it (data::Corpus and
  /// data::TokenShards have a fingerprint). An error names what differs, both values and their ranks.
  std::vector<comm::SharedFact> alike{};

  trace::Sink* trace = nullptr;  ///< outlives the Trainer; null records nothing

  TrainerSettings();
  TrainerSettings(const TrainerSettings&);
  TrainerSettings(TrainerSettings&&) noexcept;
  TrainerSettings& operator=(const TrainerSettings&);
  TrainerSettings& operator=(TrainerSettings&&) noexcept;
  ~TrainerSettings();

  /// Returns micro_batches with a count for each virtual rank.
  [[nodiscard]] std::vector<int> counts() const;

  /// Throws OptionError that names the first impossible option. `on_host`: true if the device is the host.
  void validate(bool on_host) const;
};

}  // namespace v0
}  // namespace reef

#ifndef REEF_COMPILED
#include <reef/trainer/settings.ipp>
#endif
