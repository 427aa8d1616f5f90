#pragma once

/// \file
/// Everything in plan/: planners that read profiles and networks and say what to do, as plain data.

#include <reef/plan/adatopk.hpp>
#include <reef/plan/adatopk_json.hpp>
#include <reef/plan/allocate.hpp>
#include <reef/plan/allocation.hpp>
#include <reef/plan/allocation_cost.hpp>
#include <reef/plan/allocation_json.hpp>
#include <reef/plan/atom_algorithm_1.hpp>
#include <reef/plan/balance.hpp>
#include <reef/plan/balance_round.hpp>
#include <reef/plan/block_choice.hpp>
#include <reef/plan/chain.hpp>
#include <reef/plan/chain_json.hpp>
#include <reef/plan/clusters.hpp>
#include <reef/plan/clusters_json.hpp>
#include <reef/plan/genetic_allocation.hpp>
#include <reef/plan/number_json.hpp>
#include <reef/plan/op_fence.hpp>
#include <reef/plan/partition.hpp>
#include <reef/plan/partition_chain.hpp>
#include <reef/plan/pipeline_plan.hpp>
#include <reef/plan/pipeline_problem.hpp>
#include <reef/plan/pipeline_problem_json.hpp>
#include <reef/plan/pipeline_time.hpp>
#include <reef/plan/route.hpp>
#include <reef/plan/route_json.hpp>
#include <reef/plan/router.hpp>
#include <reef/plan/split_in_order.hpp>
#include <reef/plan/swap_program.hpp>
#include <reef/plan/swap_schedule.hpp>
#include <reef/plan/swarm.hpp>
#include <reef/plan/swarm_json.hpp>
#include <reef/plan/variant.hpp>
