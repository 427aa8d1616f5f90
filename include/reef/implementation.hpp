#pragma once

/// \file
/// The bodies of all functions of Reef, for one file of a program: a compiled library without a build of its own.
///
/// Every file of the program is compiled with -DREEF_COMPILED, and so compiles only declarations and templates. One
/// file, which need not contain anything else, and changes only when Reef changes, has the bodies:
///
///     #include <reef/implementation.hpp>
///
/// | kernels | those of nn::gpt on the host are among the bodies; other kernels stay with their templates       |
/// | MPI     | programs that link reef::core include <reef/core_implementation.hpp> instead, which needs no MPI |
/// | errors  | the linker names this header if no file or two files include it; #error if the flag is missing   |
/// | not for | programs that link reef::compiled: it is the same, built by CMake, with a file for each folder   |

#ifndef REEF_COMPILED
#include <reef/core_implementation.hpp>  // says what lacks
#else
#include <reef/comm/detail/flavour.hpp>
#include <reef/nn/detail/gpt_graph.hpp>
#include <reef/trainer/detail/in_library.hpp>

#include <reef/core_implementation.hpp>

#include <reef/comm/agreement.ipp>
#include <reef/comm/all_to_all.ipp>
#include <reef/comm/at_work.ipp>
#include <reef/comm/await_task.ipp>
#include <reef/comm/call_task.ipp>
#include <reef/comm/clock_offset.ipp>
#include <reef/comm/collectives.ipp>
#include <reef/comm/communicator.ipp>
#include <reef/comm/detail/callback_thread.ipp>
#include <reef/comm/detail/channels.ipp>
#include <reef/comm/detail/claims.ipp>
#include <reef/comm/detail/collective_scope.ipp>
#include <reef/comm/detail/control.ipp>
#include <reef/comm/detail/direct_exchange.ipp>
#include <reef/comm/detail/exchange_plan.ipp>
#include <reef/comm/detail/flight_recorder.ipp>
#include <reef/comm/detail/launch.ipp>
#include <reef/comm/detail/lifetime.ipp>
#include <reef/comm/detail/message_exchange.ipp>
#include <reef/comm/detail/names.ipp>
#include <reef/comm/detail/naps.ipp>
#include <reef/comm/detail/occupations.ipp>
#include <reef/comm/detail/peer_memory.ipp>
#include <reef/comm/detail/report.ipp>
#include <reef/comm/detail/returned_errors.ipp>
#include <reef/comm/detail/room.ipp>
#include <reef/comm/detail/shared_memory.ipp>
#include <reef/comm/detail/standing.ipp>
#include <reef/comm/detail/start.ipp>
#include <reef/comm/detail/window.ipp>
#include <reef/comm/detail/window_exchange.ipp>
#include <reef/comm/detail/wire.ipp>
#include <reef/comm/environment.ipp>
#include <reef/comm/error.ipp>
#include <reef/comm/functions.ipp>
#include <reef/comm/gather.ipp>
#include <reef/comm/link_probe.ipp>
#include <reef/comm/message.ipp>
#include <reef/comm/meter.ipp>
#include <reef/comm/node_cores.ipp>
#include <reef/comm/options.ipp>
#include <reef/comm/point_to_point.ipp>
#include <reef/comm/progress.ipp>
#include <reef/comm/shards.ipp>
#include <reef/comm/shared_counter.ipp>
#include <reef/comm/stop_request.ipp>
#include <reef/comm/task.ipp>
#include <reef/compress/detail/replanning.ipp>
#include <reef/compress/detail/replanning_by_probes.ipp>
#include <reef/nn/host/numerics.ipp>
#include <reef/run/detail/round_trace.ipp>
#include <reef/run/detail/segment_operands.ipp>
#include <reef/run/detail/step_table.ipp>
#include <reef/run/executable.ipp>
#include <reef/run/executor.ipp>
#include <reef/run/handlers.ipp>
#include <reef/run/lane_work.ipp>
#include <reef/run/lanes.ipp>
#include <reef/run/proof.ipp>
#include <reef/run/rank_context.ipp>
#include <reef/trainer/checkpoint.ipp>
#include <reef/trainer/detail/agreement.ipp>
#include <reef/trainer/detail/claim.ipp>
#include <reef/trainer/detail/diagnosis.ipp>
#include <reef/trainer/detail/engine.ipp>
#include <reef/trainer/detail/hooks.ipp>
#include <reef/trainer/detail/one_thread.ipp>
#include <reef/trainer/detail/plan_of_all.ipp>
#include <reef/trainer/detail/planning.ipp>
#include <reef/trainer/detail/policies.ipp>
#include <reef/trainer/settings.ipp>
#include <reef/trainer/training.ipp>

namespace reef {
inline namespace v0 {
namespace comm::detail {

const char REEF_COMPILED_COMM = 0;

}  // namespace comm::detail

REEF_TRAINER_IN_LIBRARY()
REEF_NN_GPT_OF_HOST()

}  // namespace v0
}  // namespace reef
#endif
