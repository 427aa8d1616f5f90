// Forward and backward of a GPT through the graph, on all cores of the host.
//
//   roof       matrix products of as many operations: a model made of nothing else
//   unplanned  the same graph cut at every node, where nothing lies in place and every tensor has memory
//              of its own: what planning saves in time and in bytes
//
//   b256   6 layers, 6 heads, 384 channels, vocabulary 256, T = 256, B = 4
//   tiny   4 layers, 4 heads, 128 channels, vocabulary 256, T = 128, B = 8
//   plan   what planning itself costs, of the smallest GPT-2 as one segment; its roof copies the graph

#include <algorithm>
#include <cstdint>
#include <vector>

#include <reef/nn/gpt.hpp>
#include <reef/nn/host.hpp>
#include <reef/nn/kernels.hpp>

#include "graph/step_model.hpp"
#include "support/compare.hpp"

namespace {

using namespace reef;
using device::Host;
using reef_bench::StepModel;

void train(benchmark::State& state, const nn::GptConfig& config) {
  reef_bench::Bench bench(0);
  StepModel planned(bench.host, nn::gpt<Host, float>(config, bench.host.threads()), true);
  StepModel unplanned(bench.host, nn::gpt<Host, float>(config, bench.host.threads()), false);
  constexpr std::int64_t n = 1024;
  const Host::Buffer memory = bench.floats(3 * n * n);
  float* const a = reef_bench::floats_of(memory);
  const Host::Buffer workspace =
      bench.host.allocate(nn::Kernels<Host>::gemm_workspace<float>(
                              nn::Transpose::no, nn::Transpose::no, n, n, n, bench.host.threads()),
                          "workspace");
  const auto product = [a, space = workspace.data()](Host::Lane& lane) {
    nn::Kernels<Host>::gemm<float>(lane, nn::Transpose::no, nn::Transpose::no, n, n, n, 1, a, n,
                                   a + n * n, n, 0, a + 2 * n * n, n, space);
  };
  const double flops = planned.flops();
  reef_bench::Notes notes;
  const auto step = [&] {
    const double took = bench.seconds([&](Host::Lane& lane) { planned.step(lane); });
    notes["tokens_per_s"].push_back(static_cast<double>(config.batch * config.context) / took);
    return took;
  };
  reef_bench::compare(
      state, step,
      {{"roof", [&] { return bench.seconds(product); }, flops / (2.0 * n * n * n)},
       {"unplanned",
        [&] { return bench.seconds([&](Host::Lane& lane) { unplanned.step(lane); }); }}},
      {.flops = flops}, &notes);
  const auto mebibytes = [](Bytes bytes) { return static_cast<double>(bytes) / (1 << 20); };
  state.counters["activation_MiB"] = mebibytes(planned.activation_bytes);
  state.counters["unplanned_activation_MiB"] = mebibytes(unplanned.activation_bytes);
}

nn::GptConfig shape(std::int64_t layers, std::int64_t heads, std::int64_t channels,
                    std::int64_t context, std::int64_t batch) {
  nn::GptConfig config;
  config.layers = layers;
  config.heads = heads;
  config.channels = channels;
  config.vocabulary = 256;
  config.context = context;
  config.batch = batch;
  return config;
}

void plan(benchmark::State& state) {
  const auto g = nn::gpt<Host, float>({}, 2);
  const auto ours = [&] { benchmark::DoNotOptimize(graph::plan_segment(g.dag()).saved_bytes); };
  const auto copy = [&] {
    const graph::Dag dag = g.dag();
    benchmark::DoNotOptimize(dag.nodes.data());
  };
  reef_bench::compare(state, reef_bench::repeated(20, ours),
                      {{"roof", reef_bench::repeated(20, copy)}}, {});
}

void register_all() {
  reef_bench::add("tiny", 15, [](auto& state) { train(state, shape(4, 4, 128, 128, 8)); });
  reef_bench::add("b256", 5, [](auto& state) { train(state, shape(6, 6, 384, 256, 4)); });
  reef_bench::add("plan", 15, plan);
}

}  // namespace

int main(int argc, char** argv) { return reef_bench::run(argc, argv, register_all); }
