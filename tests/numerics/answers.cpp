// What kernels, update rules and codecs answer to drawn numbers, under each instruction set of this machine: a line for each, with
// a hash. numerics/flags.sh compares what programs print that are built from this with other compilers and flags.

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include <reef/codec/blockwise8.hpp>
#include <reef/codec/chunk_top_k.hpp>
#include <reef/codec/dct.hpp>
#include <reef/codec/normal_float4.hpp>
#include <reef/codec/power_sgd.hpp>
#include <reef/codec/top_k.hpp>
#include <reef/codec/two_bit.hpp>
#include <reef/codec/uniform8.hpp>
#include <reef/core/element.hpp>
#include <reef/core/hash.hpp>
#include <reef/core/random.hpp>
#include <reef/core/text.hpp>
#include <reef/device/host.hpp>
#include <reef/device/instruction_set.hpp>
#include <reef/device/sum_of_squares.hpp>
#include <reef/device/transform.hpp>
#include <reef/nn/gpt.hpp>
#include <reef/nn/host/numerics.hpp>
#include <reef/optim/adamw.hpp>
#include <reef/optim/detail/outer_code.hpp>
#include <reef/optim/detail/rule_kernel.hpp>
#include <reef/optim/learning_rate.hpp>
#include <reef/optim/momentum.hpp>
#include <reef/optim/muon.hpp>
#include <reef/optim/nesterov.hpp>
#include <reef/optim/sgd.hpp>
#include <reef/optim/sign_sgd.hpp>

#include "../laws/graph_runner.hpp"
#include "../support/gpt_config.hpp"

namespace reef::test {
namespace {

using Lane = device::Host::Lane;
constexpr std::int64_t count = 1003;

template <class T>
std::vector<T> drawn(std::uint32_t stream, std::int64_t n = count) {
  std::vector<T> values(static_cast<std::size_t>(n));
  for (std::size_t i = 0; i < values.size(); ++i) {
    values[i] = static_cast<T>(static_cast<float>(normal({.seed = 7, .op = stream}, i)));
  }
  return values;
}

class Answers {
public:
  explicit Answers(Lane& lane) : lane_(lane) {}

  template <class... Lists>
  void print(std::string_view of, const Lists&... lists) const {
    Hash hash;
    (add(hash, std::as_bytes(std::span(lists))), ...);
    std::printf("%s\n", concat(device::name_of(device::instruction_set()), " ", of, " ",
                               nn::host::text_of_numerics_class(hash.value()))
                            .c_str());
  }

  void on_lane(const std::function<void(Lane&)>& action) const {
    lane_.submit([&action](Lane& own) { action(own); });
    lane_.synchronize();
  }

  template <class T, class Rule>
  void rule(const Rule& rule, std::string_view element) const {
    using E = sum_t<T>;
    auto weight = drawn<T>(1);
    auto master = drawn<E>(1);
    const auto gradient = drawn<E>(2);
    std::vector<std::vector<E>> states(Rule::states, std::vector<E>(weight.size()));
    optim::detail::RuleKernel<Rule, T> kernel;
    kernel.weight = weight.data();
    if constexpr (!std::is_same_v<T, E>) kernel.master = master.data();
    kernel.g = gradient.data();
    kernel.scale = E(0.37);
    for (std::size_t k = 0; k < Rule::states; ++k) kernel.state[k] = states[k].data();
    for (std::int64_t t = 1; t < 4; ++t) {
      kernel.c = rule.template coefficients<E>(t, 0.0123, true);
      on_lane([&](Lane& own) { device::transform_vectors<T>(own, count, kernel); });
    }
    std::vector<E> all = master;
    for (const auto& state : states) all.insert(all.end(), state.begin(), state.end());
    print(concat(Rule::name, " ", element), weight, all);
  }

  template <class T>
  void rules(std::string_view element) const {
    using E = sum_t<T>;
    rule<T>(optim::AdamW{{.weight_decay = 0.1}}, element);
    rule<T>(optim::Momentum{{.weight_decay = 0.1}}, element);
    rule<T>(optim::Nesterov{{.weight_decay = 0.1}}, element);
    rule<T>(optim::Sgd{{.weight_decay = 0.1}}, element);
    rule<T>(optim::SignSgd{{.weight_decay = 0.1}}, element);
    auto m = drawn<E>(3);
    auto x = drawn<E>(4);
    auto weight = drawn<T>(5);
    auto master = drawn<E>(6);
    const auto g = drawn<E>(7);
    const optim::detail::MomentumKernel<E> momentum{m.data(), g.data(), x.data(), E(0.37), E(0.95)};
    const optim::detail::OrthogonalStepKernel<T> step{weight.data(), master.data(), x.data(),
                                                      E(0.99), E(0.012)};
    optim::detail::MergeKernel<T> merge;
    merge.weight = weight.data();
    if constexpr (!std::is_same_v<T, E>) merge.master = master.data();
    merge.arrived = m.data();
    merge.mix = E(0.3);
    on_lane([&](Lane& own) {
      device::transform_vectors<E>(own, count, momentum);
      device::transform_vectors<T>(own, count, step);
      device::transform_vectors<T>(own, count, merge);
    });
    print(concat("Muon and DiLoCo's mix ", element), m, x, weight, master);
  }

