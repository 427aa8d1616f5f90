#include "link_figures.hpp"

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

#include <reef/comm/gather.hpp>

namespace reef_examples {

namespace {

using reef::io::Json;
using reef::run::LinkTable;
using reef::run::LinkUse;
using reef::schedule::Traffic;

/// "activation_gradient".
std::string key_of(Traffic traffic) {
  std::string key(reef::schedule::name_of(traffic));
  for (char& c : key) {
    if (c == ' ' || c == '-') c = '_';
  }
  return key;
}

std::optional<Traffic> traffic_of(const std::string& key) {
  for (std::size_t t = 0; t < reef::schedule::traffic_count; ++t) {
    if (key == key_of(static_cast<Traffic>(t))) return static_cast<Traffic>(t);
  }
  return std::nullopt;
}

bool is_used(const LinkUse& use) { return use.wire() > 0 || use.exposed > 0; }

Json json_of(const LinkUse& use, double exposed) {
  const std::optional<double> error = use.relative_error();
  return {{"messages", use.sent.messages}, {"raw_bytes", use.raw}, {"wire_bytes", use.wire()}, {"ratio", use.ratio()},
          {"exposed_s", exposed},          {"error", error && std::isfinite(*error) ? Json(*error) : Json()}};
}

/// All of it, from rank to rank.
std::string encoded(const LinkTable& table) {
  Json rows = Json::array();
  for (const auto& [link, use] : table.uses) {
    rows.push_back({key_of(link.traffic), link.from, link.to, link.group, use.sent.messages, use.sent.bytes,
                    use.sent.window_bytes, use.raw, use.exposed, use.numbers, use.lost, use.unmeasured});
  }
  return rows.dump();
}

LinkTable decoded(const std::string& text) {
  LinkTable table;
  for (const Json& row : reef::io::parse_json(text, "the links of a rank")) {
    const auto traffic = traffic_of(row.at(0).get<std::string>());
    if (!traffic) continue;
    const auto whole = [&row](std::size_t at) { return row.at(at).get<std::uint64_t>(); };
    LinkUse& use = table.uses[{*traffic, row.at(1).get<int>(), row.at(2).get<int>(), row.at(3).get<std::string>()}];
    use.sent = {whole(4), whole(5), whole(6)};
    use.raw = whole(7);
    use.exposed = row.at(8).get<double>();
    use.numbers = row.at(9).is_null() ? NAN : row.at(9).get<double>();  // JSON has none that is not finite
    use.lost = row.at(10).is_null() ? NAN : row.at(10).get<double>();
    use.unmeasured = row.at(11).get<bool>();
  }
  return table;
}

}  // namespace

Channels channels_of(const LinkTable& links) {
  Channels channels;
  for (const auto& [link, use] : links.uses) channels[static_cast<std::size_t>(link.traffic)] += use;
  return channels;
}

std::vector<double> figures_of(const Channels& channels) {
  std::vector<double> figures;
  for (const LinkUse& use : channels) {
    for (const double figure : {static_cast<double>(use.sent.messages), static_cast<double>(use.raw),
                                static_cast<double>(use.wire()), use.exposed, use.numbers, use.lost, use.unmeasured ? 1.0 : 0.0}) {
      figures.push_back(figure);
    }
  }
  return figures;
}

Channels channels_of_figures(const double* sums) {
  const auto whole = [](double number) { return static_cast<std::uint64_t>(std::llround(number)); };
  Channels channels;
  for (LinkUse& use : channels) {
    use.sent = {whole(sums[0]), whole(sums[2]), 0};
    use.raw = whole(sums[1]);
    use.exposed = sums[3];
    use.numbers = sums[4];
    use.lost = sums[5];
    use.unmeasured = sums[6] > 0;
    sums += 7;
  }
  return channels;
}

Json json_of(const Channels& channels, int ranks) {
  Json object = Json::object();
  for (std::size_t t = 0; t < channels.size(); ++t) {
    if (!is_used(channels[t])) continue;
    object[key_of(static_cast<Traffic>(t))] = json_of(channels[t], channels[t].exposed / ranks);
  }
  return object;
}

LinkTable links_of_ranks(reef::comm::Progress& progress, const LinkTable& own) {
  LinkTable all;
  for (const std::string& text : reef::comm::gather_texts(progress, "links", encoded(own))) all += decoded(text);
  return all;
}

Json json_of(const LinkTable& links) {
  Json list = Json::array();
  for (const auto& [link, use] : links.uses) {
    if (!is_used(use)) continue;
    Json row = json_of(use, use.exposed);
    row["channel"] = key_of(link.traffic);
    if (link.from < 0) {
      row["group"] = link.group;
    } else {
      row["from"] = link.from;
      row["to"] = link.to;
    }
    list.push_back(std::move(row));
  }
  return list;
}

std::vector<reef::trace::ReportLink> report_links(const LinkTable& links) {
  std::vector<reef::trace::ReportLink> all;
  for (const auto& [link, use] : links.uses) {
    if (!is_used(use)) continue;
    all.push_back({std::string(reef::schedule::name_of(link.traffic)), link.text(), use.sent.messages, use.raw, use.wire(),
                   use.relative_error(), use.exposed});
  }
  return all;
}

}  // namespace reef_examples
