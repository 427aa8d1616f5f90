#pragma once

#include <string>

#include <reef/io/atomic_file.hpp>

#include "../support/network_plot.hpp"
#include "commands.hpp"

namespace reef_examples {

/// The option --plot of a command that plans for a network: `file` is where to draw it, or empty.
inline CLI::Option* add_plot(Commands& commands, CLI::App* command, std::string& file) {
  return commands.add_output(
      command, "--plot", Output::drawing, file,
      "draw the network and the plan to this file, an SVG; near is what has fast links");
}

/// Draws where a file was asked for. Throws FileError, and what network_svg does.
inline void write_plot(const std::string& file, const NetworkPlot& plot) {
  write_output(file, [&] { reef::io::write_atomically(file, network_svg(plot)); });
}

}  // namespace reef_examples
