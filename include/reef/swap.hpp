#pragma once

/// \file
/// Everything in swap/: the policies that decide which parts of a model are in device memory, and when.

#include <reef/swap/atom.hpp>
#include <reef/swap/concept.hpp>
#include <reef/swap/kinds.hpp>
#include <reef/swap/layer_streaming.hpp>
#include <reef/swap/paper_atom.hpp>
#include <reef/swap/planner.hpp>
#include <reef/swap/resident.hpp>
#include <reef/swap/views.hpp>
