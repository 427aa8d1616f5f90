#pragma once

/// \file
/// Everything in profile/: a model's operators and the links between devices as figures, measured or estimated.

#include <reef/profile/fitted_speed.hpp>
#include <reef/profile/network.hpp>
#include <reef/profile/network_json.hpp>
#include <reef/profile/profile.hpp>
#include <reef/profile/profile_json.hpp>
