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

#include <reef/graph/measure.hpp>
#include <reef/graph/parameter_layout.hpp>
#include <reef/nn/gpt.hpp>
#include <reef/nn/host.hpp>
#include <reef/nn/kernels.hpp>

#include "support/compare.hpp"

namespace {

using namespace reef;
using device::Host;

/// A graph with memory for one micro-batch, cut as given.
class Model {
public:
  Model(Host& host, const nn::GptConfig& config, bool planned)
      : host_(host), graph_(nn::gpt<Host, float>(config, host.threads())), bindings_(graph_.dag()) {
    const graph::Dag& dag = graph_.dag();
    const int step = planned ? dag.node_count() : 1;
    Bytes workspace = 0;
    for (int first = 0; first < dag.node_count(); first += step) {
      segments_.push_back(graph::plan_segment(dag, first, first + step));
      const graph::Segment& segment = segments_.back();
      saved_.push_back(make(segment.saved_bytes));
      workspace =
          std::max({workspace, segment.forward_workspace_bytes, segment.backward_workspace_bytes});
      for (const auto* ids : {&segment.boundary_inputs, &segment.boundary_outputs}) {
        for (const int id : *ids) bind(bindings_.tensor(id), dag.tensor_at(id).spec.bytes());
      }
      for (const auto* ids : {&segment.output_gradients, &segment.input_gradients}) {
        for (const int id : *ids) bind(bindings_.gradient(id), dag.tensor_at(id).spec.bytes());
      }
    }
    bindings_.workspace = make(workspace);
    activation_bytes = bytes_;
    const graph::ParameterLayout layout = graph::parameter_layout(dag);
    auto* const weights =
        static_cast<float*>(make(static_cast<Bytes>(layout.parameter_elements) * sizeof(float)));
    auto* const gradients =
        static_cast<float*>(make(static_cast<Bytes>(layout.gradient_elements) * sizeof(float)));
    for (std::size_t i = 0; i < dag.parameters.size(); ++i) {
      bindings_.parameters[i] = weights + layout.parameters[i];
      graph::initialise(dag.parameters[i], {1, 0, 0, static_cast<std::uint32_t>(i)},
                        weights + layout.parameters[i]);
    }
    for (std::size_t i = 0; i < dag.uses.size(); ++i) {
      bindings_.uses[i] = gradients + layout.uses[i];
    }
    for (const int input : dag.inputs) {
      auto* const values = static_cast<std::int32_t*>(bindings_.tensor(input));
      for (std::int64_t i = 0; i < dag.tensor_at(input).spec.shape.size(); ++i) {
        values[i] = static_cast<std::int32_t>(random_bits({}, static_cast<std::uint64_t>(i)) % 256);
      }
    }
    *static_cast<float*>(bindings_.gradient(dag.loss)) = 1;
  }

  void step(Host::Lane& own) {
    for (std::size_t s = 0; s < segments_.size(); ++s) {
      bindings_.saved = saved_[s];
      graph_.forward(segments_[s], bindings_, own, {}, graph::Forward::keeps);
    }
    for (std::size_t s = segments_.size(); s-- > 0;) {
      bindings_.saved = saved_[s];
      graph_.backward(segments_[s], bindings_, own, {}, false);
    }
  }

  [[nodiscard]] double flops() const {
    double sum = 0;
    for (const graph::Segment& segment : segments_) {
      sum += segment.forward_flops + segment.backward_flops;
    }
    return sum;
  }

  Bytes activation_bytes = 0;

private:
  void* make(Bytes bytes) {
    if (bytes == 0) return nullptr;
    memory_.push_back(host_.allocate(bytes, "model"));
    bytes_ += bytes;
    return memory_.back().data();
  }
  void bind(void*& entry, Bytes bytes) {
    if (entry == nullptr) entry = make(bytes);
  }

  Host& host_;
  graph::Graph<Host, float> graph_;
  graph::SegmentBindings bindings_;
  std::vector<graph::Segment> segments_;
  std::vector<void*> saved_;
  std::vector<Host::Buffer> memory_;
  Bytes bytes_ = 0;
};

void train(benchmark::State& state, const nn::GptConfig& config) {
  reef_bench::Bench bench(0);
  Model planned(bench.host, config, true);
  Model unplanned(bench.host, config, false);
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
