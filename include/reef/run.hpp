#pragma once

/// \file
/// Everything in run/: what executes programs on devices and communicators.

#include <reef/run/bucket.hpp>
#include <reef/run/choice.hpp>
#include <reef/run/chunk_bounds.hpp>
#include <reef/run/costs.hpp>
#include <reef/run/executable.hpp>
#include <reef/run/executor.hpp>
#include <reef/run/fenced_stages.hpp>
#include <reef/run/fold.hpp>
#include <reef/run/handlers.hpp>
#include <reef/run/instructions.hpp>
#include <reef/run/kinds.hpp>
#include <reef/run/lanes.hpp>
#include <reef/run/memory.hpp>
#include <reef/run/messages.hpp>
#include <reef/run/operands.hpp>
#include <reef/run/parameter_group.hpp>
#include <reef/run/placed_program.hpp>
#include <reef/run/proof.hpp>
#include <reef/run/rank_context.hpp>
#include <reef/run/slots.hpp>
#include <reef/run/staging.hpp>
#include <reef/run/state_range.hpp>
#include <reef/run/step_builder.hpp>
#include <reef/run/step_code.hpp>
#include <reef/run/step_plan.hpp>
#include <reef/run/tied.hpp>
#include <reef/run/tied_code.hpp>
#include <reef/run/timetable.hpp>
#include <reef/run/topology.hpp>
#include <reef/run/transfers.hpp>
#include <reef/run/views.hpp>
#include <reef/run/weight_versions.hpp>
#include <reef/run/whole_matrices.hpp>
