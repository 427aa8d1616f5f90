// How near a block of a Llama trains to the ceiling of its matrix products, beside a block of a GPT of as many weights.
//
//   graph-blocks-bench [THREADS [ROUNDS [CLOCK]]]     one table
//
// THREADS: 0, which is the default, are all cores. CLOCK: "wall", or "processor" where other work runs beside it: the time
// of all threads, of which there should be one then.
//
// Both models have `layers` blocks, 256 tokens of vocabulary and fp32 weights; MLPs of the Llama are 8/3 channels wide, so
// that its blocks have as many weights. A step is forward and backward of one micro-batch. The ceiling is the products of
// the model's linear layers, in their shapes: out = in w, d_in = d_out w^T, d_w = in^T d_out, by the kernels that the model
// uses. In each round both steps and both ceilings run once, one after the other.
//
//   share       seconds of the ceiling over those of the step, the median over rounds
//   Llama/GPT   the quotient of the two shares of a round, the median over rounds

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string_view>
#include <utility>
#include <vector>

#include <reef/device/host.hpp>
#include <reef/nn/gpt.hpp>
#include <reef/nn/host.hpp>
#include <reef/nn/kernels.hpp>
#include <reef/nn/llama.hpp>

#include "graph/step_model.hpp"
#include "support/compare.hpp"
#include "support/measure.hpp"

namespace {

using namespace reef;
using device::Host;
using nn::Transpose;

constexpr std::int64_t layers = 2;
constexpr std::int64_t vocabulary = 256;

struct Size {
  std::int64_t heads, channels, context, batch;
};
constexpr Size sizes[] = {{6, 384, 256, 4}, {12, 768, 256, 4}};

/// The inputs and outputs of a linear layer, and the number of such layers in a model.
struct Layer {
  std::int64_t K, N, count;
};

/// The products of some linear layers, over R rows.
class Ceiling {
public:
  Ceiling(reef_bench::Bench& bench, std::vector<Layer> all, std::int64_t R)
      : threads_(bench.host.threads()), layers_(std::move(all)), R_(R) {
    std::int64_t largest = 0;
    std::int64_t weights = 0;
    for (const Layer& l : layers_) {
      largest = std::max({largest, l.K, l.N});
      weights = std::max(weights, l.K * l.N);
      space_ = std::max({space_, bytes(Transpose::no, Transpose::no, R, l.N, l.K),
                         bytes(Transpose::no, Transpose::yes, R, l.K, l.N),
                         bytes(Transpose::yes, Transpose::no, l.K, l.N, R)});
    }
    for (Host::Buffer* const rows : {&in_, &d_out_, &out_, &d_in_})
      *rows = bench.floats(R * largest);
    for (Host::Buffer* const matrix : {&w_, &d_w_}) *matrix = bench.floats(weights);
    workspace_ = bench.host.allocate(space_, "workspace");
  }

  /// Runs the products of a forward and a backward.
  void run(Host::Lane& lane) const {
    const float* const in = reef_bench::floats_of(in_);
    const float* const d_out = reef_bench::floats_of(d_out_);
    const float* const w = reef_bench::floats_of(w_);
    constexpr Transpose no = Transpose::no;
    constexpr Transpose yes = Transpose::yes;
    for (const Layer& l : layers_) {
      for (std::int64_t i = 0; i < l.count; ++i) {
        product(lane, no, no, R_, l.N, l.K, in, w, reef_bench::floats_of(out_));
        product(lane, no, yes, R_, l.K, l.N, d_out, w, reef_bench::floats_of(d_in_));
        product(lane, yes, no, l.K, l.N, R_, in, d_out, reef_bench::floats_of(d_w_));
      }
    }
  }

private:
  [[nodiscard]] Bytes bytes(Transpose ta, Transpose tb, std::int64_t M, std::int64_t N,
                            std::int64_t K) const {
    return nn::Kernels<Host>::gemm_workspace<float>(ta, tb, M, N, K, threads_);
  }
  void product(Host::Lane& lane, Transpose ta, Transpose tb, std::int64_t M, std::int64_t N,
               std::int64_t K, const float* a, const float* b, float* c) const {
    nn::Kernels<Host>::gemm<float>(lane, ta, tb, M, N, K, 1, a, ta == Transpose::no ? K : M, b,
                                   tb == Transpose::no ? N : K, 0, c, N, workspace_.data());
  }

