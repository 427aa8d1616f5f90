#pragma once

/// \file
/// Everything in pipeline/: the policies of who runs which segment when.

#include <reef/pipeline/concept.hpp>
#include <reef/pipeline/single.hpp>
