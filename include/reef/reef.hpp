#pragma once

/// \file
/// All of Reef but what needs CUDA. It needs MPI and a BLAS, which the target reef::reef brings; a
/// program that includes one folder, or one header, needs what that needs alone.

#include <reef/codec.hpp>
#include <reef/comm.hpp>
#include <reef/compress.hpp>
#include <reef/core.hpp>
#include <reef/data.hpp>
#include <reef/device.hpp>
#include <reef/graph.hpp>
#include <reef/io.hpp>
#include <reef/nn.hpp>
#include <reef/optim.hpp>
#include <reef/pipeline.hpp>
#include <reef/plan.hpp>
#include <reef/profile.hpp>
#include <reef/run.hpp>
#include <reef/schedule.hpp>
#include <reef/swap.hpp>
#include <reef/trace.hpp>
#include <reef/trainer.hpp>
