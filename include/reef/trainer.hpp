#pragma once

/// \file
/// Everything in trainer/: the Trainer, its rules and its checkpoints.

#include <reef/trainer/checkpoint.hpp>
#include <reef/trainer/options.hpp>
#include <reef/trainer/rules.hpp>
#include <reef/trainer/trainer.hpp>
