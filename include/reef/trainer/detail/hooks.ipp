#pragma once

#include <cstddef>
#include <iterator>
#include <string_view>
#include <utility>
#include <vector>

#include <reef/core/error.hpp>
#include <reef/core/inline.hpp>
#include <reef/trainer/detail/hooks.hpp>

namespace reef {
inline namespace v0 {
namespace detail {

REEF_INLINE void require_verdict(const run::StepBuilder& builder, std::string_view optimizer) {
  using run::Purpose;
  if (builder.purpose == Purpose::prologue || builder.purpose == Purpose::gather_committed) return;
  const bool evaluates = builder.purpose == Purpose::evaluation;
  const auto refuse = [&](const auto&... what) {
    throw ScheduleError("reef::Trainer: the optimizer policy '", optimizer, "' has written ",
                        evaluates ? "an evaluation" : "a step", " that ", what...,
                        ".\n  why: loss, norm and whether the step counts are read from a Verdict in "
                        "host memory.\n  fix: optim::add_decision in add(), also of an evaluation; or "
                        "an instruction whose code fills the storage that builder.verdict names.");
  };
  const run::StorageId verdict = builder.verdict;
  if (verdict == run::no_storage) refuse("has no decision: builder.verdict is not set");
  const schedule::Storage& storage = builder.program.storages.at(verdict);
  if (storage.place != schedule::Place::host || storage.bytes < sizeof(optim::Verdict)) {
    refuse("has its verdict in '", storage.name, "', which has ", storage.bytes, " bytes of ",
           storage.place == schedule::Place::host ? "host" : "device", " memory");
  }
  for (const schedule::Instruction& i : builder.program.round) {
    for (const auto* values : {&i.writes, &i.accumulates}) {
      for (const run::Value value : *values) {
        if (value.storage == verdict) return;
      }
    }
  }
  refuse("never writes its verdict");
}

REEF_INLINE void require_tied_buffer(const run::StepBuilder& builder, std::string_view optimizer) {
  for (std::size_t p = 0; p < builder.tied_weights.size(); ++p) {
    if (builder.tied_weights[p] == run::no_storage || builder.tied_buffer[p] != run::no_storage) continue;
    throw ScheduleError(
        "reef::Trainer: the optimizer policy '", optimizer, "' reserves no place for the committed weights of ",
        builder.plan.dag->parameters[p].name,
        ", which another stage owns.\n"
        "  why: it trains ahead of them, and rank ",
        builder.rank(),
        " uses them too.\n"
        "  fix: builder.tied_buffer in reserve(), and run::add_tied_weights; or cuts that leave its uses "
        "on one stage.");
  }
}

REEF_INLINE void keep_verdict(run::StepBuilder& builder) {
  if (builder.verdict == run::no_storage) return;
  schedule::Program& program = builder.program;
  schedule::Storage& region = program.storages[program.region_of(builder.verdict).first];
  if (region.life == run::Life::round) region.life = run::Life::reserved;
}

REEF_INLINE void append(run::StepBuilder& builder, void (*pass)(run::StepBuilder&)) {
  std::vector<schedule::Instruction> round = std::exchange(builder.program.round, {});
  pass(builder);
  std::move(builder.program.round.begin(), builder.program.round.end(), std::back_inserter(round));
  builder.program.round = std::move(round);
}

}  // namespace detail
}  // namespace v0
}  // namespace reef
