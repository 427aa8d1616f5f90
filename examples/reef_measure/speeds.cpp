#include "speeds.hpp"

#include <reef/device/host.hpp>
#include <reef/graph/graph.hpp>
#include <reef/graph/measure.hpp>
#include <reef/nn/gpt.hpp>
#include <reef/nn/host.hpp>
#include <reef/nn/linear.hpp>

namespace reef_examples {

Speed measure_speed(int threads, const std::optional<ModelShape>& model) {
  using namespace reef;
  using device::Host;
  constexpr std::int64_t extent = 1024;
  constexpr int vocabulary = 256;
  Host host({.threads = threads});
  Speed speed;
  {
    graph::Graph<Host, float> product(threads);
    const int x = product.input("x", {Shape{extent, extent}, Element::float32});
    product.add("product", nn::Linear{.features = extent, .bias = false}, {x});
    const profile::Profile measured = graph::measure(host, product);
    speed.product = measured.forward_flops() / measured.forward_s();
    speed.memory = measured.memory_bytes_per_second;
  }
  if (model) {
    nn::GptConfig config;
    config.layers = model->layers;
    config.heads = model->heads;
    config.channels = model->channels;
    config.vocabulary = vocabulary;
    config.context = 128;
    config.batch = 8;
    const profile::Profile measured =
        graph::measure(host, nn::gpt<Host, float>(config, threads), {.classes = vocabulary});
    speed.model = (measured.forward_flops() + measured.backward_flops()) /
                  (measured.forward_s() + measured.backward_s());
  }
  return speed;
}

}  // namespace reef_examples
