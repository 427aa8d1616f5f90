#pragma once

#include <array>
#include <vector>

#include <reef/comm/progress.hpp>
#include <reef/io/json.hpp>
#include <reef/run/links.hpp>
#include <reef/schedule/program.hpp>
#include <reef/trace/report.hpp>

// What links carry, as reef-train tells it: by channel in each line of the metrics, by link at the end.

namespace reef_examples {

using Channels = std::array<reef::run::LinkUse, reef::schedule::traffic_count>;

/// By reef::schedule::Traffic.
Channels channels_of(const reef::run::LinkTable& links);

/// Numbers that add up over ranks, and what they stand for.
std::vector<double> figures_of(const Channels& channels);
inline constexpr std::size_t link_figures = 7 * reef::schedule::traffic_count;
Channels channels_of_figures(const double* sums);

/// An object by channel, of those that carried something. Of `ranks`: the seconds are their mean.
reef::io::Json json_of(const Channels& channels, int ranks);

/// Of all ranks, on rank 0; nothing elsewhere. All ranks.
reef::run::LinkTable links_of_ranks(reef::comm::Progress& progress, const reef::run::LinkTable& own);

/// A list of links.
reef::io::Json json_of(const reef::run::LinkTable& links);

std::vector<reef::trace::ReportLink> report_links(const reef::run::LinkTable& links);

}  // namespace reef_examples
