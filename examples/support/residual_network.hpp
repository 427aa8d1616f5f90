#pragma once

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <numbers>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include <torch/torch.h>

#include <reef/core/tensor_view.hpp>
#include <reef/device/host.hpp>
#include <reef/graph/graph.hpp>
#include <reef/nn/cross_entropy.hpp>
#include <reef/nn/gelu.hpp>
#include <reef/nn/layer_norm.hpp>
#include <reef/nn/linear.hpp>
#include <reef/torch/module.hpp>

// The network of torch_residual.cpp, and the images that it learns.

namespace reef_examples {

constexpr int images = 8, classes = 10;  // images of a micro-batch

/// A convolution, and a batch norm by the mean and variance of the micro-batch: (B, in, H, W) to (B, out, H / stride, W / stride).
inline torch::nn::Sequential convolution(int in, int out, int stride = 1, int size = 3) {
  using namespace torch::nn;
  return Sequential(Conv2d(Conv2dOptions(in, out, size).stride(stride).padding(size / 2).bias(false)),
                    BatchNorm2d(BatchNorm2dOptions(out).track_running_stats(false)));
}

/// y = relu(short(x) + norm(conv(relu(norm(conv(x)))))); short(x) = x, or a convolution of 1 x 1 where the shape changes.
struct ResidualBlockImpl : torch::nn::Module {
  ResidualBlockImpl(int in, int out, int stride) : first(convolution(in, out, stride)), second(convolution(out, out)) {
    register_module("first", first);
    register_module("second", second);
    if (in != out || stride != 1) shortcut = register_module("shortcut", convolution(in, out, stride, 1));
  }
  torch::Tensor forward(const torch::Tensor& x) {
    return torch::relu((shortcut ? shortcut->forward(x) : x) + second->forward(torch::relu(first->forward(x))));
  }
  torch::nn::Sequential first, second, shortcut{nullptr};
};
TORCH_MODULE(ResidualBlock);

/// Cross-entropy that also counts, in evaluations alone, the images whose largest logit is that of their label.
struct CountingCrossEntropy {
  static constexpr std::string_view kind = "CountingCrossEntropy";
  std::shared_ptr<std::atomic<int>> right;  // in this process: of stages the last one counts

  reef::graph::Signature signature(const auto& call) const { return reef::nn::CrossEntropy{}.signature(call); }
  void forward(const auto& call) const {
    reef::nn::CrossEntropy{}.forward(call);
    if (call.training) return;
    const auto logits = call.input(0).span();  // (B, classes)
    for (int i = 0; i < images; ++i) {
      const auto row = logits.subspan(static_cast<std::size_t>(i * classes), classes);
      *right += std::max_element(row.begin(), row.end()) - row.begin() == call.integers(1).data()[i] ? 1 : 0;
    }
  }
  void backward(const auto& call) const { reef::nn::CrossEntropy{}.backward(call); }
};

/// The network, where to cut it, and how many images evaluations of this process got right.
struct ResidualNetwork {
  reef::graph::Graph<reef::device::Host, float> graph{1};
  std::vector<int> cuts{};  // where the parts of ranks 1 and 2 begin
  std::shared_ptr<std::atomic<int>> right = std::make_shared<std::atomic<int>>(0);
};

/// (B, 3, 32, 32) to (B, 10).
inline ResidualNetwork residual_network(std::uint64_t seed) {
  torch::manual_seed(seed);  // the same on all ranks
  ResidualNetwork network;
  auto& [g, cuts, right] = network;
  const int x = g.input("images", {{images, 3, 32, 32}, reef::Element::float32});
  const int labels = g.input("labels", {{images}, reef::Element::int32});
  const auto apply = [&g = g](const char* name, auto op, int in) { return g.add(name, std::move(op), {in})[0]; };
  torch::nn::Sequential stem = convolution(3, 16);
  stem->push_back(torch::nn::ReLU());
  int y = apply("stem", reef::torch::Module(stem), x);
  y = apply("block.0", reef::torch::Module(ResidualBlock(16, 16, 1)), y);  // (B, 16, 32, 32)
  cuts = {g.dag().node_count()};
  y = apply("block.1", reef::torch::Module(ResidualBlock(16, 32, 2)), y);  // (B, 32, 16, 16)
  y = apply("block.2", reef::torch::Module(ResidualBlock(32, 32, 1)), y);
  const torch::nn::Sequential pool(torch::nn::AvgPool2d(2), torch::nn::Flatten());
  y = apply("pool", reef::torch::Module(pool), y);  // (B, 2048)
  cuts.push_back(g.dag().node_count());
  y = apply("norm", reef::nn::LayerNorm{}, y);
  y = apply("hidden", reef::nn::Linear{.features = 64}, y);
  y = apply("gelu", reef::nn::Gelu{}, y);
  y = apply("head", reef::nn::Linear{.features = classes}, y);
  g.loss(g.add("loss", CountingCrossEntropy{right}, {y, labels})[0]);
  return network;
}

/// Stripes at the angle of the image's class, of a random colour and beginning anywhere, under noise. An image and its negative are
/// as likely, so all classes have the same mean, and it takes more than weighted sums of pixels to tell them apart.
inline double fill(std::uint64_t first, std::span<const reef::AnyView> inputs) {
  const torch::NoGradGuard no_gradients;
  const torch::Tensor batch = torch::from_blob(inputs[0].as<float>().data(), {images, 3, 32, 32});
  const torch::Tensor place = torch::arange(32, torch::kFloat);
  for (int i = 0; i < images; ++i) {
    const std::uint64_t number = first + static_cast<std::uint64_t>(i);
    const int label = static_cast<int>(number % classes);
    at::Generator random = at::make_generator<at::CPUGeneratorImpl>(number);
    const double angle = std::numbers::pi * label / classes;
    const torch::Tensor shift = torch::rand({1}, random) * (2 * std::numbers::pi), colour = torch::randn({3, 1, 1}, random);
    const torch::Tensor stripes = torch::sin(0.8 * (std::cos(angle) * place + std::sin(angle) * place.view({32, 1})) + shift);
    batch[i].copy_(colour * stripes + torch::randn({3, 32, 32}, random));
    inputs[1].as<std::int32_t>().data()[i] = label;
  }
  return 1;
}

}  // namespace reef_examples
