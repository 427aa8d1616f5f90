#pragma once

#include <cstdint>
#include <iterator>
#include <string_view>
#include <utility>
#include <vector>

#include <reef/comm/progress.hpp>
#include <reef/core/error.hpp>
#include <reef/core/hash.hpp>
#include <reef/core/policy.hpp>
#include <reef/core/text.hpp>
#include <reef/optim/verdict.hpp>
#include <reef/run/rank_context.hpp>
#include <reef/run/state_range.hpp>
#include <reef/run/step_builder.hpp>
#include <reef/run/step_plan.hpp>

/// \file
/// What a policy of any of the four axes (swap, pipeline, compress, optim) may have beside its `add`. All
/// are static, and each may be absent:
///
/// | Options                              | a type: the policy's member of TrainerOptions, made by default; |
/// |                                      | `validate()`, if it has one, throws OptionError                 |
/// | plan(plan, options)                  | fills in or refuses a run::StepPlan, of all ranks               |
/// | reserve(builder)                     | storages that outlive a round, the same for every purpose       |
/// | add_code(handlers, context, options) | the code of the kinds of instructions that it adds              |
/// | before_step(progress, plan, options, | between steps, on all ranks before the next step:               |
/// |   state)                             | may communicate, and changes what it is about of run::StepState |
/// | state(builder)                       | run::StateRanges that a checkpoint keeps                        |
/// | hash(hash, options)                  | what ranks must have alike and programs do not show             |
///
/// They are called in the order optim, swap, pipeline, compress; `reserve` and `add` of all axes with one
/// builder. An optimizer's add_code gets optim::CodeOptions, since its rule and bounds are options of every
/// Trainer.

namespace reef {
inline namespace v0 {
namespace detail::hooks {

#define REEF_P4_HOOK_IS_CALLED                                                                   \
  "reef P4: a policy has a hook of that name which cannot be called as hooks are.\n"             \
  "  why: it would never be called, and nobody would notice.\n"                                  \
  "  fix: static, and with the parameters in the table of reef/trainer/detail/hooks.hpp.\n"      \
  "  see: docs/rules.md#p4"

template <class P>
void plan(run::StepPlan& plan, const options_of<P>& options) {
  if constexpr (requires { P::plan(plan, options); }) {
    P::plan(plan, options);
  } else {
    static_assert(!requires { &P::plan; }, REEF_P4_HOOK_IS_CALLED);
  }
}

template <class P>
void reserve(run::StepBuilder& builder) {
  if constexpr (requires { P::reserve(builder); }) {
    P::reserve(builder);
  } else {
    static_assert(!requires { &P::reserve; }, REEF_P4_HOOK_IS_CALLED);
  }
}

template <class P, class Handlers, class RankContext, class Options>
void add_code(Handlers& handlers, const RankContext& context, const Options& options) {
  if constexpr (requires { P::add_code(handlers, context, options); }) {
    P::add_code(handlers, context, options);
  } else {
    static_assert(!requires { &P::template add_code<Handlers, RankContext>; },
                  REEF_P4_HOOK_IS_CALLED);
  }
}

template <class P>
void before_step(comm::Progress& progress, const run::StepPlan& plan, const options_of<P>& options,
                 run::StepState& state) {
  if constexpr (requires { P::before_step(progress, plan, options, state); }) {
    P::before_step(progress, plan, options, state);
  } else {
    static_assert(!requires { &P::before_step; }, REEF_P4_HOOK_IS_CALLED);
  }
}

template <class P>
void add_state(std::vector<run::StateRange>& ranges, const run::StepBuilder& builder) {
  if constexpr (requires { P::state(builder); }) {
    std::vector<run::StateRange> own = P::state(builder);
    std::move(own.begin(), own.end(), std::back_inserter(ranges));
  } else {
    static_assert(!requires { &P::state; }, REEF_P4_HOOK_IS_CALLED);
  }
}

template <class P>
void add_to(Hash& hash, const options_of<P>& options) {
  if constexpr (requires { P::hash(hash, options); }) {
    P::hash(hash, options);
  } else {
    static_assert(!requires { &P::hash; }, REEF_P4_HOOK_IS_CALLED);
  }
}

/// For an error that says whose options differ: the hash of a policy's own.
template <class P>
std::uint64_t hash_of(const options_of<P>& options) {
  Hash hash;
  add_to<P>(hash, options);
  return hash.value();
}

template <class Options>
void validate(const Options& options) {
  if constexpr (requires { options.validate(); }) options.validate();
}

/// The state of a composition.
template <class Composition>
std::vector<run::StateRange> state_of(const run::StepBuilder& builder) {
  std::vector<run::StateRange> ranges;
  add_state<typename Composition::Optim>(ranges, builder);
  add_state<typename Composition::Swap>(ranges, builder);
  add_state<typename Composition::Pipeline>(ranges, builder);
  add_state<typename Composition::Compress>(ranges, builder);
  return ranges;
}

}  // namespace detail::hooks
}  // namespace v0
}  // namespace reef

namespace reef {
inline namespace v0 {
namespace detail {

/// Throws ScheduleError where an optimizer has written a step, or an evaluation, that comes to nothing.
void require_verdict(const run::StepBuilder& builder, std::string_view optimizer);

/// Throws ScheduleError where an optimizer that trains ahead of its committed weights has no place for those of tied
/// copies.
void require_tied_buffer(const run::StepBuilder& builder, std::string_view optimizer);

/// Calls `pass` with a builder whose round is empty; what it writes comes behind the round.
void append(run::StepBuilder& builder, void (*pass)(run::StepBuilder&));

/// The verdict is read when the round is over, so what comes behind it does not get its bytes.
void keep_verdict(run::StepBuilder& builder);

}  // namespace detail
}  // namespace v0
}  // namespace reef

#ifndef REEF_COMPILED
#include <reef/trainer/detail/hooks.ipp>
#endif
