#pragma once

/// \file
/// All of Reef except what needs CUDA. The header needs MPI and a BLAS, which the target reef::reef provides; a program
/// that includes only one folder, or one header, needs only what that folder or header needs.

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
