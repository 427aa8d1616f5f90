#pragma once

#include <cstdlib>
#include <string>

#include <reef/io/json.hpp>

namespace reef::test {

/// A file of known answers, from the folder that REEF_CASES names, else from tests/data.
inline io::Json read_case_file(const std::string& name) {
  const char* const folder = std::getenv("REEF_CASES");
  return io::read_json(std::string(folder != nullptr ? folder : REEF_TEST_DATA) + "/" + name);
}

}  // namespace reef::test
