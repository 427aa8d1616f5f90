// What a training on several ranks leaves in the sink, merged on rank 0, read as strictly as the
// format's readers do.

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <map>
#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <vector>

#include <reef/comm/gather.hpp>
#include <reef/device/host.hpp>
#include <reef/optim/adamw.hpp>
#include <reef/optim/zero1.hpp>
#include <reef/trace/chrome.hpp>
#include <reef/trace/encoding.hpp>
#include <support/small_gpt.hpp>

#include "trace_format.hpp"

namespace reef::test {

namespace {

using Tested = Trainer<optim::Zero1<optim::AdamW>>;

constexpr Seconds rounding = 1e-8;  // of a time in the file

/// The recordings of all ranks of a training, on rank 0; nothing elsewhere.
std::vector<trace::Recording> train_and_gather(comm::Transport transport, bool discrete) {
  trace::Sink sink(world_rank());
  auto options = uneven_options<Tested>();
  options.trace = &sink;
  options.communication.transport = transport;
  if (discrete) {
    options.device.memory_bytes = Bytes{64} << 20;
    options.device.link_bytes_per_second = 1e9;
  }
  const comm::Communicator world;
  auto trainer = small_trainer<Tested>(options, world);
  outcome_of(trainer, 3);
  trace::Recording recording;
  sink.collect(recording);
  const std::vector<std::byte> bytes = trace::encode(recording);
  std::vector<trace::Recording> all;
  for (const std::string& text :
       comm::gather_texts(trainer.progress(), "recordings",
                          std::string(reinterpret_cast<const char*>(bytes.data()), bytes.size()))) {
    all.push_back(trace::decode(std::as_bytes(std::span(text))));
  }
  return all;
}

TEST(Job, leaves_a_trace_that_keeps_the_rules_of_the_format_with_arrows_between_lanes_and_ranks) {
  for (const auto transport : {comm::Transport::window, comm::Transport::messages}) {
    for (const bool discrete : {false, true}) {
      const std::vector<trace::Recording> recordings = train_and_gather(transport, discrete);
      if (world_rank() != 0) continue;
      const TraceFormat format(nlohmann::json::parse(trace::chrome_json(recordings)));
      EXPECT_EQ(format.broken(), "");
      EXPECT_EQ(format.processes().size(), static_cast<std::size_t>(world_size()));
      // The reduction waits for the backward pass, and on a discrete device a copy does.
      EXPECT_GT(format.arrows_between_rows("dependency"), 0);
      EXPECT_EQ(format.arrows_between_ranks("dependency"), 0);
      EXPECT_EQ(format.arrows_between_ranks("message") > 0, world_size() > 1);
      // A collective has an arrow from the rank that came last to each that ended after that: to all,
      // but for those that needed nothing of it.
      std::map<std::uint64_t, std::vector<trace::Span>> meetings;
      std::ptrdiff_t messages = 0;  // between two ranks, as at the start, each of which has one arrow
      for (const trace::Recording& recording : recordings) {
        EXPECT_EQ(recording.dropped, 0U);
        for (const trace::Span& span : recording.spans) {
          if (span.role == trace::Role::meets) meetings[span.message].push_back(span);
          if (span.role == trace::Role::receives) ++messages;
        }
      }
      std::ptrdiff_t least = messages;
      std::ptrdiff_t most = messages;
      for (const auto& [message, spans] : meetings) {
        EXPECT_EQ(std::ssize(spans), world_size()) << message;
        const auto last = std::ranges::max_element(spans, {}, &trace::Span::begin);
        for (const trace::Span& span : spans) {
          if (&span == &*last) continue;
          least += span.end > last->begin + rounding;
          most += span.end > last->begin - rounding;
        }
      }
      EXPECT_GE(format.arrows_between_ranks("message"), least);
      EXPECT_LE(format.arrows_between_ranks("message"), most);
    }
  }
}

}  // namespace

}  // namespace reef::test
