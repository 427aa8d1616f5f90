#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <reef/comm/mpi.hpp>
#include <reef/optim/adamw.hpp>
#include <reef/optim/ddp.hpp>
#include <reef/optim/diloco.hpp>
#include <reef/optim/sgd.hpp>
#include <reef/trainer/checkpoint.hpp>
#include <reef/trainer/trainer.hpp>

#include "../support/ranks.hpp"

namespace reef::test {

namespace {

using Overlap = run::OuterSchedule::Overlap;

constexpr std::int64_t n = 10000;  // three norm blocks: some ranks own nothing of a fragment
constexpr int micro_batches = 2;   // of a rank and step

/// Half the sum of (theta_i - x_i)^2 over the x from `begin` on, and what came before: each weight is
/// drawn to its own x.
struct Bowl {
  static constexpr std::string_view kind = "Bowl";
  std::int64_t begin = 0;
  std::int64_t size = 0;

  graph::Signature signature(const auto& call) const {
    call.expect_inputs(begin > 0 ? 2 : 1);
    graph::Signature result;
    result.outputs = {call.tensor(Shape{})};
    result.parameters = {{"theta", Shape{size}, graph::Init::ones(), true}};
    return result;
  }
  void forward(const auto& call) const {
    double& loss = call.output(0).data()[0];
    loss = begin > 0 ? call.input(1).data()[0] : 0;
    each(call, [&](double distance, std::size_t) { loss += distance * distance / 2; });
  }
  void backward(const auto& call) const {
    const double weight = call.output_gradient(0).data()[0];
    const auto gradient = call.parameter_gradient(0).span();
    if (!call.accumulate_parameters) std::fill(gradient.begin(), gradient.end(), 0);
    each(call, [&](double distance, std::size_t i) { gradient[i] += weight * distance; });
    if (begin == 0) return;
    double& before = call.input_gradient(1).data()[0];
    before = (call.accumulates(1) ? before : 0) + weight;
  }
  void each(const auto& call, const auto& visit) const {
    const auto theta = call.parameter(0).span();
    for (std::size_t i = 0; i < theta.size(); ++i) {
      visit(theta[i] - call.input(0).data()[begin + static_cast<std::int64_t>(i)], i);
    }
  }
};

/// Two parameters, in a segment each if buckets are small.
graph::Graph<device::Host, double> bowls() {
  constexpr std::int64_t low = 6000;
  graph::Graph<device::Host, double> model(1);
  const int x = model.input("x", {Shape{1, n}, Element::float64});
  const int sum = model.add("low", Bowl{0, low}, {x}, {"low"})[0];
  model.loss(model.add("high", Bowl{low, n - low}, {x, sum}, {"high"})[0]);
  return model;
}

/// What micro-batch m of all ranks holds, and what it counts.
double target(std::uint64_t m, std::int64_t i) {
  return static_cast<double>((m * 7919 + static_cast<std::uint64_t>(i) * 104729) % 1000) / 500 - 1;
}
double weight_of(std::uint64_t m) { return 1 + static_cast<double>(m % 3); }

/// Every rank reads its own micro-batches; or its own, which all count the same; or all the same.
enum class Samples : std::uint8_t { own, of_one_weight, equal };

run::Source targets(Samples samples, int ranks = world_size()) {
  return [samples, ranks](std::uint64_t first, std::span<const AnyView> inputs) {
    std::uint64_t m = first;
    const auto of_all = static_cast<std::uint64_t>(micro_batches * ranks);
    if (samples == Samples::equal) m = m / of_all * micro_batches + m % micro_batches;
    std::int64_t i = 0;
    for (double& x : inputs[0].as<double>().span()) x = target(m, i++);
    return samples == Samples::of_one_weight ? 1.0 : weight_of(m);
  };
}

template <class Inner, class Outer = optim::Nesterov>
using Tested = Trainer<optim::DiLoCo<Inner, Outer>, precision::Fp64>;

template <class TrainerType>
typename TrainerType::Options options() {
  typename TrainerType::Options result;
  result.micro_batches = {micro_batches};
  result.device.threads = 1;
  result.learning_rate = {.peak = 0.05, .warmup = 3, .steps = 40};
  result.clip_norm = 100;  // gradients exceed it in the first steps
  return result;
}

template <class Inner>
typename Tested<Inner>::Options every(int steps, int fragments, Overlap overlap) {
  auto result = options<Tested<Inner>>();
  result.optim.every = steps;
  result.optim.fragments = fragments;
  result.optim.overlap = overlap;
  result.optim.mix = 0.25;
  return result;
}

template <class TrainerType>
TrainerType bowl(const typename TrainerType::Options& options, const comm::Communicator& ranks,
                 Samples samples = Samples::own) {
  return TrainerType(bowls(), targets(samples, ranks.size()), options,
                     targets(samples, ranks.size()), ranks);
}

template <class TrainerType>
std::vector<double> weights_of(TrainerType& trainer) {
  trainer.gather_committed_weights();
  std::vector<double> weights = trainer.parameter("low");
  const std::vector<double> high = trainer.parameter("high");
  weights.insert(weights.end(), high.begin(), high.end());
  return weights;
}

/// The weights that this rank goes on with, while the trainer has gathered the committed ones.
template <class TrainerType>
std::vector<double> own_weights_of(TrainerType& trainer) {
  std::vector<double> weights(n);
  for (const auto& range : trainer.state_ranges()) {
    if (range.name != concat("rank.", trainer.rank(), ".weights")) continue;
    const std::vector<double> values = trainer.state(range);
    for (std::size_t i = 0; i < values.size(); ++i) {
      const std::size_t at = static_cast<std::size_t>(range.begin) + i;
      if (at < weights.size()) weights[at] = values[i];
    }
  }
  return weights;
}

/// A run: outer weights, then this rank's own, after each step.
template <class TrainerType>
std::vector<std::vector<double>> trained(const typename TrainerType::Options& options, int steps,
                                         Samples samples = Samples::own,
                                         MPI_Comm ranks = MPI_COMM_WORLD) {
  const comm::Communicator communicator(ranks);
  TrainerType trainer = bowl<TrainerType>(options, communicator, samples);
  std::vector<std::vector<double>> all;
  for (int step = 0; step < steps; ++step) {
    trainer.step();
    all.push_back(weights_of(trainer));
    if constexpr (optim::periodic_policy<typename TrainerType::Optim>)
      all.push_back(own_weights_of(trainer));
  }
  return all;
}

double largest_difference(const std::vector<std::vector<double>>& a,
                          const std::vector<std::vector<double>>& b) {
  EXPECT_EQ(a.size(), b.size());
  double largest = 0;
  for (std::size_t k = 0; k < std::min(a.size(), b.size()); ++k) {
    EXPECT_EQ(a[k].size(), b[k].size());
    for (std::size_t i = 0; i < std::min(a[k].size(), b[k].size()); ++i)
      largest = std::max(largest, std::abs(a[k][i] - b[k][i]));
  }
  return largest;
}

/// Sum of x_i theta_i: its gradient is x, whatever theta is rounded to.
struct Slope {
  static constexpr std::string_view kind = "Slope";