  /// Of the model that may come from the library: its loss, and the gradients of its parameters.
  void gpt() const {
    device::Host host({.threads = 1});
    const auto model = nn::gpt<device::Host, float>(small_config(), 1);
    const graph::Dag& dag = model.dag();
    GraphRunner<device::Host, float> runner(host, model);
    for (std::size_t p = 0; p < dag.parameters.size(); ++p) {
      runner.set_parameter(static_cast<int>(p), drawn<float>(static_cast<std::uint32_t>(30 + p),
                                                             dag.parameters[p].spec.shape.size()));
    }
    for (const char* input : {"tokens", "targets"}) {
      const int id = dag.tensor(input);
      std::vector<std::int32_t> numbers(
          static_cast<std::size_t>(dag.tensor_at(id).spec.shape.size()));
      for (std::size_t i = 0; i < numbers.size(); ++i)
        numbers[i] = static_cast<std::int32_t>(i * i % 37);
      runner.set(id, numbers);
    }
    runner.set_gradient(dag.tensor("loss"), {1.0F});
    runner.forward({.seed = 7});
    runner.backward({.seed = 7});
    std::vector<float> gradients;
    for (std::size_t p = 0; p < dag.parameters.size(); ++p) {
      const std::vector<float> one = runner.parameter_gradient(static_cast<int>(p));
      gradients.insert(gradients.end(), one.begin(), one.end());
    }
    print("GPT-2", runner.value(dag.tensor("loss")), gradients);
  }

  template <class C>
  void codec(const C& format) const {
    const auto values = drawn<float>(21, 5003);
    const auto n = static_cast<std::int64_t>(values.size());
    std::vector<std::byte> message(format.encoded_bytes(n));
    std::vector<float> decoded(values.size());
    if constexpr (requires { format.state(n); }) {
      std::vector<float> memory(static_cast<std::size_t>(format.state(n)));
      std::vector<float> next = memory;
      message.resize(format.encode(values, memory, next, message));
      format.decode(message, {}, {}, decoded);
    } else {
      message.resize(format.encode(values, message));
      format.decode(message, decoded);
    }
    print(C::name, message, decoded);
  }

  void all() const {
    // The class and the model are of the matrix library too; the rest is Reef's alone.
    std::printf("%s kernels %s\n", std::string(device::name_of(device::instruction_set())).c_str(),
                nn::host::text_of_numerics_class().c_str());
    gpt();
    rules<float>("fp32");
    rules<double>("fp64");
    rules<Bfloat16>("bf16");
    codec(codec::Uniform8{});
    codec(codec::Blockwise8{});
    codec(codec::NormalFloat4{});
    codec(codec::TwoBit{});
    codec(codec::TopK{10});
    codec(codec::PowerSgd{.columns = 61, .rank = 3});
    codec(codec::Dct<codec::ChunkTopK>{{.chunk = 512, .keep = 32}, 64});
    codec(codec::Dct<codec::ChunkTopK>{{.chunk = 512, .keep = 32}, 1000});
    const optim::LearningRate rate{.peak = 0.013, .warmup = 3, .steps = 50, .floor = 0.0011};
    std::vector<double> rates;
    for (std::int64_t t = 0; t < 60; ++t) rates.push_back(rate.at(t));
    print("learning rates", rates);
    std::vector<double> normals;
    for (std::uint64_t i = 0; i < 5000; ++i) normals.push_back(normal({.seed = 7}, i));
    print("normal numbers", normals);
    const auto x = drawn<float>(3, 5003);
    const auto y = drawn<double>(4, 5003);
    std::vector<double> sums(4);
    on_lane([&](Lane& own) {
      device::block_sums_of_squares(own, 5003, x.data(), sums.data());
      device::block_sums_of_squares(own, 5003, y.data(), sums.data() + 2);
    });
    print("sums of squares", sums);
  }

private:
  static void add(Hash& hash, std::span<const std::byte> bytes) {
    for (const std::byte byte : bytes) hash.add(static_cast<std::uint8_t>(byte));
  }

  Lane& lane_;
};

}  // namespace
}  // namespace reef::test

int main() {
  using reef::device::InstructionSet;
  reef::device::Host host({.threads = 1});
  reef::device::Host::Lane lane(host, "answers");
  for (const InstructionSet set :
       {InstructionSet::baseline, InstructionSet::avx2, InstructionSet::avx512}) {
    if (set > reef::device::best_instruction_set()) break;
    reef::device::use_instruction_set(set);
    reef::test::Answers(lane).all();
  }
}
