#pragma once

#include <cstdio>
#include <cstdlib>
#include <exception>
#include <string>
#include <vector>

#include <reef/comm/environment.hpp>

namespace reef_bench {

/// The main of a program of ranks that takes its arguments as they stand: what `run` throws ends it
/// with a sentence.
inline int ranks_main(int argc, char** argv, const char* name,
                      void (*run)(const std::vector<std::string>& arguments)) {
  try {
    const reef::comm::Environment environment(argc, argv);
    run({argv + 1, argv + argc});
    return EXIT_SUCCESS;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s: %s\n", name, error.what());
    return EXIT_FAILURE;
  }
}

}  // namespace reef_bench