  graph::Signature signature(const auto& call) const {
    call.expect_inputs(1);
    graph::Signature result;
    result.outputs = {call.sums(Shape{})};
    result.parameters = {{"theta", Shape{call.inputs[0].shape.last()}, graph::Init::ones(), true}};
    return result;
  }
  void forward(const auto& call) const {
    auto& loss = call.output_sums(0).data()[0];
    const auto x = call.input(0).span();
    const auto theta = call.parameter(0).span();
    loss = 0;
    for (std::size_t i = 0; i < x.size(); ++i) loss += static_cast<float>(x[i]) * static_cast<float>(theta[i]);
  }
  void backward(const auto& call) const {
    const auto weight = call.output_gradient_sums(0).data()[0];
    const auto x = call.input(0).span();
    const auto gradient = call.parameter_gradient(0).span();
    if (!call.accumulate_parameters) std::fill(gradient.begin(), gradient.end(), 0.0F);
    for (std::size_t i = 0; i < x.size(); ++i) gradient[i] += weight * static_cast<float>(x[i]);
  }
};

/// What x of Slope is in micro-batch m of all ranks: exact in bf16.
double slope(std::uint64_t m, std::int64_t i) {
  return static_cast<double>((m * 7919 + static_cast<std::uint64_t>(i) * 104729) % 129) / 64 - 1;
}

/// What replicas do by themselves: AdamW on Bowl, or plain steps of slope_rate on Slope.
enum class Inner : std::uint8_t { bowl, slope };
constexpr double slope_rate = 0.0625;

/// The papers' algorithms once more: whole vectors, all replicas in one process, nothing shared with the
/// library. AdamW inside, SGD with Nesterov's momentum outside. With eager updates each replica has outer
/// weights and momentum of its own, driven by its new difference and the others' of before; and beside
/// them there are those that the late means alone make, which the library calls committed.
class Reference {
public:
  Reference(int ranks, int every, int fragments, Overlap overlap, Inner inner = Inner::bowl)
      : inner_(inner),
        ranks_(ranks),
        every_(every),
        fragments_(fragments),
        overlap_(overlap),
        replicas_(static_cast<std::size_t>(ranks)) {}

  void step() {
    // Beside this step goes what was due after the one before.
    std::vector<std::vector<double>> arriving;
    if (overlap_ == Overlap::mix) arriving = synchronised(taken_);
    if (overlap_ == Overlap::eager) eager_round();
    ++taken_;
    for (int r = 0; r < ranks_; ++r) inner_step(r);
    if (overlap_ == Overlap::none) {
      const auto now = synchronised(taken_);
      merge(now, 0);
    } else {
      merge(arriving, 0.25);
    }
  }

