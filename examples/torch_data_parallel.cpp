// Purpose  Trains the libtorch module of torch_plain.cpp on all ranks, with its optimizer's state shared among them.
// Command  mpiexec -n 2 build/release/examples/torch-data-parallel
// Output   step   1  loss 1.0
//          step 200  loss 0.3
//          31 of 32 are right
// links: reef::compiled reef::torch
// ranks: 2
// prints: step   1  loss 1.
// prints: step 200  loss 0.
// prints: of 32 are right
#include <cstdint>
#include <cstdio>
#include <exception>

#include <torch/torch.h>

#include <reef/comm/environment.hpp>
#include <reef/optim/adamw.hpp>
#include <reef/optim/zero1.hpp>
#include <reef/torch/data_parallel.hpp>

namespace {

/// 32 points of a square, and the ring around its middle in which each lies, of 3.
torch::data::Example<> batch_of(std::uint64_t number) {
  const torch::Tensor x = torch::rand({32, 2}, at::make_generator<at::CPUGeneratorImpl>(number)) * 4 - 2;
  return {x, x.norm(2, 1).floor().clamp_max(2).to(torch::kLong)};
}

}  // namespace

int main(int argc, char** argv) try {
  const reef::comm::Environment mpi(argc, argv);
  torch::manual_seed(1);
  torch::nn::Sequential net(torch::nn::Linear(2, 32), torch::nn::Tanh(), torch::nn::Linear(32, 3));
  reef::torch::DataParallelOptions<reef::optim::Zero1<reef::optim::AdamW>> options;
  options.learning_rate = {.peak = 0.03};
  const auto loss_of = [](const torch::Tensor& output, const reef::torch::Tensors& batch) {
    return torch::nn::functional::cross_entropy(output, batch[1]);
  };
  auto training = reef::torch::data_parallel(net, loss_of, {batch_of(0).data, batch_of(0).target}, options);
  const int rank = training.trainer().rank(), ranks = training.trainer().ranks();

  for (int step = 1; step <= 200; ++step) {
    const auto batch = batch_of(step * ranks + rank);
    const double loss = training.step({batch.data, batch.target}).loss;
    if (rank == 0 && (step == 1 || step == 200)) std::printf("step %3d  loss %.1f\n", step, loss);
  }

  training.module();  // brings the weights to net
  const auto unseen = batch_of(0);
  const auto right = net->forward(unseen.data).argmax(1).eq(unseen.target).sum().item<int>();
  if (rank == 0) std::printf("%d of 32 are right\n", right);
} catch (const std::exception& error) {
  return reef::comm::report_failure("torch-data-parallel", error);
}
