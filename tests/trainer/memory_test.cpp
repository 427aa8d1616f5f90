// What training takes from the allocator, by a hook in it, beside the table of docs/design.md.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <utility>

#include <gtest/gtest.h>

#include <reef/core/text.hpp>
#include <reef/nn/cross_entropy.hpp>
#include <reef/nn/embedding.hpp>
#include <reef/nn/host.hpp>
#include <reef/nn/linear.hpp>
#include <reef/optim/adamw.hpp>
#include <reef/optim/ddp.hpp>
#include <reef/swap/atom.hpp>
#include <reef/trainer/checkpoint.hpp>

#include "../support/counted_heap.hpp"
#include "../support/overlapping_trainers.hpp"
#include "../support/ranks.hpp"

namespace reef::test {

namespace {

/// Embeddings of `vocabulary` tokens, and products of channels x channels: activations are next to none.
template <class T>
graph::Graph<device::Host, T> stack(std::int64_t vocabulary, std::int64_t products,
                                    std::int64_t channels) {
  graph::Graph<device::Host, T> model(1);
  const Shape shape{1, 1};
  const int tokens = model.input("tokens", {shape, Element::int32});
  const int targets = model.input("targets", {shape, Element::int32});
  int x = model.add("embedding", nn::Embedding{vocabulary, 1, channels}, {tokens})[0];
  for (std::int64_t i = 0; i < products; ++i) {
    const nn::Linear product{channels, false, nn::Transpose::no, 0.02};
    x = model.add(concat("product ", i), product, {x})[0];
  }
  const int logits = model.add("head", nn::Linear{16, false, nn::Transpose::no, 0.02}, {x})[0];
  model.loss(model.add("loss", nn::CrossEntropy{}, {logits, targets})[0]);
  return model;
}

/// Nearly all of its parameters are embeddings: one tensor.
template <class T>
graph::Graph<device::Host, T> wide_model(std::int64_t vocabulary) {
  return stack<T>(vocabulary, 0, 256);
}

/// Nearly all of its parameters are in products: as many tensors of one size.
template <class T>
graph::Graph<device::Host, T> deep_model(std::int64_t products) {
  return stack<T>(16, products, 512);
}

struct Taken {
  double parameters = 0;
  double bytes = 0;  ///< at most, beyond what there was before the Trainer
};

template <class Tested>
typename Tested::Options options_of() {
  typename Tested::Options options;
  options.device.threads = 1;
  options.bucket_bytes = 1 << 20;
  // A window between ranks is shared memory, which no allocator sees: messages.
  options.communication.transport = comm::Transport::messages;
  return options;
}

double ones(std::uint64_t, std::span<const AnyView> inputs) {
  for (const AnyView& input : inputs) input.as<std::int32_t>().span()[0] = 1;
  return 1.0;
}

template <class Tested>
Taken taken_by(typename Tested::Model model) {
  const auto parameters = static_cast<double>(model.dag().parameter_count());
  return {parameters, taken_while([&] {
            Tested trainer(std::move(model), ones, options_of<Tested>());
            for (int i = 0; i < 3; ++i) trainer.step();
          })};
}

template <class Tested>
void expect_table(double bytes_per_parameter,
                  const std::function<typename Tested::Model(std::int64_t)>& model_of,
                  std::int64_t size) {
#if !defined(REEF_TEST_HOOKS)
  GTEST_SKIP() << "the allocator cannot be hooked here";
#endif
  const Taken small = taken_by<Tested>(model_of(size));
  const Taken large = taken_by<Tested>(model_of(5 * size));
  const double each = (large.bytes - small.bytes) / (large.parameters - small.parameters);
  EXPECT_NEAR(each, bytes_per_parameter, 0.01 * bytes_per_parameter);
  // What does not grow with the model: staging of at most 16 MB, and everything else.
  const double rest = large.bytes - bytes_per_parameter * large.parameters;
  EXPECT_LT(rest, 16e6);
  testing::Test::RecordProperty("bytes_per_parameter", std::to_string(each));
  testing::Test::RecordProperty("bytes_beside", std::to_string(rest));
}

template <class Tested>
void expect_table(double bytes_per_parameter) {
  expect_table<Tested>(bytes_per_parameter, wide_model<typename Tested::T>, 8 << 10);
}

constexpr double adamw = 4 * (1 + 2);  // master weights and two states
double ranks() { return comm::Communicator().size(); }

TEST(Memory, of_acco_in_fp32) {
  expect_table<Trainer<optim::Acco<optim::AdamW>>>(4 + 4 + 4 + adamw / ranks());
}

TEST(Memory, of_acco_in_bf16) {
  expect_table<Trainer<optim::Acco<optim::AdamW>, precision::Bf16>>(2 + 4 + 4 +
                                                                    (adamw + 4) / ranks());
}

TEST(Memory, of_acco_with_gradients_of_bf16) {
  // Beside the table there is the fp32 gradient of one segment: they must be of one size.
  using Tested = Trainer<optim::Acco<optim::AdamW>, precision::Bf16Gradients<>>;
  expect_table<Tested>(2 + 2 + 2 + (adamw + 4) / ranks(), deep_model<Bfloat16>, 8);
}

TEST(Memory, of_dpu_is_that_of_acco) {
  expect_table<Trainer<optim::Dpu<optim::AdamW, 1>>>(4 + 4 + 4 + adamw / ranks());
}

TEST(Memory, of_swapping_is_taken_before_the_first_step) {
#if !defined(REEF_TEST_HOOKS)
  GTEST_SKIP() << "the allocator cannot be hooked here";
#endif
  using Tested = Trainer<swap::Atom<>, optim::Ddp<optim::AdamW>>;
  auto options = options_of<Tested>();
  options.micro_batches = {2};
  options.device.link_bytes_per_second = 10e9;
  options.activations = {Activations::stash};
  Tested trainer(deep_model<float>(8), ones, options);  // whose segments have 1 MiB each
  trainer.step();
  // A product of one row takes 74 KB within oneDNN, words are said and awaited: no memory of a segment.
  EXPECT_LT(largest_taken_while([&] { trainer.step(); }), 0.08e6);
  EXPECT_LT(taken_while([&] { trainer.step(); }), 0.16e6);
}

TEST(Memory, of_a_checkpoint_does_not_grow_with_the_model) {
#if !defined(REEF_TEST_HOOKS)
  GTEST_SKIP() << "the allocator cannot be hooked here";
#endif
  using Tested = Trainer<optim::Acco<optim::AdamW>>;
  const SharedFolder folder("memory");
  const std::int64_t vocabulary = 64 << 10;  // 64 MiB of weights in one tensor
  {
    Tested trainer(wide_model<float>(vocabulary), ones, options_of<Tested>());
    trainer.step();
    EXPECT_LT(taken_while([&] { checkpoint::save(trainer, folder.path()); }), 4e6);
  }
  Tested trainer(wide_model<float>(vocabulary), ones, options_of<Tested>());
  EXPECT_LT(taken_while([&] { checkpoint::resume(trainer, folder.path()); }), 4e6);
}

}  // namespace

}  // namespace reef::test
