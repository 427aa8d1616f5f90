#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <exception>
#include <string>
#include <vector>

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

double median(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

std::vector<bench_modules::Batch> batches_of(const Setting& setting) {
  std::vector<bench_modules::Batch> batches;
  for (std::uint64_t number = 0; number < 7; ++number) batches.push_back(bench_modules::batch(setting.module, number));
  return batches;
}

at::Tensor cross_entropy(const at::Tensor& output, const reef::torch::Tensors& batch) {
  return ::torch::nn::functional::cross_entropy(output, batch[1]);
}

void print(const std::vector<double>& seconds, double loss, reef::Bytes optimizer_bytes) {
  std::printf("{\"seconds\": %.6g, \"loss\": %.9g, \"optimizer_bytes\": %llu}\n", median(seconds), loss,
              static_cast<unsigned long long>(optimizer_bytes));
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
  std::vector<double> seconds;
  double loss = 0;
  for (int step = 0; step < setting.warmup + setting.steps; ++step) {
    const double begin = now();
    const int batch = (step * training.trainer().ranks() + training.trainer().rank()) % 7;
    loss = training.step(batches[static_cast<std::size_t>(batch)]).loss;
    if (step >= setting.warmup) seconds.push_back(now() - begin);
  }
  reef::Bytes bytes = 0;
  for (const auto& range : training.trainer().state_ranges()) bytes += static_cast<reef::Bytes>(range.elements) * reef::size_of(range.element);
  if (training.trainer().rank() == 0) print(seconds, loss, bytes);
}

void run_plain(const Setting& setting) {
  at::set_num_threads(1);
  auto net = bench_modules::module(setting.module);
  ::torch::optim::AdamW optimizer(net->parameters(), ::torch::optim::AdamWOptions(1e-3).weight_decay(0));
  const auto batches = batches_of(setting);
  std::vector<double> seconds;
  double loss = 0;
  for (int step = 0; step < setting.warmup + setting.steps; ++step) {
    const double begin = now();
    const auto& batch = batches[static_cast<std::size_t>(step % 7)];
    optimizer.zero_grad();
    const at::Tensor result = cross_entropy(net->forward(batch[0]), batch);
    result.backward();
    optimizer.step();
    if (step >= setting.warmup) seconds.push_back(now() - begin);
    loss = result.item<double>();
  }
  print(seconds, loss, 0);
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
