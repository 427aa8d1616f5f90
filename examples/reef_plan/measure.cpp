#include <filesystem>
#include <string>
#include <system_error>

#include <reef/core/text.hpp>

#include "commands.hpp"

namespace reef_examples {

namespace {

/// As it is called from here: that beside this program, where it is.
std::string name_of_program() {
  std::error_code ignored;
  const auto own = std::filesystem::read_symlink("/proc/self/exe", ignored);
  const auto beside = own.parent_path() / "reef-measure";
  return std::filesystem::exists(beside, ignored) ? beside.string() : "reef-measure";
}

}  // namespace

void add_measure(Commands& commands) {
  commands.add_hint("measure",
                    "how to measure a network: reef-plan has no MPI, reef-measure writes a case",
                    reef::concat("mpiexec -n P ", name_of_program(),
                                 " --output case.json measures the links between P ranks, one a "
                                 "machine, and the speed of their devices; --help says more"));
}

}  // namespace reef_examples
