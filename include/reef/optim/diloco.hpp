#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include <reef/core/error.hpp>
#include <reef/core/finite.hpp>
#include <reef/core/policy_tag.hpp>
#include <reef/optim/adamw.hpp>
#include <reef/optim/concept.hpp>
#include <reef/optim/detail/outer.hpp>
#include <reef/optim/detail/outer_code.hpp>
#include <reef/optim/detail/outer_schedule.hpp>
#include <reef/optim/detail/require_option.hpp>
#include <reef/optim/nesterov.hpp>
#include <reef/optim/sgd.hpp>

namespace reef {
inline namespace v0 {
namespace optim {

/// Low-frequency data parallelism: every rank steps on its own, and every H steps the ranks' mean change of the
/// weights is the gradient of an outer step.
///
///     each step:        w_r = inner(w_r, mean over this rank's micro-batches of weight * g)
///     every H steps:    g = theta - sum over ranks of w_r / P
///                       theta = outer(theta, g);    w_r = theta, inner states stay
///
/// Weights are cut into F fragments of equal size; the outer step of fragment f is due after
/// floor(H (f + 1) / F) steps, and every H steps again. With Overlap::none the step that makes a fragment due
/// ends with its outer step; with Overlap::mix the outer step runs beside the next step:
///
///     w_r = mix w_r + (1 - mix) theta'        theta' from the w_r of the step before
///
/// With Overlap::eager each rank, every H steps, starts from the newest outer weights that have arrived and applies the
/// outer rule to them with its own difference alone. The differences of all ranks are then sent in F parts, each
/// beside a step, and give the next outer weights:
///
///     d_r = s_r - w_r;   w_r = s_r = outer(theta, d_r / P), with outer states of its own
///     meanwhile:         theta = outer(theta, sum over ranks of d_r / P)
///
/// With a codec for pseudo-gradients (compress::PseudoGradient, Overlap::none or mix) each rank keeps theta whole, and
/// ranks send their encoded differences from theta:
///
///     d_r = decode(encode(theta - w_r + what the codec remembers))      to all ranks, its own included
///     g = sum over ranks of c_r d_r, in their order, / P                or / the count of its senders (Divisor)
///     theta = outer(theta, g) on every rank, the same bits
///
/// c_r is 1, or with clip_to_median_norm min(1, median / |d_r|), of each parameter in the fragment; the median of an
/// even number is the lower one. SparseLoCo is DiLoCo<AdamW, Sgd> with
/// codec::ErrorFeedback<codec::Chain<codec::ChunkTopK, codec::TwoBit>>: the residual, with its decay, replaces the
/// outer momentum. Chunks begin anew at each parameter. A piece is the part of a fragment in one bucket; a rank's
/// message of a piece is one codec message for each parameter, one after the other, so that bits do not depend on
/// buckets. With a lossless codec g differs from theta - mean of w_r by rounding alone: differences are summed, not
/// weights.
///
/// | state   | per weight: the inner rule's states, and for bf16 a master weight, whole; theta and the outer rule's   |
/// |         | states, / P                                                                                            |
/// | memory  | besides, the gradient; with Overlap::mix, during an outer step, the buffer of a fragment; with         |
/// |         | Overlap::eager s_r, its own outer states, and buffers to send and receive. AdamW in fp32, bytes a      |
/// |         | weight: 16 + 8 / P; mix 16 + 4 / F + 8 / P; eager 28 + 8 / P With a codec: theta, the outer rule's     |
/// |         | states and the codec's memory whole, 16 + 4 + 4 for SparseLoCo; and while a piece is summed, P         |
/// |         | differences of it                                                                                      |
/// | wire    | per rank and H steps, for n weights, 2 (P-1)/P n numbers of sum_t<T>, n / F at a time; with a codec at |
/// |         | most its message of n numbers to each of P-1 other ranks; nothing else: losses and norms are each      |
/// |         | rank's own, and so are clipping and the finite check                                                   |
/// | learns  | eager rounds apply late differences, which the outer momentum repeats: they want less momentum than    |
/// |         | blocking rounds, 0.5 or 0 instead of 0.9                                                               |
/// | hides   | mix, eager: an outer step of n / F weights that takes no longer than one step                          |
/// | weights | evaluate() and save() gather theta, as of each fragment's last outer step, and parameter() reads it    |
/// |         | then. set_parameter() sets theta and every rank's own                                                  |
/// | steps   | are inner steps, also for the learning rate and StepResult; loss and norm are those of this rank. A    |
/// |         | rank that skips a step counts it                                                                       |
/// | errors  | OptionError: a codec with Overlap::eager, `senders` or the clip without a codec, the clip on a device  |
/// |         | that is not the host; H < 1, F not in [1, H], mix not in [0, 1), an outer rule that decays weights,    |
/// |         | virtual ranks. A loss or gradient that is not finite throws on its rank alone; the others hear of it   |
/// |         | as MpiError                                                                                            |
///
/// Source: Douillard et al., DiLoCo, arXiv 2311.08105, algorithm 1 (H 500 there, outer learning rate 0.7, Nesterov's
/// momentum 0.9); Douillard et al., Streaming DiLoCo, arXiv 2501.18512, algorithm 2 (mix is its alpha, and tau is 1);
/// Kale et al., Eager updates, arXiv 2502.12996: each rank's outer gradient is its own new difference / P and the
/// others' of the time before / P. For a linear outer rule (Sgd, Momentum, Nesterov) this is the same as here: the
/// states of such gradients are the sum of the states of late means, which owners keep, and of own differences.
/// Deviations: a fragment is a range of the parameter layout in blocks of 4096, not a set of layers, so that fragments
/// are of one size and bits do not depend on buckets. Except in eager rounds, ranks send weights, from which the owner
/// computes g, so that only the owner keeps theta. SparseLoCo, arXiv 2508.15706, algorithm 1; the clip and the residual
/// decay 0.95 are those of Covenant-72B, arXiv 2603.08163, whose code divides by senders, where the papers write 1 / P.
/// The papers do not mention ranks with more or fewer micro-batches; here each rank counts the same.
///
/// \code
/// using MyTrainer = Trainer<optim::DiLoCo<optim::AdamW>>;
/// MyTrainer::Options options;
/// options.optim.every = 500;
/// options.optim.fragments = 4;
/// options.optim.overlap = optim::DiLoCo<optim::AdamW>::Overlap::mix;
/// \endcode
template <update_rule Inner, update_rule Outer = Nesterov>
struct DiLoCo {
  using policy_tag = OptimTag;
  using Rule = Inner;
  using Overlap = run::OuterSchedule::Overlap;
  static constexpr std::string_view name = "diloco";
  static constexpr bool sharded = false;
  static constexpr Payload accepts = Payload::dense | Payload::differences;
  static constexpr bool needs_scalars = true;
  static constexpr bool supports_offload = true;
  static constexpr bool weights_are_committed = false;
  static constexpr bool keeps_matrices_whole = true;  ///< true: shards cut no matrix of the inner update rule
  static_assert(!needs_whole_matrices<Outer>,
                "reef::optim::DiLoCo<Inner, Outer>: Outer goes element by element, as Nesterov; an outer step is of "
                "shards of fragments, which cut matrices.");
  static_assert(
      rule_count<Outer> == 1,
      "reef::optim::DiLoCo<Inner, Outer>: Outer is one rule, as Nesterov; groups of parameters are of Inner.");

  /// The divisor of the sum of the ranks' decoded differences, for each number: the number of ranks, or the number of
  /// ranks that have sent this number, which is where their decoded difference is not 0.
  enum class Divisor : std::uint8_t { peers, senders };

  /// The options of the policy DiLoCo, given as TrainerOptions::optim.
  struct Options {
    int every = 50;     ///< number H of inner steps between outer steps of a weight
    int fragments = 1;  ///< number F of fragments into which the weights are cut
    Overlap overlap = Overlap::none;
    double mix = 0.5;  ///< the fraction of its own weights that a rank keeps at an outer step, with Overlap::mix
    Outer outer{};
    double outer_learning_rate = 0.7;
    /// Divisor of the sum of differences; needs a codec for pseudo-gradients, as the next option does.
    Divisor divisor = Divisor::peers;
    /// True scales a rank's decoded difference of a parameter down to the median norm of all ranks' differences, if its
    /// norm is above.
    bool clip_to_median_norm = false;

    /// Throws OptionError that names the first impossible option of DiLoCo.
    void validate() const {
      if (every < 1 || fragments < 1 || fragments > every) {
        throw OptionError("reef::optim::DiLoCo: ", fragments, " fragments every ", every,
                          " steps.\n  fix: every >= 1, and from 1 to `every` fragments.");
      }
      if (!within(mix, 0, 1) || mix == 1) {
        throw OptionError("reef::optim::DiLoCo: mix is ", mix,
                          ".\n  why: at 1 nothing of what arrives is taken.\n  fix: 0 <= mix < 1.");
      }
      detail::require_option(within(outer_learning_rate, 0, 1e3), "DiLoCo", "outer_learning_rate",
                             outer_learning_rate, "from 0 to 1e3");
      if constexpr (requires { outer.validate(); }) outer.validate();
      if constexpr (requires { outer.options.weight_decay; }) {
        if (outer.options.weight_decay != 0) {
          throw OptionError(
              "reef::optim::DiLoCo: the outer rule has weight_decay = ", outer.options.weight_decay,
              ".\n  why: an outer step moves weights by what ranks did, and decays none."
              "\n  fix: 0 there, and a decay of the inner rule.");
        }
      }
    }
  };

  /// Sets plan.outer_schedule, when each part of the weights takes an outer step. Throws OptionError if one process
  /// stands for several ranks (virtual_ranks above 1).
  static void plan(run::StepPlan& plan, const Options& options) {
    if (plan.virtual_ranks > 1) {
      throw OptionError("reef::optim::DiLoCo: virtual_ranks is ", plan.virtual_ranks,
                        ".\n  why: ranks have weights of their own between outer steps.\n"
                        "  fix: virtual_ranks = 1, and as many ranks.");
    }
    plan.outer_schedule = {options.every, options.fragments, options.overlap};
    plan.gathers[static_cast<std::size_t>(schedule::Traffic::pseudo_gradient)] = true;
  }
  static int variants(const run::StepPlan& plan) { return 1 + plan.outer_schedule.fragments; }
  static int variant_after(const run::StepPlan& plan, std::int64_t began, std::int64_t committed) {
    return detail::variant_after(plan.outer_schedule, began, committed);
  }
  static std::int64_t unsynchronised(const run::StepPlan& plan, std::int64_t began,
                                     std::int64_t steps) {
    return detail::unsynchronised(plan.outer_schedule, began, steps);
  }
  static std::int64_t longer_run(const run::StepPlan& plan, std::int64_t began,
                                 std::int64_t steps) {
    return detail::longer_run(plan.outer_schedule, began, steps);
  }

  static void reserve(run::StepBuilder& builder) {
    detail::OuterProgram::reserve(builder, Inner::states, Outer::states);
  }
  static void add(run::StepBuilder& builder, const run::Pass& model) {
    detail::OuterProgram(builder, Inner::states, Outer::states).add(model);
  }
  static std::vector<StateRange> state(const run::StepBuilder& builder) {
    return detail::OuterProgram::state(builder, Inner::states, Outer::states);
  }
  template <class Handlers, class RankContext, class CodeOptions>
  static void add_code(Handlers& handlers, const RankContext& context, const CodeOptions& options) {
    detail::add_outer_code(handlers, context, options.rule, options.update, options.own);
  }
};

static_assert(periodic_policy<DiLoCo<AdamW>>);

}  // namespace optim
}  // namespace v0
}  // namespace reef
