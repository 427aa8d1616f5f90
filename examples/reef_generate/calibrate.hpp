#pragma once

#include <functional>
#include <string>
#include <vector>

#include <reef/device/host.hpp>
#include <reef/graph/graph.hpp>
#include <reef/nn/input_magnitudes.hpp>

#include "options.hpp"

namespace reef_generate {

/// Sets a parameter of a session, by its name.
using SetParameter = std::function<void(const std::string&, const std::vector<float>&)>;

/// Runs a model over the texts of --calibrate, with weights in bf16, and returns the largest magnitudes of its matrices'
/// inputs; none without that option. `read` reads the weights. Throws OptionError for a file without texts, and where no
/// tokenizer is.
reef::nn::InputMagnitudes calibrate(const Options& options, reef::device::Host& host,
                                    const reef::graph::Graph<reef::device::Host, float>& model,
                                    const std::function<void(const SetParameter&)>& read);

}  // namespace reef_generate
