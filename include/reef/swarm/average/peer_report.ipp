#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <utility>

#include <reef/core/inline.hpp>
#include <reef/core/text.hpp>
#include <reef/swarm/average/peer_report.hpp>

namespace reef {
inline namespace v0 {
namespace swarm {

namespace detail {

inline io::Json json_of(const core::LogTime& time) { return {{"epoch", time.epoch}, {"round", time.round}}; }

/// The lines of a page in Prometheus' text format.
class MetricLines {
public:
  /// Begins a metric. `type`: gauge or counter.
  void metric(std::string_view name, std::string_view type, std::string_view help) {
    name_ = concat("reef_swarm_", name);
    text_ += concat("# HELP ", name_, " ", help, "\n# TYPE ", name_, " ", type, "\n");
  }
  /// Appends a sample of the metric. `labels`: as "{a="b"}", or empty.
  template <class Number>
  void sample(const Number& value, std::string_view labels = {}) {
    text_ += concat(name_, labels, " ", value, "\n");
  }
  template <class Number>
  void single(std::string_view name, std::string_view type, std::string_view help, const Number& value) {
    metric(name, type, help);
    sample(value);
  }
  [[nodiscard]] std::string take() { return std::move(text_); }

private:
  std::string name_;
  std::string text_;
};

/// Returns a label with its value in quotes, escaped as the format wants: name="value".
inline std::string label(std::string_view name, std::string_view value) {
  std::string escaped;
  for (const char c : value) {
    if (c == '\n') {
      escaped += "\\n";
      continue;
    }
    if (c == '\\' || c == '"') escaped += '\\';
    escaped += c;
  }
  return concat(name, "=\"", escaped, "\"");
}

}  // namespace detail

REEF_INLINE io::Json to_json(const PeerReport& report) {
  const core::JobReport& job = report.job;
  io::Json peers = io::Json::array();
  for (const core::JobReport::Peer& peer : job.peers) {
    io::Json stays = io::Json::array();
    for (const core::Stay& stay : peer.stays) {
      io::Json one = io::Json::object();
      one["came"] = detail::json_of(stay.came);
      if (stay.went) one["went"] = detail::json_of(*stay.went);
      stays.push_back(std::move(one));
    }
    peers.push_back({{"peer", to_text(peer.id)},
                     {"name", peer.id.name},
                     {"stays", std::move(stays)},
                     {"rounds", peer.rounds},
                     {"micro_batches", peer.micro_batches}});
  }
  io::Json waited = io::Json::object();
  for (std::size_t cause = 0; cause < core::wait_causes; ++cause) {
    waited[std::string(core::name_of(static_cast<core::WaitCause>(cause)))] = report.waited[cause];
  }
  return {{"job", job.job},
          {"peer", to_text(report.id)},
          {"name", report.id.name},
          {"seconds", report.seconds},
          {"rounds", job.rounds},
          {"skipped", job.skipped},
          {"epoch", job.epoch},
          {"members", job.members},
          {"rollbacks", job.rollbacks},
          {"micro_batches",
           {{"committed", job.committed}, {"holes", job.holes}, {"quarantined", job.quarantined}}},
          {"peers", std::move(peers)},
          {"waited", std::move(waited)},
          {"sent_bytes", report.sent},
          {"received_bytes", report.received}};
}

REEF_INLINE std::string to_prometheus(const PeerReport& report) {
  const core::JobReport& job = report.job;
  const auto labels = [](const PeerId& id) {
    const std::string text = to_text(id);
    return concat(detail::label("peer", id.name), ",",
                  detail::label("incarnation", std::string_view(text).substr(id.name.size() + 1)));
  };
  detail::MetricLines lines;
  lines.metric("peer_info", "gauge", "The peer that tells, and its job.");
  lines.sample(1, concat("{", detail::label("job", job.job), ",", labels(report.id), "}"));
  lines.single("rounds", "gauge", "Committed rounds; fewer after a rollback.", job.rounds);
  lines.single("rounds_skipped", "gauge", "Committed rounds that changed no weight.", job.skipped);
  lines.single("epoch", "gauge", "Number of the membership.", job.epoch);
  lines.single("members", "gauge", "Members of the job.", job.members);
  lines.single("rollbacks_total", "counter", "Returns to an earlier round.", job.rollbacks);
  lines.metric("micro_batches", "gauge", "Micro-batches by what the log says of them.");
  lines.sample(job.committed, R"({state="committed"})");
  lines.sample(job.quarantined, R"({state="quarantined"})");
  lines.sample(job.holes, R"({state="hole"})");
  lines.metric("contributed_micro_batches", "gauge", "Committed micro-batches by peer.");
  for (const core::JobReport::Peer& peer : job.peers)
    lines.sample(peer.micro_batches, concat("{", labels(peer.id), "}"));
  lines.metric("contributed_rounds", "gauge", "Rounds that changed weights, by peers that are in them.");
  for (const core::JobReport::Peer& peer : job.peers) lines.sample(peer.rounds, concat("{", labels(peer.id), "}"));
  lines.metric("waited_seconds_total", "counter", "Seconds that this peer's trainer has waited, by cause.");
  for (std::size_t cause = 0; cause < core::wait_causes; ++cause) {
    const std::string_view name = core::name_of(static_cast<core::WaitCause>(cause));
    lines.sample(report.waited[cause], concat("{", detail::label("cause", name), "}"));
  }
  lines.single("seconds_total", "counter", "Seconds since this peer began.", report.seconds);
  lines.single("sent_bytes_total", "counter", "Bytes that this peer has sent to others.", report.sent);
  lines.single("received_bytes_total", "counter", "Bytes that this peer has received from others.", report.received);
  return lines.take();
}

}  // namespace swarm
}  // namespace v0
}  // namespace reef
