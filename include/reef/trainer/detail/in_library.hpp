#pragma once

#include <memory>

#include <reef/core/precision.hpp>
#include <reef/device/host.hpp>
#include <reef/device/sum_of_squares.hpp>
#include <reef/device/transform.hpp>
#include <reef/graph/graph.hpp>
#include <reef/optim/decision.hpp>
#include <reef/optim/detail/synchronous_code.hpp>
#include <reef/optim/update.hpp>
#include <reef/run/executable.hpp>
#include <reef/run/handlers.hpp>
#include <reef/run/rank_context.hpp>
#include <reef/run/step_code.hpp>
#include <reef/trainer/detail/diagnosis.hpp>

/// \file
/// What no policy changes of a Trainer on the host, of any precision: with the compiled library, it comes from there.

#ifdef REEF_COMPILED
namespace reef {
inline namespace v0 {
namespace detail {

using HostHandlers = run::Handlers<device::Host>;

template <class Precision>
using HostContext = run::RankContext<device::Host, typename Precision::type, precision::gradient_t<Precision>>;

}  // namespace detail

/// Declares them of a precision, with `extern`; without it, in the one unit that has them, defines them.
#define REEF_TRAINER_OF_PRECISION(declared, Precision)                                                    \
  declared template void run::add_step_code(reef::detail::HostHandlers&,                                  \
                                            const reef::detail::HostContext<Precision>&);                 \
  declared template void optim::add_decision_code(reef::detail::HostHandlers&,                            \
                                                  const reef::detail::HostContext<Precision>&,            \
                                                  optim::UpdateOptions);                                  \
  declared template void optim::add_weigh_code(reef::detail::HostHandlers&,                               \
                                               const reef::detail::HostContext<Precision>&,               \
                                               optim::UpdateOptions);                                     \
  declared template void optim::detail::add_collective_code(reef::detail::HostHandlers&,                  \
                                                            const reef::detail::HostContext<Precision>&); \
  declared template void detail::add_diagnosis_code(reef::detail::HostHandlers&,                          \
                                                    const reef::detail::HostContext<Precision>&,          \
                                                    std::shared_ptr<detail::Finding>);

#define REEF_TRAINER_IN_LIBRARY(declared)                          \
  REEF_TRAINER_OF_PRECISION(declared, reef::precision::Fp32)       \
  REEF_TRAINER_OF_PRECISION(declared, reef::precision::Fp64)       \
  REEF_TRAINER_OF_PRECISION(declared, reef::precision::Bf16)

extern template class graph::Graph<device::Host, float>;
REEF_TRAINER_IN_LIBRARY(extern)

}  // namespace v0
}  // namespace reef
#endif
