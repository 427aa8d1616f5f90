#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <exception>
#include <string>
#include <vector>

#include <sys/resource.h>

#include <reef/comm/environment.hpp>
#include <reef/optim/adamw.hpp>
#include <reef/optim/ddp.hpp>
#include <reef/optim/zero1.hpp>
#include <reef/torch/data_parallel.hpp>

#include "modules.hpp"

// Reef's side of the comparison with ddp_torch.py; a line of JSON from rank 0:
//
//   bench/torch_data_parallel_bench ddp|zero1|plain mlp|conv|gpt [STEPS] [WARMUP]
//
// plain: the loop of one process as libtorch's users write it, without Reef: torch::optim::AdamW. data_parallel.py starts it.

namespace {

struct Setting {
  std::string module;
  int steps = 40;
  int warmup = 10;
};

double now() { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); }

/// Of this process, all its threads.
double cpu_seconds() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  const auto seconds = [](const timeval& time) { return static_cast<double>(time.tv_sec) + 1e-6 * static_cast<double>(time.tv_usec); };
  return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

/// The steps after the warm-up.
struct Times {
  std::vector<double> seconds{};
  double cpu_begin = 0;

  template <class F>
  void take(int step, const Setting& setting, const F& function) {
    if (step == setting.warmup) cpu_begin = cpu_seconds();
    const double begin = now();
    function();
    if (step >= setting.warmup) seconds.push_back(now() - begin);
  }
};

std::vector<bench_modules::Batch> batches_of(const Setting& setting) {
  std::vector<bench_modules::Batch> batches;
  for (std::uint64_t number = 0; number < 7; ++number) batches.push_back(bench_modules::batch(setting.module, number));
  return batches;
}

at::Tensor cross_entropy(const at::Tensor& output, const reef::torch::Tensors& batch) {
  return ::torch::nn::functional::cross_entropy(output, batch[1]);
}

void print(Times times, double loss, reef::Bytes optimizer_bytes) {
  const double cpu = (cpu_seconds() - times.cpu_begin) / static_cast<double>(times.seconds.size());
  std::sort(times.seconds.begin(), times.seconds.end());
  std::printf("{\"seconds\": %.6g, \"fastest\": %.6g, \"cpu_seconds\": %.6g, \"loss\": %.9g, \"optimizer_bytes\": %llu}\n",
              times.seconds[times.seconds.size() / 2], times.seconds.front(), cpu, loss, static_cast<unsigned long long>(optimizer_bytes));
}

template <class Optim>
void run(const Setting& setting) {
  reef::torch::DataParallelOptions<Optim> options;
  options.learning_rate = {.peak = 1e-3};
  options.rule = reef::optim::AdamW({.beta2 = 0.999, .weight_decay = 0});
  options.clip_norm = 0;
  options.device.threads = 1;
  const auto batches = batches_of(setting);
  auto training = reef::torch::data_parallel(bench_modules::module(setting.module), cross_entropy, batches[0], options);
  Times times;
  double loss = 0;
  for (int step = 0; step < setting.warmup + setting.steps; ++step) {
    const int batch = (step * training.trainer().ranks() + training.trainer().rank()) % 7;
    times.take(step, setting, [&] { loss = training.step(batches[static_cast<std::size_t>(batch)]).loss; });
  }
  reef::Bytes bytes = 0;
  for (const auto& range : training.trainer().state_ranges()) bytes += static_cast<reef::Bytes>(range.elements) * reef::size_of(range.element);
  if (training.trainer().rank() == 0) print(times, loss, bytes);
}

void run_plain(const Setting& setting) {
  at::set_num_threads(1);
  auto net = bench_modules::module(setting.module);
  ::torch::optim::AdamW optimizer(net->parameters(), ::torch::optim::AdamWOptions(1e-3).weight_decay(0));
  const auto batches = batches_of(setting);
  Times times;
  double loss = 0;
  for (int step = 0; step < setting.warmup + setting.steps; ++step) {
    const auto& batch = batches[static_cast<std::size_t>(step % 7)];
    times.take(step, setting, [&] {
      optimizer.zero_grad();
      const at::Tensor result = cross_entropy(net->forward(batch[0]), batch);
      result.backward();
      optimizer.step();
      loss = result.item<double>();
    });
  }
  print(times, loss, 0);
}

}  // namespace

int main(int argc, char** argv) try {
  const reef::comm::Environment mpi(argc, argv);
  const std::string what = argc > 1 ? argv[1] : "";
  Setting setting{.module = argc > 2 ? argv[2] : "mlp"};
  if (argc > 3) setting.steps = std::stoi(argv[3]);
  if (argc > 4) setting.warmup = std::stoi(argv[4]);
  if (what == "ddp") {
    run<reef::optim::Ddp<reef::optim::AdamW>>(setting);
  } else if (what == "zero1") {
    run<reef::optim::Zero1<reef::optim::AdamW>>(setting);
  } else if (what == "plain") {
    run_plain(setting);
  } else {
    std::fprintf(stderr, "data_parallel_bench ddp|zero1|plain mlp|conv|gpt [STEPS] [WARMUP]\n");
    return 2;
  }
} catch (const std::exception& error) {
  return reef::comm::report_failure("data_parallel_bench", error);
}