  int threads_;
  std::vector<Layer> layers_;
  std::int64_t R_;
  Bytes space_ = 0;
  Host::Buffer in_, d_out_, out_, d_in_, w_, d_w_, workspace_;
};

void measure(int threads, int rounds, bool by_processor, const Size& size) {
  reef_bench::Bench bench(threads);
  const std::int64_t C = size.channels;
  const std::int64_t F = 8 * C / 3;
  const std::int64_t R = size.batch * size.context;
  reef_bench::StepModel gpt(bench.host,
                            nn::gpt<Host, float>({.layers = layers,
                                                  .heads = size.heads,
                                                  .channels = C,
                                                  .vocabulary = vocabulary,
                                                  .context = size.context,
                                                  .batch = size.batch},
                                                 bench.host.threads()),
                            true);
  reef_bench::StepModel llama(bench.host,
                              nn::llama<Host, float>({.layers = layers,
                                                      .heads = size.heads,
                                                      .kv_heads = size.heads,
                                                      .channels = C,
                                                      .hidden = F,
                                                      .vocabulary = vocabulary,
                                                      .context = size.context,
                                                      .batch = size.batch},
                                                     bench.host.threads()),
                              true);
  const Layer head{C, vocabulary, 1};
  Ceiling of_gpt(
      bench, {{C, 3 * C, layers}, {C, C, layers}, {C, 4 * C, layers}, {4 * C, C, layers}, head}, R);
  Ceiling of_llama(bench, {{C, C, 4 * layers}, {C, F, 2 * layers}, {F, C, layers}, head}, R);
  // Steps of the GPT and of the Llama, and their ceilings.
  std::array<std::vector<double>, 4> seconds;
  std::array<std::vector<double>, 3> shares;  // of the GPT, of the Llama, and their quotient
  for (int round = -1; round < rounds; ++round) {
    const auto seconds_of = [&](auto&& work) {
      const double before = reef_bench::processor_seconds();
      const double wall = bench.seconds(work);
      return by_processor ? reef_bench::processor_seconds() - before : wall;
    };
    const std::array<double, 4> took{seconds_of([&](Host::Lane& lane) { gpt.step(lane); }),
                                     seconds_of([&](Host::Lane& lane) { llama.step(lane); }),
                                     seconds_of([&](Host::Lane& lane) { of_gpt.run(lane); }),
                                     seconds_of([&](Host::Lane& lane) { of_llama.run(lane); })};
    if (round < 0) continue;
    for (std::size_t i = 0; i < took.size(); ++i) seconds[i].push_back(took[i]);
    shares[0].push_back(took[2] / took[0]);
    shares[1].push_back(took[3] / took[1]);
    shares[2].push_back(shares[1].back() / shares[0].back());
  }
  std::printf("| %lld | %.2f | %.2f | %.2f | %.2f | %.2f | %.2f | %.3f |\n",
              static_cast<long long>(C), 1e3 * reef_bench::median(seconds[0]),
              1e3 * reef_bench::median(seconds[2]), reef_bench::median(shares[0]),
              1e3 * reef_bench::median(seconds[1]), 1e3 * reef_bench::median(seconds[3]),
              reef_bench::median(shares[1]), reef_bench::median(shares[2]));
  std::fflush(stdout);
}

}  // namespace

int main(int argc, char** argv) {
  const int threads = argc > 1 ? std::atoi(argv[1]) : 0;
  const bool by_processor = argc > 3 && std::string_view(argv[3]) == "processor";
  const int rounds = argc > 2 ? std::max(std::atoi(argv[2]), 1) : 15;
  std::printf(
      "| channels | GPT, ms | products | share | Llama, ms | products | share | Llama/GPT "
      "|\n|--:|--:|--:|--:|--:|--:|--:|--:|\n");
  for (const Size& size : sizes) measure(threads, rounds, by_processor, size);
  return 0;
}
