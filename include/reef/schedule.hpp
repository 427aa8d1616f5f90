#pragma once

/// \file
/// Everything in schedule/: ranks' programs (lists of instructions), their proof, memory layout and simulation.

#include <reef/schedule/dependencies.hpp>
#include <reef/schedule/hash.hpp>
#include <reef/schedule/placement.hpp>
#include <reef/schedule/program.hpp>
#include <reef/schedule/recording.hpp>
#include <reef/schedule/rewriter.hpp>
#include <reef/schedule/simulate.hpp>
#include <reef/schedule/skeleton.hpp>
#include <reef/schedule/skeleton_encoding.hpp>
#include <reef/schedule/skeleton_of.hpp>
#include <reef/schedule/transfer_order.hpp>
#include <reef/schedule/verify.hpp>
#include <reef/schedule/world.hpp>
