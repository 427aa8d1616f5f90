#pragma once

#include <string>

#include "options.hpp"

namespace reef_generate {

/// Tells the classes of the prompts that options name, by an adapter or a model with a class head, or how many labels of
/// the file to score are told right: returns the answer, lines of text, or JSON.
std::string classify(const Options& options);

}  // namespace reef_generate
