// The roof over run.py's figures: how long oneDNN takes for the matrix products of the linear layers
// of one step, forward and backward, with its own threads. One line of JSON.
//
//   --configuration b256   a, b256 or b50k
//   --threads 2

#include <dlfcn.h>
#include <oneapi/dnnl/dnnl.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <vector>

#include "configuration.hpp"

namespace {

struct Memory {
  explicit Memory(std::int64_t elements) : values(static_cast<std::size_t>(elements), 0.5F) {}
  std::vector<float> values;
};

/// Seconds for out = in w, d_in = d_out w^T and d_w = in^T d_out; in: (R, K), w: (K, N).
double linear_layer(std::int64_t R, std::int64_t K, std::int64_t N) {
  Memory in(R * K);
  Memory w(K * N);
  Memory out(R * N);
  const auto begin = std::chrono::steady_clock::now();
  constexpr int repetitions = 3;
  for (int i = 0; i < repetitions; ++i) {
    dnnl_sgemm('N', 'N', R, N, K, 1, in.values.data(), K, w.values.data(), N, 0, out.values.data(),
               N);
    dnnl_sgemm('N', 'T', R, K, N, 1, out.values.data(), N, w.values.data(), N, 0, in.values.data(),
               K);
    dnnl_sgemm('T', 'N', K, N, R, 1, in.values.data(), K, out.values.data(), N, 0, w.values.data(),
               N);
  }
  const std::chrono::duration<double> elapsed = std::chrono::steady_clock::now() - begin;
  return elapsed.count() / repetitions;
}

}  // namespace

int main(int argc, char** argv) {
  const reef_peers::Arguments arguments(argc, argv);
  const reef::nn::GptConfig config =
      reef_peers::configuration(arguments.text("--configuration", "b256"));
  if (void* const set = dlsym(RTLD_DEFAULT, "omp_set_num_threads")) {
    reinterpret_cast<void (*)(int)>(set)(arguments.number("--threads", 2));
  }
  const std::int64_t T = config.sequence == 0 ? config.context : config.sequence;
  const std::int64_t R = config.batch * T;
  const std::int64_t C = config.channels;
  const std::int64_t V =
      config.padded_vocabulary == 0 ? config.vocabulary : config.padded_vocabulary;

  std::vector<double> rounds;
  for (int round = 0; round < 6; ++round) {
    const double layer = linear_layer(R, C, 3 * C) + linear_layer(R, C, C) +
                         linear_layer(R, C, 4 * C) + linear_layer(R, 4 * C, C);
    rounds.push_back(static_cast<double>(config.layers) * layer + linear_layer(R, C, V));
  }
  rounds.erase(rounds.begin());  // the first makes oneDNN's code
  std::sort(rounds.begin(), rounds.end());
  const double seconds = rounds[rounds.size() / 2];
  const auto weights = static_cast<double>(config.layers * 12 * C * C + C * V);
  std::printf("{\"tokens\": %lld, \"seconds\": %.9g, \"gflops_per_s\": %.6g}\n",
              static_cast<long long>(R), seconds,
              6e-9 * static_cast<double>(R) * weights / seconds);
  return 0;
}
