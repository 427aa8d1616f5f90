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

/// The rule that decides how many micro-batches a rank runs in an accumulation phase of a step, for optimizers whose
/// communication overlaps (Acco, AccoWp, Dpu, DpuPredicted).
///
/// | fixed    | the number in TrainerOptions::micro_batches: the same bits in every run                |
/// | adaptive | that number, and extra ones for as long as the phase communicates; without stages each |
/// |          | rank decides by itself, and computes without a pause; a fast rank's samples weigh more |
/// | capped   | as adaptive, but at most max_micro_batches: then the rank waits                        |
///
/// The stages of a pipeline decide together: as long as any of them communicates, all run the k micro-batches of
/// TrainerOptions::micro_batches once more. Each time the pipeline fills and drains, so S equal stages are idle for
/// (S - 1) / (k + S - 1) of the time (GPipe, 1F1B).
///
/// The numbers of the extra micro-batches that a rank runs:
///
/// | own    | rank, rank + P, ... for P ranks: needs no message; fast ranks are ahead of slow ones |
/// | shared | the next number that no rank has taken (comm::SharedCounter): each is taken once, in |
/// |        | order, by ranks of any speed; the clock decides which rank takes which               |
struct Accumulation {
  enum class Order : std::uint8_t { own, shared };

  bool adapts = false;
  int max_micro_batches = 0;  ///< the most micro-batches of a rank in an accumulation phase; 0: no limit
  Order order = Order::own;

  static constexpr Accumulation fixed() { return {}; }
  static constexpr Accumulation adaptive(Order order = Order::own) { return {true, 0, order}; }
  /// Returns accumulation with at most `most` micro-batches in a phase of a step. Throws OptionError if `most` is less
  /// than one.
  static constexpr Accumulation capped(int most, Order order = Order::own) {
    if (most < 1) {
      throw OptionError("reef::Accumulation: capped at ", most,
                        " micro-batches.\n  fix: 1 or more, or adaptive() for no bound.");
    }
    return {true, most, order};
  }
};

using run::Activations;

/// The options of a Trainer that are the same for all policies and devices; TrainerOptions adds those that are not. The
/// defaults train a small GPT.
///
/// \code
/// TrainerSettings settings;
/// settings.micro_batches = {4};
/// settings.learning_rate = {.peak = 3e-4, .warmup = 100, .steps = 10'000};
/// settings.validate(true);
/// \endcode
struct TrainerSettings {
  /// The number of micro-batches in a step for the copy of the model that this rank belongs to; if virtual_ranks is
  /// above 1, one number for each virtual rank, or one for all.
  std::vector<int> micro_batches{1};

  Accumulation accumulation{};

  /// A function that returns the job-wide index of the micro-batch that this rank computes next, called once for each
  /// in order, on the thread that reads the data (run::Source). Without it the Trainer numbers micro-batches itself,
  /// also those that `accumulation` adds to `micro_batches`. Only for ranks that have the whole model.
  std::function<std::uint64_t()> next_micro_batch{};

  /// The rank that holds each pipeline stage of each copy of the model (replica). Not given: every rank has the whole
  /// model. More than one stage needs a pipeline policy that spans stages.
  std::optional<run::Topology> topology{};

  /// The number of ranks for which this process stands, when it is the only one: it gives the bits of as many ranks
  /// with the same counts of micro-batches.
  int virtual_ranks = 1;

  std::uint64_t seed = 0;

  optim::LearningRate learning_rate{};

  /// The groups of parameters that have a learning rate, decay or update rule of their own (optim::PerGroup): a
  /// parameter is in the first group whose pattern its name matches. With DiLoCo they apply to the inner rule. Empty:
  /// no groups.
  std::vector<run::ParameterGroup> groups{};
  double clip_norm = 1.0;  ///< the largest L2 norm of the mean gradient, above which it is clipped; 0 does not clip
  optim::NonFinite non_finite = optim::NonFinite::stop;

