// Purpose  Trains a libtorch module as its users write it, in one process: what torch_data_parallel.cpp spreads over ranks.
// Command  build/release/examples/torch-plain
// Output   step   1  loss 1.1
//          step 200  loss 0.3
//          29 of 32 are right
// links: reef::torch
// prints: step   1  loss 1.
// prints: step 200  loss 0.
// prints: of 32 are right
#include <cstdint>
#include <cstdio>

#include <torch/torch.h>

namespace {

/// 32 points of a square, and the ring around its middle in which each lies, of 3.
torch::data::Example<> batch_of(std::uint64_t number) {
  const torch::Tensor x = torch::rand({32, 2}, at::make_generator<at::CPUGeneratorImpl>(number)) * 4 - 2;
  return {x, x.norm(2, 1).floor().clamp_max(2).to(torch::kLong)};
}

}  // namespace

int main() {
  torch::manual_seed(1);
  torch::nn::Sequential net(torch::nn::Linear(2, 32), torch::nn::Tanh(), torch::nn::Linear(32, 3));
  torch::optim::AdamW optimizer(net->parameters(), torch::optim::AdamWOptions(0.03));

  for (int step = 1; step <= 200; ++step) {
    const auto batch = batch_of(step);
    optimizer.zero_grad();
    const torch::Tensor loss = torch::nn::functional::cross_entropy(net->forward(batch.data), batch.target);
    loss.backward();
    optimizer.step();
    if (step == 1 || step == 200) std::printf("step %3d  loss %.1f\n", step, loss.item<double>());
  }

  const auto unseen = batch_of(0);
  const auto right = net->forward(unseen.data).argmax(1).eq(unseen.target).sum().item<int>();
  std::printf("%d of 32 are right\n", right);
}
