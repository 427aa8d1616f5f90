#pragma once

#include <sys/prctl.h>
#include <time.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <limits>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <reef/core/text.hpp>
#include <reef/graph/estimate.hpp>
#include <reef/graph/graph.hpp>
#include <reef/profile/profile.hpp>

#include "support/measure.hpp"

/// A chain of operators that compute next to nothing and sleep for the rest of their time: so ranks that are more than
/// cores overlap as if each had a device of its own.
namespace reef_bench {

/// How long a chunk takes for a micro-batch: forward, the gradient of its input, those of its weights.
struct NapTimes {
  double f = 0;
  double b = 0;
  double w = 0;
};

/// What this rank's operators did: seconds of the steady clock, which all ranks of a machine share.
struct NapRecord {
  std::atomic<double> first{std::numeric_limits<double>::infinity()};
  std::atomic<double> last{0};
  std::atomic<double> busy{0};

  void reset() {
    first = std::numeric_limits<double>::infinity();
    last = 0;
    busy = 0;
  }

  /// On the compute lane alone.
  void add(double begin, double end) {
    first = std::min(first.load(), begin);
    last = std::max(last.load(), end);
    busy = busy.load() + (end - begin);
  }
};

/// Runs `work`, and is done so many seconds after it has begun.
template <class F>
void take(double seconds, NapRecord& record, F&& work) {
  // Without this the kernel may wake a thread 50 us late on purpose.
  thread_local const int precise = prctl(PR_SET_TIMERSLACK, 1UL, 0, 0, 0);
  static_cast<void>(precise);
  timespec until{};
  clock_gettime(CLOCK_MONOTONIC, &until);
  const double begin = now();
  work();
  const auto nanoseconds = until.tv_nsec + static_cast<std::int64_t>(1e9 * seconds);
  until.tv_sec += nanoseconds / 1'000'000'000;
  until.tv_nsec = nanoseconds % 1'000'000'000;
  while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &until, nullptr) != 0) {
  }
  record.add(begin, now());
}

/// out = in + shift, for as long as it is told.
///
/// | shape    | in, out: (n,); shift: (1,)                                                       |
/// | backward | d in = d out for b seconds, d shift = sum of d out for w, both or one of the two  |
struct Nap {
  static constexpr std::string_view kind = "Nap";

  NapTimes times{};
  std::shared_ptr<NapRecord> record{};

  reef::graph::Signature signature(const auto& call) const {
    call.expect_inputs(1);
    reef::graph::Signature result;
    result.outputs = {call.inputs[0]};
    result.parameters = {{"shift", {1}, reef::graph::Init::zeros(), false}};
    result.forward_flops = times.f * 1e9;
    result.backward_flops = (times.b + times.w) * 1e9;
    const auto split = [this](auto& signature) {
      if constexpr (requires { signature.splits_backward; }) {
        signature.splits_backward = true;
        signature.weight_flops = times.w * 1e9;
      }
    };
    split(result);
    return result;
  }

  void forward(const auto& call) const {
    take(times.f, *record, [&] {
      const auto in = call.input(0).span();
      const auto shift = call.parameter(0).data()[0];
      auto* const out = call.output(0).data();
      for (std::size_t i = 0; i < in.size(); ++i) out[i] = in[i] + shift;
    });
  }

  void backward(const auto& call) const {
    if (call.wants(0)) {
      take(times.b, *record, [&] {
        const auto d_out = call.output_gradient(0).span();
        auto* const d_in = call.input_gradient(0).data();
        for (std::size_t i = 0; i < d_out.size(); ++i) {
          d_in[i] = d_out[i] + (call.accumulates(0) ? d_in[i] : 0);
        }
      });
    }
    if constexpr (requires { call.wants_parameters(); }) {
      if (!call.wants_parameters()) return;
    }
    take(times.w, *record, [&] {
      auto& sum = call.parameter_gradient(0).data()[0];
      if (!call.accumulate_parameters) sum = 0;
      for (const auto d : call.output_gradient(0).span()) sum += d;
    });
  }
};

/// out = start, a parameter: so the first Nap has a gradient to hand on, as all others have.
struct Begin {
  static constexpr std::string_view kind = "Begin";
  std::int64_t elements = 0;

  reef::graph::Signature signature(const auto& call) const {
    call.expect_inputs(1);
    reef::graph::Signature result;
    result.outputs = {call.tensor({elements})};
    result.parameters = {{"start", {1}, reef::graph::Init::ones(), false}};
    result.backward_reads_inputs = false;
    return result;
  }
  void forward(const auto& call) const {
    const auto out = call.output(0).span();
    std::fill(out.begin(), out.end(), call.parameter(0).data()[0]);
  }
  void backward(const auto& call) const {
    auto& sum = call.parameter_gradient(0).data()[0];
    if (!call.accumulate_parameters) sum = 0;
    for (const auto d : call.output_gradient(0).span()) sum += d;
  }
};

/// loss = mean of in.
struct End {
  static constexpr std::string_view kind = "End";

  reef::graph::Signature signature(const auto& call) const {
    call.expect_inputs(1);
    reef::graph::Signature result;
    result.outputs = {call.sums({})};
    result.backward_reads_inputs = false;
    result.overwrites_gradients = true;
    return result;
  }
  void forward(const auto& call) const {
    const auto in = call.input(0).span();
    auto& loss = call.output_sums(0).data()[0];
    loss = 0;
    for (const auto value : in) loss += value;
    loss /= static_cast<float>(in.size());
  }
  void backward(const auto& call) const {
    if (!call.wants(0)) return;
    const auto d_in = call.input_gradient(0).span();
    const auto share = call.output_gradient_sums(0).data()[0] / static_cast<float>(d_in.size());
    std::fill(d_in.begin(), d_in.end(), share);
  }
};

using NappingGraph = reef::graph::Graph<reef::device::Host, float>;

/// One Nap for each chunk, with so many numbers from one to the next.
inline NappingGraph napping_model(int chunks, std::int64_t elements, const NapTimes& times,
                                  const std::shared_ptr<NapRecord>& record) {
  NappingGraph g(1);
  int x = g.input("number", {{1}, reef::Element::int32});
  x = g.add("begin", Begin{elements}, {x})[0];
  for (int chunk = 0; chunk < chunks; ++chunk) {
    x = g.add(reef::concat("nap", chunk), Nap{times, record}, {x})[0];
  }
  g.loss(g.add("end", End{}, {x})[0]);
  return g;
}

/// The nodes at which every chunk but the first begins.
inline std::vector<int> napping_cuts(int chunks) {
  std::vector<int> cuts;
  for (int chunk = 1; chunk < chunks; ++chunk) cuts.push_back(chunk + 1);
  return cuts;
}

/// What the Naps take, all others nothing.
inline reef::profile::Profile napping_profile(const reef::graph::Dag& dag, const NapTimes& times) {
  reef::profile::Profile profile = reef::graph::workload(dag);
  for (reef::profile::OperatorProfile& entry : profile.operators) {
    if (entry.kind != Nap::kind) continue;
    entry.forward_s = times.f;
    entry.backward_s = times.b + times.w;
  }
  return profile;
}

inline double napping_source(std::uint64_t first, std::span<const reef::AnyView> inputs) {
  for (const reef::AnyView& input : inputs) {
    for (auto& number : input.as<std::int32_t>().span()) number = static_cast<std::int32_t>(first);
  }
  return 1;
}

}  // namespace reef_bench
