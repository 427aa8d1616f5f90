#pragma once

#include <cstdlib>
#include <string>

#include <reef/core/text.hpp>
#include <reef/device/instruction_set.hpp>

namespace reef::test {

/// Why a test under REEF_INSTRUCTION_SET would not run under that set; empty where it does.
inline std::string missing_instruction_set() {
  const char* const wanted = std::getenv("REEF_INSTRUCTION_SET");
  if (wanted == nullptr || *wanted == '\0' || device::name_of(device::instruction_set()) == wanted) return {};
  return concat("this processor has no ", wanted);
}

}  // namespace reef::test
