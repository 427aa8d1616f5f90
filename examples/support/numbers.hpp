#pragma once

#include <reef/core/numbers.hpp>

namespace reef_examples {

using reef::parse_number;

}  // namespace reef_examples