  [[nodiscard]] const std::vector<double>& committed() const { return outer_; }
  [[nodiscard]] const std::vector<double>& own(int rank) const { return replicas_[at(rank)].w; }

private:
  struct Replica {
    std::vector<double> w = std::vector<double>(n, 1);
    std::vector<double> m = std::vector<double>(n, 0);
    std::vector<double> v = std::vector<double>(n, 0);
    // Of eager updates:
    std::vector<double> outer = std::vector<double>(n, 1);
    std::vector<double> momentum = std::vector<double>(n, 0);
    std::vector<double> difference = std::vector<double>(n, 0);
  };
  static std::size_t at(int rank) { return static_cast<std::size_t>(rank); }

  void slope_step(int r) {
    std::vector<double>& w = replicas_[at(r)].w;
    for (std::int64_t i = 0; i < n; ++i) {
      double g = 0;
      for (int k = 0; k < micro_batches; ++k) {
        g += slope(static_cast<std::uint64_t>(((taken_ - 1) * ranks_ + r) * micro_batches + k), i) / micro_batches;
      }
      w[static_cast<std::size_t>(i)] -= slope_rate * g;
    }
  }

  void inner_step(int r) {
    if (inner_ == Inner::slope) {
      slope_step(r);
      return;
    }
    Replica& replica = replicas_[at(r)];
    std::vector<double> g(n, 0);
    double weight = 0;
    for (int k = 0; k < micro_batches; ++k) {
      const auto m = static_cast<std::uint64_t>(((taken_ - 1) * ranks_ + r) * micro_batches + k);
      weight += weight_of(m);
      for (std::int64_t i = 0; i < n; ++i) {
        const auto j = static_cast<std::size_t>(i);
        g[j] += weight_of(m) * (replica.w[j] - target(m, i));
      }
    }
    double squares = 0;
    for (double& x : g) {
      x /= weight;
      squares += x * x;
    }
    const double clip = std::min(1.0, 100 / std::sqrt(squares));
    const double lr = taken_ <= 3 ? 0.05 * taken_ / 3.0
                                  : 0.025 * (1 + std::cos(std::acos(-1.0) * (taken_ - 4) / 37.0));
    const double correction1 = 1 - std::pow(0.9, taken_);
    const double correction2 = 1 - std::pow(0.95, taken_);
    for (std::size_t i = 0; i < g.size(); ++i) {
      replica.m[i] = 0.9 * replica.m[i] + 0.1 * clip * g[i];
      replica.v[i] = 0.95 * replica.v[i] + 0.05 * clip * clip * g[i] * g[i];
      replica.w[i] -= lr * 0.1 * replica.w[i];
      replica.w[i] -=
          lr * (replica.m[i] / correction1) / (std::sqrt(replica.v[i] / correction2) + 1e-8);
    }
  }

  void eager_round() {
    if (taken_ >= every_ && taken_ % every_ == 0) {
      std::vector<Replica> before = replicas_;
      for (Replica& replica : replicas_) {
        for (std::size_t i = 0; i < replica.w.size(); ++i) {
          const double own = replica.outer[i] - replica.w[i];
          double g = own / ranks_;
          for (const Replica& other : before) g += other.difference[i] / ranks_;
          g -= replica.difference[i] / ranks_;
          replica.momentum[i] = 0.9 * replica.momentum[i] + g;
          replica.outer[i] -= 0.7 * (g + 0.9 * replica.momentum[i]);
          replica.w[i] = replica.outer[i];
          replica.difference[i] = own;
        }
      }
    }
    for (int f = 0; f < fragments_ && taken_ >= every_; ++f) {
      if (taken_ % every_ != every_ * f / fragments_) continue;
      const auto [begin, end] = fragment(f);
      for (auto j = static_cast<std::size_t>(begin); j < static_cast<std::size_t>(end); ++j) {
        double g = 0;
        for (const Replica& replica : replicas_) g += replica.difference[j] / ranks_;
        momentum_[j] = 0.9 * momentum_[j] + g;
        outer_[j] -= 0.7 * (g + 0.9 * momentum_[j]);
      }
    }
  }

  [[nodiscard]] std::pair<std::int64_t, std::int64_t> fragment(int f) const {
    const std::int64_t blocks = (n + 4095) / 4096;
    return {std::min(n, blocks * f / fragments_ * 4096),
            std::min(n, blocks * (f + 1) / fragments_ * 4096)};
  }

  /// The fragment that is due after `count` steps: [first, second) of the weights.
  [[nodiscard]] std::pair<std::int64_t, std::int64_t> due(int count) const {
    for (int f = 0; f < fragments_; ++f) {
      const int offset = every_ * (f + 1) / fragments_;
      if (count < offset || (count - offset) % every_ != 0) continue;
      return fragment(f);
    }
    return {0, 0};
  }

