// What one span costs its lane. The rivals: reading the clock twice, which any trace must, and a
// mutex-protected vector with owned names.

#include <benchmark/benchmark.h>

#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include <reef/trace/sink.hpp>

namespace {

using namespace reef;
using trace::Activity;

constexpr std::string_view name = "transformer.h.3.attn.c_attn";
constexpr std::size_t batch = 4096;

/// Collects outside the timed part, before the track is full.
void drain(benchmark::State& state, trace::Sink& sink, trace::Recording& recording) {
  state.PauseTiming();
  recording.spans.clear();
  sink.collect(recording);
  state.ResumeTiming();
}

void count_spans(benchmark::State& state) {
  state.SetItemsProcessed(state.iterations() * static_cast<std::int64_t>(batch));
}

void span_by_text(benchmark::State& state) {
  trace::Sink sink(0, {.spans_per_track = batch});
  trace::Track& track = sink.track("compute");
  trace::Recording recording;
  for (auto _ : state) {
    for (std::size_t i = 0; i < batch; ++i) track.span(Activity::compute, name, 1, 2);
    drain(state, sink, recording);
  }
  count_spans(state);
}
BENCHMARK(span_by_text);

void span_by_name(benchmark::State& state) {
  trace::Sink sink(0, {.spans_per_track = batch});
  trace::Track& track = sink.track("compute");
  const trace::Name interned = track.intern(name);
  trace::Recording recording;
  for (auto _ : state) {
    for (std::size_t i = 0; i < batch; ++i) track.span(Activity::compute, interned, 1, 2);
    drain(state, sink, recording);
  }
  count_spans(state);
}
BENCHMARK(span_by_name);

/// What a lane does for an instruction: both clock readings, and the span with its links.
void clocked_span(benchmark::State& state) {
  trace::Sink sink(0, {.spans_per_track = batch});
  trace::Track& track = sink.track("compute");
  trace::Recording recording;
  for (auto _ : state) {
    const std::uint32_t first = sink.ids(batch);
    for (std::size_t i = 0; i < batch; ++i) {
      const Seconds begin = trace::now();
      track.span(Activity::compute, name, begin, trace::now(), 0,
                 {.id = first + static_cast<std::uint32_t>(i), .cause = first});
    }
    drain(state, sink, recording);
  }
  count_spans(state);
}
BENCHMARK(clocked_span);

void span_disabled(benchmark::State& state) {
  trace::Sink sink(0, {.enabled = false});
  trace::Track& track = sink.track("compute");
  for (auto _ : state) {
    for (std::size_t i = 0; i < batch; ++i) track.span(Activity::compute, name, 1, 2);
  }
  count_spans(state);
}
BENCHMARK(span_disabled);

void rival_two_clock_reads(benchmark::State& state) {
  for (auto _ : state) {
    for (std::size_t i = 0; i < batch; ++i) benchmark::DoNotOptimize(trace::now() - trace::now());
  }
  count_spans(state);
}
BENCHMARK(rival_two_clock_reads);

void rival_locked_vector(benchmark::State& state) {
  struct Entry {
    std::string name;
    double begin, end;
  };
  std::mutex mutex;
  std::vector<Entry> entries;
  for (auto _ : state) {
    for (std::size_t i = 0; i < batch; ++i) {
      const std::scoped_lock lock(mutex);
      entries.push_back({std::string(name), 1, 2});
    }
    state.PauseTiming();
    entries.clear();
    state.ResumeTiming();
  }
  count_spans(state);
}
BENCHMARK(rival_locked_vector);

}  // namespace

BENCHMARK_MAIN();
