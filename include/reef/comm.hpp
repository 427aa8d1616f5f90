#pragma once

/// \file
/// Everything in comm/: ranks, collectives with one order of summation, emulated networks.

#include <reef/comm/agreement.hpp>
#include <reef/comm/all_to_all.hpp>
#include <reef/comm/at_work.hpp>
#include <reef/comm/await_task.hpp>
#include <reef/comm/call_task.hpp>
#include <reef/comm/clock_offset.hpp>
#include <reef/comm/collectives.hpp>
#include <reef/comm/communicator.hpp>
#include <reef/comm/environment.hpp>
#include <reef/comm/error.hpp>
#include <reef/comm/functions.hpp>
#include <reef/comm/gather.hpp>
#include <reef/comm/link_probe.hpp>
#include <reef/comm/message.hpp>
#include <reef/comm/meter.hpp>
#include <reef/comm/mpi.hpp>
#include <reef/comm/mpi_handle.hpp>
#include <reef/comm/network_file.hpp>
#include <reef/comm/network_shape.hpp>
#include <reef/comm/node_cores.hpp>
#include <reef/comm/options.hpp>
#include <reef/comm/point_to_point.hpp>
#include <reef/comm/progress.hpp>
#include <reef/comm/queue.hpp>
#include <reef/comm/shards.hpp>
#include <reef/comm/shared_counter.hpp>
#include <reef/comm/stop_request.hpp>
#include <reef/comm/task.hpp>