  /// A function that step() calls on each rank after each committed step, with the number of committed steps. It may
  /// read the rank's state, and its weights, unless a policy leaves committed weights on their owners. An exception
  /// from the function leaves step(), but the update stays.
  std::function<void(std::int64_t committed, const ModelState& state)> after_update{};

  /// The fewest bytes of parameters that are reduced at once; 0 chooses an eighth of the model, from 256 KiB to 16 MiB.
  Bytes bucket_bytes = 0;

  /// The cuts of the model into segments: the nodes (graph::Dag) that begin the second and further segments, ascending.
  /// If given, they stay as they are, and a planner chooses the rest. Empty: the planner of a swap policy chooses cuts
  /// for device.memory_bytes, if that is given; else the model is cut by bucket_bytes.
  std::vector<int> cuts{};

  /// The schedule by which parts of the model are on the device, if it is swapped. Not given: a planner chooses it with
  /// the cuts, or it is the policy's first one. A policy with one schedule accepts no other, except for another
  /// stash_slots, and for resident_segments if it allows these. Trainer::planned returns the cuts and the schedule that
  /// would be chosen.
  std::optional<run::SwapSchedule> swapping{};

  /// The times of the model's operators and the rates of the device, by which cuts are chosen, and from which
  /// programs() has its times: graph::measure, profile::load. Not given: estimates.
  std::optional<profile::Profile> profile{};

  /// The links between all ranks that planning knows: a device for each rank, equal on all ranks. By them pipelines of
  /// several stages order messages, and compressors choose ratios (compress::AdaTopK, Options::adapt of
  /// compress::Channels). Not given: plans are made as if messages took no time. A network that is emulated
  /// (communication.network) is not known to planning, like a real one; it may be given here, too. Any links are safe,
  /// and change no bit except by ratios; the true ones are fastest.
  std::optional<profile::Network> network{};

  /// True: emulates the device of `profile`. In training, an instruction of the compute queue takes as long as on that
  /// device, or longer if the kernels need more; the queue sleeps for the rest of that time, and later instructions
  /// catch up on delays that shared cores cause. So ranks that share cores overlap as if each had a device of its own.
  /// Needs device::Host.
  bool paced = false;

  /// The way in which each segment (consecutive operators) keeps its activations from its forward to its backward: one
  /// for all segments, or one for each; the last segment keeps them on the device. Empty: the planner of a swap policy
  /// chooses the fastest that fits device.memory_bytes, if that is given, for each segment; else all segments keep
  /// them.
  std::vector<Activations> activations{};

  /// True: one instruction runs at a time, in the order of the program, as a reference for the bits of other runs.
  bool serial = false;

  comm::ProgressOptions communication{};

  /// Further values that must be equal on all ranks, compared before the first step: above all a checksum of the data,
  /// as {"data", checksum}, which the Trainer cannot see (data::Corpus and data::TokenShards have a fingerprint). An
  /// error names the value that differs, its texts and their ranks.
  std::vector<comm::SharedFact> alike{};

  trace::Sink* trace = nullptr;  ///< receiver of trace events, which outlives the Trainer; null: no trace is recorded

  TrainerSettings();
  TrainerSettings(const TrainerSettings&);
  TrainerSettings(TrainerSettings&&) noexcept;
  TrainerSettings& operator=(const TrainerSettings&);
  TrainerSettings& operator=(TrainerSettings&&) noexcept;
  ~TrainerSettings();

  /// Returns the numbers of micro-batches, with a count for each virtual rank.
  [[nodiscard]] std::vector<int> counts() const;

  /// Throws OptionError that names the first invalid option. `on_host`: true if the device is the host.
  void validate(bool on_host) const;
};

}  // namespace v0
}  // namespace reef

#ifndef REEF_COMPILED
#include <reef/trainer/settings.ipp>
#endif
