#pragma once

/// \file
/// Everything in profile/: a model's operators as figures, measured or estimated.

#include <reef/profile/profile.hpp>
#include <reef/profile/profile_json.hpp>
