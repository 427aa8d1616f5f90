#pragma once

#include <string>

#include "options.hpp"

namespace reef_generate {

/// Scores the file that options name: returns the answer, one line of text, or JSON.
std::string score(const Options& options);

}  // namespace reef_generate
