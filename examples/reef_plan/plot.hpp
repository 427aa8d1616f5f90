#pragma once

#include <algorithm>
#include <filesystem>
#include <string>
#include <vector>

#include <reef/core/text.hpp>
#include <reef/io/atomic_file.hpp>
#include <reef/plan/clusters.hpp>
#include <reef/profile/network.hpp>

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

/// A drawing of a case's network, which has "of" and the case's name in its title.
inline NetworkPlot plot_of(const PlanCase& test, const std::string& what,
                           const reef::profile::Network& network) {
  NetworkPlot plot;
  plot.title = reef::concat(what, " of ", std::filesystem::path(test.file).filename().string());
  plot.network = network;
  return plot;
}

/// "3.44 s".
inline std::string plot_seconds(double seconds) { return detail::plot_number(seconds) + " s"; }

/// Frames clusters, where there is something to frame: more than one, and some of several devices.
inline void frame_clusters(NetworkPlot& plot, const reef::plan::Clusters& clusters) {
  if (clusters.count > 1 && clusters.count < plot.network.devices) plot.labels = clusters.labels;
}

/// Frames the clusters of a network by its rates.
inline void frame_clusters(NetworkPlot& plot) {
  using namespace reef::plan;
  const int devices = plot.network.devices;
  if (devices > max_clustered_devices) return;
  frame_clusters(
      plot, clusters(cluster_weights(plot.network.rates, devices, ClusterWeights::log), devices));
}

}  // namespace reef_examples
