#pragma once

/// \file
/// Everything in optim/: update rules, and the policies that synchronise ranks' gradients and weights.

#include <reef/optim/acco.hpp>
#include <reef/optim/acco_wp.hpp>
#include <reef/optim/adamw.hpp>
#include <reef/optim/concept.hpp>
#include <reef/optim/ddp.hpp>
#include <reef/optim/decision.hpp>
#include <reef/optim/diloco.hpp>
#include <reef/optim/dpu.hpp>
#include <reef/optim/dpu_predicted.hpp>
#include <reef/optim/kinds.hpp>
#include <reef/optim/learning_rate.hpp>
#include <reef/optim/matrix_rule.hpp>
#include <reef/optim/momentum.hpp>
#include <reef/optim/muon.hpp>
#include <reef/optim/nesterov.hpp>
#include <reef/optim/own_decision.hpp>
#include <reef/optim/per_group.hpp>
#include <reef/optim/sgd.hpp>
#include <reef/optim/sign_sgd.hpp>
#include <reef/optim/update.hpp>
#include <reef/optim/verdict.hpp>
#include <reef/optim/views.hpp>
#include <reef/optim/zero1.hpp>
