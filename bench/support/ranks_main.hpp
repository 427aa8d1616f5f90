#pragma once

#include <concepts>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <string>
#include <vector>

#include <reef/comm/environment.hpp>

namespace reef_bench {

/// The main of a program of ranks: `run(argc, argv)` is its exit status. What that throws ends it with a
/// sentence, without the end of MPI, which would wait for ranks that may not come.
template <std::invocable<int, char**> F>
int ranks_main(int argc, char** argv, const char* name, const F& run) {
  try {
    const reef::comm::Environment environment(argc, argv);
    return run(argc, argv);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s: %s\n", name, error.what());
    return EXIT_FAILURE;
  }
}

/// Of one that takes its arguments as they stand.
inline int ranks_main(int argc, char** argv, const char* name,
                      void (*run)(const std::vector<std::string>& arguments)) {
  return ranks_main(argc, argv, name, [run](int count, char** words) {
    run({words + 1, words + count});
    return EXIT_SUCCESS;
  });
}

}  // namespace reef_bench
