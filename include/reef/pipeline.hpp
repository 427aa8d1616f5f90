#pragma once

/// \file
/// Everything in pipeline/: the policies that decide which rank runs which part of the model, and when.

#include <reef/pipeline/asynchronous.hpp>
#include <reef/pipeline/concept.hpp>
#include <reef/pipeline/folded.hpp>
#include <reef/pipeline/gpipe.hpp>
#include <reef/pipeline/interleaved.hpp>
#include <reef/pipeline/kinds.hpp>
#include <reef/pipeline/one_f_one_b.hpp>
#include <reef/pipeline/ordered.hpp>
#include <reef/pipeline/scheduled.hpp>
#include <reef/pipeline/searched.hpp>
#include <reef/pipeline/single.hpp>
#include <reef/pipeline/three_slot.hpp>
#include <reef/pipeline/zero_bubble.hpp>
