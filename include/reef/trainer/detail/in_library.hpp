#pragma once

#include <memory>

#include <reef/core/inline.hpp>
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
#include <reef/trainer/detail/diagnosis.hpp>

/// \file
/// What no policy changes of a Trainer on the host in fp32: with the compiled library, it comes from there.

#ifdef REEF_COMPILED
namespace reef {
inline namespace v0 {
namespace detail {

using HostHandlers = run::Handlers<device::Host>;
using HostContext = run::RankContext<device::Host, float, float>;

}  // namespace detail

/// Declares them, with `extern`; without it, in the one unit that has them, defines them.
#define REEF_TRAINER_IN_LIBRARY(declared)                                                                            \
  declared template class run::Executable<device::Host, float>;                                                      \
  declared template class run::Arenas<device::Host>;                                                                 \
  declared template class run::Lanes<device::Host>;                                                                  \
  declared template void optim::add_decision_code(reef::detail::HostHandlers&, const reef::detail::HostContext&,                 \
                                                  optim::UpdateOptions);                                             \
  declared template void optim::add_weigh_code(reef::detail::HostHandlers&, const reef::detail::HostContext&,                    \
                                               optim::UpdateOptions);                                                \
  declared template void optim::detail::add_collective_code(reef::detail::HostHandlers&, const reef::detail::HostContext&);      \
  declared template void detail::add_diagnosis_code(reef::detail::HostHandlers&, const reef::detail::HostContext&,               \
                                                    std::shared_ptr<detail::Finding>);

extern template class graph::Graph<device::Host, float>;
REEF_TRAINER_IN_LIBRARY(extern)

}  // namespace v0
}  // namespace reef
#endif