  /// An outer step of what is due; the new weights, empty where nothing is.
  std::vector<std::vector<double>> synchronised(int count) {
    const auto [begin, end] = due(count);
    if (begin == end) return {};
    for (std::int64_t i = begin; i < end; ++i) {
      const auto j = static_cast<std::size_t>(i);
      double mean = 0;
      for (const Replica& replica : replicas_) mean += replica.w[j] / ranks_;
      const double g = outer_[j] - mean;  // downhill is where the replicas went
      momentum_[j] = 0.9 * momentum_[j] + g;
      outer_[j] -= 0.7 * (g + 0.9 * momentum_[j]);
    }
    from_ = begin;
    to_ = end;
    return {outer_};
  }

  void merge(const std::vector<std::vector<double>>& arrived, double mix) {
    if (arrived.empty()) return;
    for (Replica& replica : replicas_) {
      for (std::int64_t i = from_; i < to_; ++i) {
        const auto j = static_cast<std::size_t>(i);
        replica.w[j] = mix * replica.w[j] + (1 - mix) * arrived[0][j];
      }
    }
  }

  Inner inner_;
  int ranks_;
  int every_;
  int fragments_;
  Overlap overlap_;
  int taken_ = 0;
  std::int64_t from_ = 0, to_ = 0;
  std::vector<Replica> replicas_;
  std::vector<double> outer_ = std::vector<double>(n, 1);
  std::vector<double> momentum_ = std::vector<double>(n, 0);
};

void follows_the_reference(int steps, int fragments, Overlap overlap) {
  SCOPED_TRACE(concat("every ", steps, ", ", fragments, " fragments"));
  Reference reference(world_size(), steps, fragments, overlap);
  std::vector<std::vector<double>> expected;
  for (int step = 0; step < 11; ++step) {
    reference.step();
    expected.push_back(reference.committed());
    expected.push_back(reference.own(world_rank()));
  }
  EXPECT_NE(expected[2], expected[20]) << "no outer step has been taken";
  const auto tested =
      trained<Tested<optim::AdamW>>(every<optim::AdamW>(steps, fragments, overlap), 11);
  EXPECT_LT(largest_difference(tested, expected), 1e-12);
}

}  // namespace

TEST(DiLoCo, gives_the_known_answer_where_the_outer_step_blocks) {
  follows_the_reference(4, 1, Overlap::none);
  follows_the_reference(1, 1, Overlap::none);
}

TEST(DiLoCo, gives_the_known_answer_where_fragments_step_one_after_another) {
  follows_the_reference(4, 2, Overlap::none);
  follows_the_reference(3, 3, Overlap::none);
}

TEST(DiLoCo, gives_the_known_answer_where_fragments_travel_beside_steps) {
  follows_the_reference(4, 1, Overlap::mix);
  follows_the_reference(4, 3, Overlap::mix);
  follows_the_reference(2, 2, Overlap::mix);
}

TEST(DiLoCo, gives_the_known_answer_where_ranks_go_on_before_the_others_have_answered) {
  follows_the_reference(4, 1, Overlap::eager);
  follows_the_reference(3, 3, Overlap::eager);
  follows_the_reference(1, 1, Overlap::eager);
}

TEST(DiLoCo, in_bf16_moves_master_weights_as_the_reference_whichever_way_rounds_overlap) {
  using Rounded = Trainer<optim::DiLoCo<optim::Sgd>, precision::Bf16>;
  const comm::Communicator world;
  const run::Source source = [](std::uint64_t first, std::span<const AnyView> inputs) {
    std::int64_t i = 0;
    for (Bfloat16& x : inputs[0].as<Bfloat16>().span()) x = Bfloat16(static_cast<float>(slope(first, i++)));
    return 1.0;
  };
  for (const Overlap overlap : {Overlap::none, Overlap::mix, Overlap::eager}) {
    graph::Graph<device::Host, Bfloat16> model(1);
    model.loss(model.add("loss", Slope{}, {model.input("x", {Shape{1, n}, Element::bfloat16})}, {"theta"})[0]);
    auto chosen = options<Rounded>();
    chosen.learning_rate = {};
    chosen.learning_rate.schedule = [](std::int64_t) { return slope_rate; };
    chosen.clip_norm = 0;
    chosen.optim.every = 4;
    chosen.optim.fragments = overlap == Overlap::eager ? 1 : 2;
    chosen.optim.overlap = overlap;
    chosen.optim.mix = 0.25;
    Rounded trainer(std::move(model), source, chosen, {}, world);
    Reference reference(world.size(), 4, chosen.optim.fragments, overlap, Inner::slope);
    for (int step = 1; step <= 11; ++step) {
      trainer.step();
      reference.step();
      trainer.gather_committed_weights();
      double largest = 0;
      for (const auto& range : trainer.state_ranges()) {
        if (range.name != concat("rank.", world.rank(), ".master")) continue;
        const auto masters = trainer.state(range);
        for (std::size_t i = 0; i < masters.size() && range.begin + static_cast<std::int64_t>(i) < n; ++i) {
          const double expected = reference.own(world.rank())[static_cast<std::size_t>(range.begin) + i];
          largest = std::max(largest, std::abs(static_cast<double>(masters[i]) - expected));
        }
      }
      // Sixteen roundings to fp32 a step, of numbers below 4; those to bf16 would be 2^15 times as large.
      EXPECT_LT(largest, step * 16 * 4 * std::ldexp(1.0, -24))
          << "of any master weight after step " << step << ", overlap " << static_cast<int>(overlap);
      EXPECT_NE(reference.own(world.rank())[1], 1) << "it stands still";
    }
  }
}

TEST(DiLoCo, of_one_rank_goes_the_same_way_eager_or_blocking) {
  using Local = Tested<optim::AdamW>;
  const auto eager =
      trained<Local>(every<optim::AdamW>(3, 1, Overlap::eager), 11, Samples::own, MPI_COMM_SELF);
  const auto blocking =
      trained<Local>(every<optim::AdamW>(3, 1, Overlap::none), 11, Samples::own, MPI_COMM_SELF);
  for (std::size_t step = 1; step <= 11; ++step) {
    if (step % 3 == 0) continue;  // one is there already, the other goes when it steps next
    EXPECT_LT(largest_difference({eager[2 * step - 1]}, {blocking[2 * step - 1]}), 1e-13) << step;
  }
}

// Plain steps inside and out, and an outer step that goes all the way.
using Plain = Tested<optim::Sgd, optim::Sgd>;
using Ddp = Trainer<optim::Ddp<optim::Sgd>, precision::Fp64>;

TEST(DiLoCo, with_plain_steps_inside_and_outside_and_an_outer_step_after_each_is_ddp) {
  // Equal weights of ranks: Ddp's mean counts micro-batches, the outer step counts ranks.
  auto local = options<Plain>();
  local.optim.every = 1;
  local.optim.outer_learning_rate = 1;
  local.clip_norm = 0;
  auto ddp = options<Ddp>();
  ddp.clip_norm = 0;
  const auto tested = trained<Plain>(local, 6, Samples::of_one_weight);
  const auto expected = trained<Ddp>(ddp, 6, Samples::of_one_weight);
  for (std::size_t step = 0; step < 6; ++step) {
    EXPECT_LT(largest_difference({tested[2 * step]}, {expected[step]}), 1e-14) << step;
    EXPECT_EQ(tested[2 * step], tested[2 * step + 1]) << "all ranks have them";
  }
}

TEST(DiLoCo, of_one_rank_that_goes_all_the_way_is_the_inner_rule) {
  auto local = options<Plain>();
  local.optim.every = 2;
  local.optim.fragments = 2;
  local.optim.outer_learning_rate = 1;
  const auto tested = trained<Plain>(local, 6, Samples::own, MPI_COMM_SELF);
  const auto expected = trained<Ddp>(options<Ddp>(), 6, Samples::own, MPI_COMM_SELF);
  for (std::size_t step = 0; step < 6; ++step) {
    // theta - (theta - w) is w but for the rounding of the difference.
    EXPECT_LT(largest_difference({tested[2 * step + 1]}, {expected[step]}), 1e-15) << step;
  }
}

TEST(DiLoCo, of_ranks_with_equal_data_is_that_of_one) {
  // Not eager: there a rank's own difference counts for one of P ranks until the others' are there.
  for (const Overlap overlap : {Overlap::none, Overlap::mix}) {
    const auto chosen = every<optim::AdamW>(3, 2, overlap);
    const auto together = trained<Tested<optim::AdamW>>(chosen, 8, Samples::equal);
    const auto alone = trained<Tested<optim::AdamW>>(chosen, 8, Samples::equal, MPI_COMM_SELF);
    // The mean of two equal weights is the weight; of three it is rounded.
    EXPECT_LT(largest_difference(together, alone), world_size() > 2 ? 1e-13 : 1e-300);
  }
}

TEST(DiLoCo, turns_a_step_towards_where_the_ranks_went) {
  // The sign of the outer gradient: after one outer step the loss is lower, not higher.
  const comm::Communicator world;
  auto trainer = bowl<Tested<optim::AdamW>>(every<optim::AdamW>(4, 1, Overlap::none), world);
  const double before = trainer.evaluate(2);
  for (int step = 0; step < 4; ++step) trainer.step();
  EXPECT_LT(trainer.evaluate(2), 0.9 * before);
}

TEST(DiLoCo, gives_the_bits_of_one_instruction_at_a_time) {
  for (const Overlap overlap : {Overlap::none, Overlap::mix, Overlap::eager}) {
    auto chosen = every<optim::AdamW>(4, 3, overlap);
    const auto lanes = trained<Tested<optim::AdamW>>(chosen, 9);
    chosen.serial = true;
    EXPECT_EQ(lanes, trained<Tested<optim::AdamW>>(chosen, 9));
    chosen.serial = false;
    chosen.bucket_bytes = 1;  // a bucket for each parameter
    EXPECT_EQ(lanes, trained<Tested<optim::AdamW>>(chosen, 9));
    chosen.bucket_bytes = Bytes{1} << 30;
    EXPECT_EQ(lanes, trained<Tested<optim::AdamW>>(chosen, 9));
    chosen.device.memory_bytes = Bytes{64} << 20;
    chosen.device.link_bytes_per_second = 4e9;
    chosen.device.poison_freed = true;
    EXPECT_EQ(lanes, trained<Tested<optim::AdamW>>(chosen, 9)) << "behind a link";
  }
}

TEST(DiLoCo, sends_what_was_estimated_and_nothing_between_outer_steps) {
  for (const Overlap overlap : {Overlap::none, Overlap::mix, Overlap::eager}) {
    for (const int fragments : {1, 3}) {
      using Local = Tested<optim::AdamW>;
      auto chosen = every<optim::AdamW>(4, fragments, overlap);
      chosen.communication.transport = comm::Transport::messages;
      const comm::Communicator world;
      Local trainer = bowl<Local>(chosen, world);
      const StepEstimate estimate =
          Local::estimate(trainer.model(), chosen, world.size(), world.rank());
      EXPECT_EQ(estimate.steps, 4);
      EXPECT_EQ(estimate.device_bytes, trainer.device().memory().peak);
      for (int step = 0; step < 4; ++step) trainer.step();
      comm::Cost sent;
      for (int step = 0; step < 4; ++step) {
        const bool synchronises = trainer.variant() > 0;
        const comm::Cost before = trainer.progress().meter().operations();
        trainer.step();
        const comm::Cost now = trainer.progress().meter().operations() - before;
        EXPECT_EQ(now.messages > 0, synchronises && world.size() > 1);
        sent.messages += now.messages;
        sent.bytes += now.bytes;
      }
      EXPECT_EQ(sent.messages, estimate.messages);
      EXPECT_EQ(sent.bytes, estimate.sent);
      std::vector<std::uint64_t> all(static_cast<std::size_t>(world.size()));
      MPI_Allgather(&sent.bytes, 1, MPI_UINT64_T, all.data(), 1, MPI_UINT64_T, MPI_COMM_WORLD);
      std::uint64_t sum = 0;
      for (const std::uint64_t bytes : all) sum += bytes;
      // 2 (P - 1) / P n of each rank; the headers are less than a hundredth.
      const double expected = 2.0 * (world.size() - 1) * n * sizeof(double);
      EXPECT_NEAR(static_cast<double>(sum), expected, 0.01 * expected);
    }
  }
}

TEST(DiLoCo, keeps_what_its_table_says) {
  using Local = Tested<optim::AdamW>;
  const comm::Communicator world;
  const auto blocking = every<optim::AdamW>(4, 2, Overlap::none);
  const auto beside = every<optim::AdamW>(4, 2, Overlap::mix);
  const auto eager = every<optim::AdamW>(4, 2, Overlap::eager);
  Local trainer = bowl<Local>(blocking, world);
  const auto estimate = Local::estimate(trainer.model(), blocking, world.size(), world.rank());
  EXPECT_EQ(estimate.weights, n * sizeof(double));
  EXPECT_EQ(estimate.gradients, n * sizeof(double));
  EXPECT_EQ(estimate.comm_buffers, 0U);
  std::int64_t outer = 0;
  for (const auto& range : trainer.state_ranges()) {
    if (range.name.starts_with("outer")) outer += range.elements;
  }
  EXPECT_EQ(estimate.optimizer_state, (2 * n + static_cast<Bytes>(outer)) * sizeof(double));
  std::int64_t sum = 0;
  MPI_Allreduce(&outer, &sum, 1, MPI_INT64_T, MPI_SUM, MPI_COMM_WORLD);
  EXPECT_EQ(sum, 2 * n) << "the outer weights and their momentum, once among all ranks";
  const auto more = Local::estimate(trainer.model(), beside, world.size(), world.rank());
  const Bytes fragment = (n - 4096) * sizeof(double);  // the larger of two
  EXPECT_GE(more.device_bytes, estimate.device_bytes);
  EXPECT_LE(more.device_bytes, estimate.device_bytes + fragment + 4096);
  const auto most = Local::estimate(trainer.model(), eager, world.size(), world.rank());
  EXPECT_EQ(most.optimizer_state, estimate.optimizer_state + 3 * n * sizeof(double));
}

TEST(DiLoCo, goes_on_from_a_checkpoint_with_the_bits_of_the_undisturbed_run) {
  using Local = Tested<optim::AdamW>;
  for (const Overlap overlap : {Overlap::none, Overlap::mix, Overlap::eager}) {
    for (const int saved_after : {3, 6}) {
      const SharedFolder folder("diloco");
      const auto chosen = every<optim::AdamW>(4, 2, overlap);
      const auto whole = trained<Local>(chosen, 11);
      const comm::Communicator world;
      {
        Local trainer = bowl<Local>(chosen, world);
        for (int step = 0; step < saved_after; ++step) trainer.step();
        checkpoint::save(trainer, folder.path());
        trainer.step();
        EXPECT_EQ(weights_of(trainer), whole[static_cast<std::size_t>(2 * saved_after)])
            << "saving changes nothing";
      }
      Local trainer = bowl<Local>(chosen, world);
      ASSERT_TRUE(checkpoint::resume(trainer, folder.path()).has_value());
      EXPECT_EQ(weights_of(trainer), whole[static_cast<std::size_t>(2 * saved_after - 2)]);
      for (int step = saved_after; step < 11; ++step) {
        EXPECT_EQ(trainer.step().step, step + 1);
        EXPECT_EQ(weights_of(trainer), whole[static_cast<std::size_t>(2 * step)]) << step;
        EXPECT_EQ(own_weights_of(trainer), whole[static_cast<std::size_t>(2 * step + 1)]) << step;
      }
    }
  }
}

TEST(DiLoCo, begins_anew_at_the_outer_weights_on_another_number_of_ranks) {
  if (world_size() == 1) GTEST_SKIP() << "needs two ranks";
  using Local = Tested<optim::AdamW>;
  for (const Overlap overlap : {Overlap::none, Overlap::mix, Overlap::eager}) {
    const SharedFolder folder("diloco-fewer");
    const auto chosen = every<optim::AdamW>(4, 2, overlap);
    const comm::Communicator world;
    std::vector<double> saved;
    {
      Local trainer = bowl<Local>(chosen, world);
      for (int step = 0; step < 6; ++step) trainer.step();
      checkpoint::save(trainer, folder.path());
      saved = weights_of(trainer);
    }
    const comm::Communicator self(MPI_COMM_SELF);
    Local trainer = bowl<Local>(chosen, self);
    ASSERT_TRUE(checkpoint::resume(trainer, folder.path()).has_value());
    EXPECT_EQ(trainer.progress_state().committed, 6);
    EXPECT_EQ(weights_of(trainer), saved);
    EXPECT_EQ(trainer.variant(), 0);
    trainer.step();
    EXPECT_EQ(weights_of(trainer), saved);
    while (trainer.variant() == 0) trainer.step();
    trainer.step();
    EXPECT_NE(weights_of(trainer), saved);
    EXPECT_EQ(trainer.progress_state().committed, overlap == Overlap::none ? 8 : 9);
  }
}

TEST(DiLoCo, begins_anew_at_the_outer_weights_where_they_are_synchronised_in_another_way) {
  using Local = Tested<optim::AdamW>;
  const comm::Communicator world;
  const auto begun = every<optim::AdamW>(4, 2, Overlap::eager);
  const SharedFolder folder("diloco-other");
  std::vector<double> saved;
  {
    Local trainer = bowl<Local>(begun, world);
    for (int step = 0; step < 5; ++step) trainer.step();  // the second fragment is to leave
    checkpoint::save(trainer, folder.path());
    saved = weights_of(trainer);
  }
  for (const auto& other :
       {every<optim::AdamW>(4, 1, Overlap::eager), every<optim::AdamW>(6, 3, Overlap::eager),
        every<optim::AdamW>(4, 2, Overlap::mix), every<optim::AdamW>(4, 1, Overlap::none)}) {
    Local trainer = bowl<Local>(other, world);
    ASSERT_TRUE(checkpoint::resume(trainer, folder.path()).has_value());
    EXPECT_FALSE(trainer.pending()) << "differences of fragments that it does not have";
    EXPECT_EQ(trainer.progress_state().committed, 5);
    EXPECT_EQ(trainer.variant(), 0);
    EXPECT_EQ(weights_of(trainer), saved);
    trainer.step();
    EXPECT_EQ(weights_of(trainer), saved) << "nothing that was under way arrives";
    for (int step = 0; step < 4 * other.optim.every; ++step) trainer.step();
    EXPECT_NE(weights_of(trainer), saved);
  }
}

TEST(DiLoCo, says_which_optimizer_wrote_a_checkpoint_that_lacks_what_it_needs) {
  const SharedFolder folder("of-ddp");
  const comm::Communicator world;
  {
    Ddp trainer = bowl<Ddp>(options<Ddp>(), world);
    trainer.step();
    checkpoint::save(trainer, folder.path());
  }
  Plain trainer = bowl<Plain>(options<Plain>(), world);
  try {
    checkpoint::resume(trainer, folder.path());
    ADD_FAILURE() << "no FileError";
  } catch (const FileError& error) {
    for (const char* part : {"manifest.json', written by ddp, does not hold", "that diloco needs",
                             "no whole 'outer'", "\n  fix: resume with ddp,"}) {
      EXPECT_THAT(error.what(), testing::HasSubstr(part));
    }
  }
}

TEST(DiLoCo, skips_on_the_rank_alone_whose_step_is_not_finite) {
  using Local = Tested<optim::AdamW>;
  const comm::Communicator world;
  const int last = world.size() - 1;
  // The last rank's first micro-batch of step 2 is no number.
  const auto spoilt = static_cast<std::uint64_t>((2 * world.size() + last) * micro_batches);
  const run::Source source = [=](std::uint64_t first, std::span<const AnyView> inputs) {
    const double weight = targets(Samples::own)(first, inputs);
    if (first == spoilt)
      inputs[0].as<double>().data()[7] = std::numeric_limits<double>::quiet_NaN();
    return weight;
  };
  auto chosen = every<optim::AdamW>(4, 1, Overlap::none);
  chosen.non_finite = optim::NonFinite::skip;
  Local trainer(bowls(), source, chosen, {}, world);
  std::vector<double> before;
  for (int step = 0; step < 6; ++step) {
    const StepResult result = trainer.step();
    EXPECT_EQ(result.step, step + 1);
    EXPECT_TRUE(result.committed);
    const bool here = step == 2 && world.rank() == last;
    EXPECT_EQ(!result.not_finite.empty(), here) << result.not_finite;
    if (here) {
      EXPECT_THAT(result.not_finite, testing::HasSubstr(concat("the loss on rank ", last)));
      EXPECT_THAT(result.not_finite, testing::HasSubstr("the step after 2 committed"));
    }
    trainer.gather_committed_weights();
    const std::vector<double> own = own_weights_of(trainer);
    EXPECT_EQ(own == before, here) << "own weights stand still on that rank alone";
    before = own;
  }
  for (const double w : weights_of(trainer)) ASSERT_TRUE(std::isfinite(w));
}

TEST(DiLoCo, stops_all_ranks_with_the_words_of_the_one_whose_step_is_not_finite) {
  using Local = Tested<optim::AdamW>;
  const comm::Communicator world;
  const int last = world.size() - 1;
  const run::Source source = [=](std::uint64_t first, std::span<const AnyView> inputs) {
    const double weight = targets(Samples::own)(first, inputs);
    const auto step = first / static_cast<std::uint64_t>(micro_batches * world_size());
    const auto rank = first / micro_batches % static_cast<std::uint64_t>(world_size());
    if (step == 1 && rank == static_cast<std::uint64_t>(last))
      inputs[0].as<double>().data()[7] = std::numeric_limits<double>::infinity();
    return weight;
  };
  auto chosen = every<optim::AdamW>(4, 1, Overlap::none);
  chosen.communication.abort_on_deadline = false;
  Local trainer(bowls(), source, chosen, {}, world);
  MPI_Barrier(MPI_COMM_WORLD);  // else the failure may overtake the end of the constructor elsewhere
  try {
    for (int step = 0; step < 8; ++step) trainer.step();
    ADD_FAILURE() << "no exception";
  } catch (const NonFiniteError& error) {
    EXPECT_EQ(world.rank(), last);
    EXPECT_THAT(error.what(), testing::HasSubstr("the loss on rank"));
  } catch (const comm::MpiError& error) {
    EXPECT_NE(world.rank(), last);
    EXPECT_THAT(error.what(), testing::HasSubstr("the loss on rank"));
  }
  MPI_Barrier(MPI_COMM_WORLD);  // every rank still has its Trainer
}

TEST(DiLoCo, refuses_what_cannot_be) {
  using Local = Tested<optim::AdamW>;
  const auto refused = [](const auto& change, const std::string& text) {
    auto chosen = every<optim::AdamW>(4, 2, Overlap::mix);
    change(chosen);
    try {
      static_cast<void>(Local::estimate(bowls(), chosen));
      ADD_FAILURE() << "no exception: " << text;
    } catch (const OptionError& error) {
      EXPECT_THAT(error.what(), testing::HasSubstr(text));
    }
  };
  refused([](auto& o) { o.optim.every = 0; }, "2 fragments every 0 steps");
  refused([](auto& o) { o.optim.fragments = 5; }, "5 fragments every 4 steps");
  refused([](auto& o) { o.optim.mix = 1; }, "mix is 1");
  refused([](auto& o) { o.optim.outer_learning_rate = -1; }, "outer_learning_rate is -1");
  refused([](auto& o) { o.optim.outer.options.momentum = 1; }, "momentum is 1");
  refused([](auto& o) { o.optim.outer.options.weight_decay = 0.1; }, "weight_decay = 0.1");
  refused([](auto& o) { o.virtual_ranks = 2; }, "virtual_ranks is 2");
}

}  // namespace reef::test
