#pragma once

/// \file
/// Everything in trainer/: the Trainer, its rules, its checkpoints, the estimate of a step, and text generation.

#include <reef/trainer/checkpoint.hpp>
#include <reef/trainer/estimate.hpp>
#include <reef/trainer/generate.hpp>
#include <reef/trainer/model_state.hpp>
#include <reef/trainer/options.hpp>
#include <reef/trainer/rules.hpp>
#include <reef/trainer/settings.hpp>
#include <reef/trainer/step_result.hpp>
#include <reef/trainer/trainer.hpp>
#include <reef/trainer/training.hpp>
