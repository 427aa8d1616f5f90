#pragma once

#include <cstdint>
#include <optional>

#include "../support/model_shape.hpp"

namespace reef_examples {

/// What a rank's device does, measured alone for a moment.
struct Speed {
  double product = 0;  ///< operations per second of a product of two matrices of 1024 x 1024
  double memory = 0;   ///< bytes per second of a sum in place, read and written
  double model =
      0;  ///< operations per second of the model's operators, forward and backward; 0: none
};

/// On so many threads of the host.
Speed measure_speed(int threads, const std::optional<ModelShape>& model);

}  // namespace reef_examples
