// SparseLoCo: DiLoCo whose differences are encoded.

#include <reef/optim/diloco.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <string>
#include <type_traits>
#include <vector>

#include <reef/codec/chain.hpp>
#include <reef/codec/chunk_top_k.hpp>
#include <reef/codec/concept.hpp>
#include <reef/codec/dct.hpp>
#include <reef/codec/dense.hpp>
#include <reef/codec/error_feedback.hpp>
#include <reef/codec/two_bit.hpp>
#include <reef/comm/mpi.hpp>
#include <reef/compress/channels.hpp>
#include <reef/optim/adamw.hpp>
#include <reef/optim/sgd.hpp>
#include <reef/optim/sign_sgd.hpp>
#include <reef/run/fragment.hpp>
#include <reef/trainer/checkpoint.hpp>
#include <reef/trainer/trainer.hpp>

#include "../support/same_bits.hpp"
#include "../support/small_gpt.hpp"

namespace reef::test {
namespace {

using Overlap = run::OuterSchedule::Overlap;
using SparseCodec = codec::ErrorFeedback<codec::Chain<codec::ChunkTopK, codec::TwoBit>>;

template <class Codec, class... Others>
using Differing =
    Trainer<compress::Channels<compress::PseudoGradient<Codec>>, optim::DiLoCo<optim::AdamW, optim::Sgd>, Others...>;

using Sparse = Differing<SparseCodec>;
using Lossless = Differing<codec::Dense>;
using Plain = Trainer<optim::DiLoCo<optim::AdamW, optim::Sgd>>;
using Divisor = Sparse::Optim::Divisor;

template <class TrainerType>
typename TrainerType::Options sparse_options(int every = 2, int fragments = 1, Overlap overlap = Overlap::none) {
  auto options = uneven_options<TrainerType>();
  options.optim.every = every;
  options.optim.fragments = fragments;
  options.optim.overlap = overlap;
  if constexpr (requires { options.compress.pseudo_gradient.decay; }) {
    options.compress.pseudo_gradient.decay = 0.9F;
    options.compress.pseudo_gradient.inner.selection = {.chunk = 256, .keep = 16};
  }
  return options;
}

/// State of that name in the flat parameter layout.
template <class TrainerType>
std::vector<float> flat(TrainerType& trainer, const std::string& name) {
  std::vector<float> all(static_cast<std::size_t>(trainer.plan().layout.parameter_elements));
  for (const auto& range : trainer.state_ranges()) {
    if (range.name != name) continue;
    const std::vector<float> values = trainer.state(range);
    std::copy(values.begin(), values.end(), all.begin() + range.begin);
  }
  return all;
}
template <class TrainerType>
std::vector<float> outer_weights(TrainerType& trainer) {
  return flat(trainer, "outer");
}

/// What this rank goes on with.
template <class TrainerType>
std::vector<float> own_weights(TrainerType& trainer) {
  trainer.gather_committed_weights();
  return flat(trainer, concat("rank.", trainer.rank(), ".weights"));
}

/// What the codec remembers of what this rank has sent, piece after piece.
template <class TrainerType>
std::vector<float> residual_of(TrainerType& trainer) {
  std::vector<float> all;
  for (const auto& range : trainer.state_ranges()) {
    if (!range.memory) continue;
    const std::vector<float> values = trainer.state(range);
    all.insert(all.end(), values.begin(), values.end());
  }
  return all;
}

/// The same on all ranks, bit for bit.
void expect_equal_on_all_ranks(const std::vector<float>& values) {
  std::vector<float> first = values;
  MPI_Bcast(first.data(), static_cast<int>(first.size()), MPI_FLOAT, 0, MPI_COMM_WORLD);
  EXPECT_TRUE(same_bits(values, first)) << "rank " << world_rank() << " has drifted";
}

/// A run: outer weights, then this rank's own, after each step.
template <class TrainerType>
std::vector<std::vector<float>> trained(const typename TrainerType::Options& options, int steps = 6) {
  const comm::Communicator world;
  auto trainer = small_trainer<TrainerType>(options, world);
  std::vector<std::vector<float>> all;
  for (int step = 0; step < steps; ++step) {
    trainer.step();
    all.push_back(outer_weights(trainer));
    all.push_back(own_weights(trainer));
  }
  return all;
}

/// One outer step by the equations, in fp64 where the library has no order of its own: for all ranks in each process.
template <class Codec>
class Reference {
public:
  /// `signs`: of the mean the sign alone counts.
  Reference(const run::StepPlan& plan, Codec codec, Divisor divisor, bool clips, bool signs)
      : codec_(codec), divisor_(divisor), clips_(clips), signs_(signs), pieces_(run::fragment_pieces(plan, world_rank())) {
    for (const run::FragmentPiece& piece : pieces_) {
      for (std::size_t p = 0; p + 1 < piece.parameters.size(); ++p) {
        parts_.push_back(plan.buckets[piece.bucket].begin + piece.begin + piece.parameters[p]);
        sizes_.push_back(piece.parameters[p + 1] - piece.parameters[p]);
        filled_.push_back(piece.filled[p]);
      }
    }
    residuals_.assign(static_cast<std::size_t>(world_size()), std::vector<float>(elements(plan)));
  }

  /// theta - lr * mean of what differences from the ranks' own weights decode to.
  std::vector<double> step(const std::vector<float>& theta, const std::vector<float>& own, double rate) {
    const auto ranks = static_cast<std::size_t>(world_size());
    std::vector<float> all(own.size() * ranks);
    MPI_Allgather(own.data(), static_cast<int>(own.size()), MPI_FLOAT, all.data(), static_cast<int>(own.size()), MPI_FLOAT,
                  MPI_COMM_WORLD);
    std::vector<double> result(theta.begin(), theta.end());
    for (std::size_t p = 0; p < parts_.size(); ++p) {
      const auto begin = static_cast<std::size_t>(parts_[p]);
      const auto n = static_cast<std::size_t>(sizes_[p]);
      const auto filled = static_cast<std::size_t>(filled_[p]);  // the rest is padding
      std::vector<std::vector<float>> decoded;
      std::vector<double> norms;
      for (std::size_t r = 0; r < ranks; ++r) {
        std::vector<float> difference(n);
        for (std::size_t i = 0; i < n; ++i) difference[i] = theta[begin + i] - all[r * own.size() + begin + i];
        decoded.push_back(sent(difference, std::span(residuals_[r]).subspan(begin, n)));
        double squares = 0;
        for (std::size_t i = 0; i < filled; ++i) squares += double{decoded.back()[i]} * double{decoded.back()[i]};
        norms.push_back(std::sqrt(squares));
      }
      std::vector<double> sorted = norms;
      std::sort(sorted.begin(), sorted.end());
      const double median = sorted[(ranks - 1) / 2];
      for (std::size_t i = 0; i < filled; ++i) {
        double sum = 0;
        int senders = 0;
        for (std::size_t r = 0; r < ranks; ++r) {
          const double factor = clips_ && norms[r] > median ? median / norms[r] : 1;
          sum += factor * double{decoded[r][i]};
          senders += decoded[r][i] != 0 ? 1 : 0;
        }
        const double divisor = divisor_ == Divisor::peers ? static_cast<double>(ranks) : std::max(1, senders);
        const double mean = sum / divisor;
        result[begin + i] -= rate * (!signs_ ? mean : mean > 0 ? 1 : mean < 0 ? -1 : 0);
        differ_ = differ_ || (senders > 0 && senders < static_cast<int>(ranks));
      }
      clipped_ = clipped_ || norms[0] != median;
    }
    return result;
  }

  /// Of a rank, in the order of parts.
  [[nodiscard]] std::vector<float> residual(int rank) const {
    std::vector<float> all;
    for (std::size_t p = 0; p < parts_.size(); ++p) {
      const auto from = residuals_[static_cast<std::size_t>(rank)].begin() + parts_[p];
      all.insert(all.end(), from, from + sizes_[p]);
    }
    return all;
  }
  /// Some number was sent by some ranks alone; some norm was not the median.
  [[nodiscard]] bool divisors_differ() const { return differ_; }
  [[nodiscard]] bool norms_differ() const { return clipped_; }

private:
  static std::size_t elements(const run::StepPlan& plan) {
    return static_cast<std::size_t>(plan.layout.parameter_elements);
  }

  /// What the others have of it; the residual becomes what they have not.
  std::vector<float> sent(const std::vector<float>& difference, std::span<float> residual) const {
    const auto n = static_cast<std::int64_t>(difference.size());
    std::vector<std::byte> message(codec_.encoded_bytes(n));
    std::vector<float> decoded(difference.size());
    if (world_size() == 1) return difference;  // nothing is sent
    const std::vector<float> before(residual.begin(), residual.end());
    const bool remembers = codec::state_of(codec_, n) > 0;
    const std::span<float> next = remembers ? residual : std::span<float>();
    message.resize(codec::encode(codec_, std::span<const float>(difference), std::span<const float>(next), next, message));
    codec::decode(codec_, std::span<const std::byte>(message), {}, {}, decoded);
    // Nothing is lost but by the rounding of a product, a sum and a difference.
    double worst = 0;
    for (std::size_t i = 0; remembers && i < decoded.size(); ++i) {
      const double kept = double{0.9F} * double{before[i]};
      const double lost = double{difference[i]} + kept - double{decoded[i]} - double{residual[i]};
      const double size = std::abs(kept) + std::abs(double{difference[i]}) + std::abs(double{decoded[i]});
      worst = std::max(worst, std::abs(lost) / std::max(size, 1e-30));
    }
    EXPECT_LE(worst, 2 * double{std::numeric_limits<float>::epsilon()});
    return decoded;
  }

  Codec codec_;
  Divisor divisor_;
  bool clips_;
  bool signs_;
  bool differ_ = false;
  bool clipped_ = false;
  std::vector<run::FragmentPiece> pieces_;
  std::vector<std::int64_t> parts_, sizes_, filled_;
  std::vector<std::vector<float>> residuals_;  ///< by rank, in the flat layout
};

/// Three outer steps of a trainer beside the equations. A twin that takes none has the ranks' own weights before each; then it
/// is set to what the trainer has.
template <class TrainerType, class Codec>
void follows_the_equations(typename TrainerType::Options options, const Codec& codec) {
  const comm::Communicator world;
  auto trainer = small_trainer<TrainerType>(options, world);
  auto never = options;
  never.optim.every = 1000;
  auto twin = small_trainer<TrainerType>(never, world);
  constexpr bool signs = std::is_same_v<decltype(options.optim.outer), optim::SignSgd>;
  using Senders = typename TrainerType::Optim::Divisor;
  const Divisor divisor = options.optim.divisor == Senders::senders ? Divisor::senders : Divisor::peers;
  Reference<Codec> reference(trainer.plan(), codec, divisor, options.optim.clip_to_median_norm, signs);
  for (int round = 0; round < 3; ++round) {
    const std::vector<float> before = outer_weights(trainer);
    for (int step = 0; step < options.optim.every; ++step) {
      trainer.step();
      twin.step();
    }
    const std::vector<double> expected = reference.step(before, own_weights(twin), options.optim.outer_learning_rate);
    const std::vector<float> outer = outer_weights(trainer);
    expect_equal_on_all_ranks(outer);
    EXPECT_TRUE(same_bits(outer, own_weights(trainer))) << "each rank goes on at the outer weights";
    EXPECT_FALSE(outer == before);
    double largest = 0;
    for (std::size_t i = 0; i < outer.size(); ++i) {
      largest = std::max(largest, std::abs(expected[i] - double{outer[i]}) / (1e-2 + std::abs(expected[i])));
    }
    EXPECT_LT(largest, 1e-6) << "round " << round;
    if (world_size() > 1) {
      EXPECT_TRUE(same_bits(residual_of(trainer), reference.residual(world_rank())))
          << "round " << round;
    }
    trainer.gather_committed_weights();
    for (const graph::Parameter& parameter : trainer.model().dag().parameters) {
      twin.set_parameter(parameter.name, trainer.parameter(parameter.name));
    }
  }
  if (world_size() > 1) {
    EXPECT_TRUE(signs || reference.divisors_differ()) << "peers and senders come to the same";
    EXPECT_TRUE(reference.norms_differ()) << "nothing is clipped";
  }
}

TEST(SparseLoCo, follows_the_equations_with_either_divisor_with_or_without_the_clip) {
  for (const Divisor divisor : {Divisor::peers, Divisor::senders}) {
    for (const bool clips : {false, true}) {
      SCOPED_TRACE(concat(divisor == Divisor::peers ? "peers" : "senders", clips ? ", clipped" : ""));
      auto options = sparse_options<Sparse>();
      options.optim.divisor = divisor;
      options.optim.clip_to_median_norm = clips;
      follows_the_equations<Sparse>(options, options.compress.pseudo_gradient);
    }
  }
}

using DeMo = Trainer<optim::DiLoCo<optim::Sgd, optim::SignSgd>,
                     compress::Channels<compress::PseudoGradient<codec::ErrorFeedback<codec::Dct<codec::ChunkTopK>>>>>;

DeMo::Options demo_options() {
  auto options = uneven_options<DeMo>();
  options.optim.every = 1;
  options.optim.outer_learning_rate = 0.01;
  options.learning_rate = {.peak = 1};
  options.compress.pseudo_gradient = {{{.chunk = 256, .keep = 16}, 64}, 0.9F};
  return options;
}

TEST(DeMo, follows_the_equations) {
  follows_the_equations<DeMo>(demo_options(), demo_options().compress.pseudo_gradient);
}

TEST(DeMo, learns) {
  const comm::Communicator world;
  auto trainer = small_trainer<DeMo>(demo_options(), world);
  double first = 0, last = 0;
  for (int step = 0; step < 20; ++step) (step < 10 ? first : last) += trainer.step().loss / 10;
  EXPECT_LT(last, first - 0.1);
  expect_equal_on_all_ranks(outer_weights(trainer));
}

/// A transform makes something of the zeros behind a parameter; its sign would be a step.
TEST(DeMo, leaves_what_is_of_no_parameter_as_it_is) {
  const comm::Communicator world;
  auto trainer = small_trainer<DeMo>(demo_options(), world);
  for (int step = 0; step < 3; ++step) trainer.step();
  std::vector<float> theta = outer_weights(trainer);
  std::vector<float> own = own_weights(trainer);
  EXPECT_TRUE(same_bits(theta, own));
  const run::StepPlan& plan = trainer.plan();
  std::int64_t padding = plan.layout.parameter_elements;
  for (std::size_t p = 0; p < plan.layout.parameters.size(); ++p) {
    const std::int64_t n = plan.dag->parameters[p].spec.shape.size();
    std::fill_n(theta.begin() + plan.layout.parameters[p], n, 0.0F);
    padding -= n;
  }
  EXPECT_GT(padding, 0);
  EXPECT_TRUE(std::all_of(theta.begin(), theta.end(), [](float w) { return w == 0; }));
}

/// theta - lr * (d_0 + d_1 + ...) / P in floats, in this order; dense DiLoCo has lr * (theta - (w_0 + w_1 + ...) / P).
TEST(SparseLoCo, has_with_a_codec_that_loses_nothing_the_bits_of_a_mean_of_differences) {
  const comm::Communicator world;
  const auto options = sparse_options<Lossless>();
  auto never = options;
  never.optim.every = 1000;
  auto trainer = small_trainer<Lossless>(options, world);
  auto twin = small_trainer<Lossless>(never, world);
  const std::vector<float> theta = outer_weights(trainer);
  for (int step = 0; step < 2; ++step) {
    trainer.step();
    twin.step();
  }
  const std::vector<float> own = own_weights(twin);
  std::vector<float> all(own.size() * static_cast<std::size_t>(world.size()));
  MPI_Allgather(own.data(), static_cast<int>(own.size()), MPI_FLOAT, all.data(), static_cast<int>(own.size()), MPI_FLOAT,
                MPI_COMM_WORLD);
  std::vector<float> expected = theta;
  const auto rate = optim::Sgd().coefficients<float>(1, options.optim.outer_learning_rate, false);
  for (std::size_t i = 0; i < theta.size(); ++i) {
    float sum = theta[i] - all[i];
    for (std::size_t r = 1; r < all.size() / own.size(); ++r) sum += theta[i] - all[r * own.size() + i];
    optim::Sgd::update(expected[i], static_cast<float*>(nullptr), sum / static_cast<float>(world.size()), rate);
  }
  EXPECT_TRUE(same_bits(outer_weights(trainer), expected));
  auto dense = small_trainer<Plain>(sparse_options<Plain>(), world);
  for (int step = 0; step < 2; ++step) dense.step();
  dense.gather_committed_weights();
  trainer.gather_committed_weights();
  for (const graph::Parameter& parameter : trainer.model().dag().parameters) {
    const auto a = trainer.parameter(parameter.name);
    const auto b = dense.parameter(parameter.name);
    for (std::size_t i = 0; i < a.size(); ++i) ASSERT_NEAR(a[i], b[i], 1e-6);
  }
}

TEST(SparseLoCo, gives_the_same_bits_by_any_transport_in_any_buckets_behind_a_link_and_one_instruction_at_a_time) {
  for (const Overlap overlap : {Overlap::none, Overlap::mix}) {
    const auto options = sparse_options<Sparse>(2, 2, overlap);
    const auto first = trained<Sparse>(options);
    expect_equal_on_all_ranks(first[first.size() - 2]);
    EXPECT_FALSE(first[0] == first[first.size() - 2]);
    const auto expect_same = [&](const char* what, const auto& change) {
      auto other = options;
      change(other);
      EXPECT_TRUE(same_bits(trained<Sparse>(other), first)) << what;
    };
    expect_same("again", [](auto&) {});
    expect_same("messages", [](auto& o) { o.communication.transport = comm::Transport::messages; });
    expect_same("pieces", [](auto& o) { o.communication.piece_bytes = 512; });
    expect_same("serial", [](auto& o) { o.serial = true; });
    expect_same("threads", [](auto& o) { o.device.threads = 2; });
    expect_same("a bucket a parameter", [](auto& o) { o.bucket_bytes = 1; });
    expect_same("one bucket", [](auto& o) { o.bucket_bytes = Bytes{1} << 30; });
    expect_same("behind a link", [](auto& o) {
      o.device.memory_bytes = Bytes{64} << 20;
      o.device.link_bytes_per_second = 4e9;
      o.device.poison_freed = true;
    });
  }
}

TEST(SparseLoCo, goes_on_from_a_checkpoint_with_the_bits_of_the_undisturbed_run) {
  for (const Overlap overlap : {Overlap::none, Overlap::mix}) {
    const auto options = sparse_options<Sparse>(2, 2, overlap);
    const auto whole = trained<Sparse>(options);
    const comm::Communicator world;
    const SharedFolder folder("sparse");
    {
      auto trainer = small_trainer<Sparse>(options, world);
      for (int step = 0; step < 3; ++step) trainer.step();
      checkpoint::save(trainer, folder.path());
    }
    auto trainer = small_trainer<Sparse>(options, world);
    ASSERT_TRUE(checkpoint::resume(trainer, folder.path()).has_value());
    for (std::size_t step = 3; step < 6; ++step) {
      trainer.step();
      EXPECT_TRUE(same_bits(outer_weights(trainer), whole[2 * step])) << step;
      EXPECT_TRUE(same_bits(own_weights(trainer), whole[2 * step + 1])) << step;
    }
    if (world.size() == 1) continue;
    const comm::Communicator self(MPI_COMM_SELF);
    auto alone = small_trainer<Sparse>(options, self);
    ASSERT_TRUE(checkpoint::resume(alone, folder.path()).has_value());
    EXPECT_TRUE(same_bits(outer_weights(alone), whole[4]));
    EXPECT_TRUE(residual_of(alone).empty());
    MPI_Barrier(MPI_COMM_WORLD);
  }
}

/// What a rank has sent the others have applied, whatever came of its own step.
TEST(SparseLoCo, remembers_what_it_has_sent_also_where_its_own_step_is_skipped) {
  if (world_size() == 1) GTEST_SKIP() << "nothing is sent";
  const comm::Communicator world;
  const auto options = [&] {
    auto chosen = sparse_options<Sparse>(2);
    chosen.micro_batches = {1};
    chosen.non_finite = optim::NonFinite::skip;
    return chosen;
  }();
  const auto spoilt = static_cast<std::uint64_t>(2 * world.size() - 1);  // the last rank's of the second step
  const run::Source source = [spoilt](std::uint64_t sample, std::span<const AnyView> inputs) {
    const double weight = small_source()(sample, inputs);
    return sample / static_cast<std::uint64_t>(small_config().batch) == spoilt ? 3e38 : weight;
  };
  Sparse trainer(nn::gpt<device::Host, float>(small_config(), 1), source, options, small_source(), world);
  // Gradients of the head are so large that weights of 3e38 take them out of fp32.
  trainer.set_parameter("transformer.ln_f.weight", std::vector<float>(static_cast<std::size_t>(small_config().channels), 1000.0F));
  bool skipped = false;
  for (int step = 0; step < 2; ++step) skipped = !trainer.step().not_finite.empty();
  EXPECT_EQ(skipped, world.rank() == world.size() - 1);
  const std::vector<float> residual = residual_of(trainer);
  EXPECT_TRUE(std::any_of(residual.begin(), residual.end(), [](float x) { return x != 0; }));
  expect_equal_on_all_ranks(outer_weights(trainer));
}

TEST(SparseLoCo, sends_at_most_what_is_estimated_and_a_hundredth_of_dense_differences) {
  nn::GptConfig config = small_config();
  config.layers = 1;
  config.channels = 192;
  const comm::Communicator world;
  const auto sent_by = [&]<class TrainerType>(TrainerType& trainer) {
    trainer.step();
    const comm::Cost before = trainer.progress().meter().operations();
    trainer.step();
    return trainer.progress().meter().operations() - before;
  };
  auto options = sparse_options<Sparse>(1);
  options.communication.transport = comm::Transport::messages;
  options.compress.pseudo_gradient.inner.selection = {.chunk = 4096, .keep = 64};
  options.micro_batches = {1};
  auto trainer = small_trainer<Sparse>(options, world, config);
  const comm::Cost sparse = sent_by(trainer);
  const StepEstimate estimate = Sparse::estimate(trainer.model(), options, world.size(), world.rank());
  EXPECT_EQ(sparse.messages, estimate.messages);
  EXPECT_LE(sparse.bytes, estimate.sent);
  auto others = sparse_options<Plain>(1);
  others.communication.transport = comm::Transport::messages;
  others.micro_batches = {1};
  auto dense_trainer = small_trainer<Plain>(others, world, config);
  const comm::Cost dense = sent_by(dense_trainer);
  EXPECT_EQ(sparse.bytes == 0, world.size() == 1);
  // Each sends its message to P - 1 others; sums take 2 (P - 1) / P of the weights of each.
  EXPECT_LE(100 * sparse.bytes, dense.bytes * static_cast<Bytes>(world.size()) / 2);
}

TEST(SparseLoCo, refuses_what_cannot_be) {
  const comm::Communicator self(MPI_COMM_SELF);
  const auto refused = [&]<class TrainerType>(TrainerType*, const auto& change, const std::string& text) {
    auto options = sparse_options<TrainerType>();
    change(options);
    try {
      static_cast<void>(small_trainer<TrainerType>(options, self));
      ADD_FAILURE() << "no exception: " << text;
    } catch (const OptionError& error) {
      EXPECT_THAT(error.what(), testing::HasSubstr(text));
    }
  };
  Sparse* const sparse = nullptr;
  Plain* const plain = nullptr;
  refused(sparse, [](auto& o) { o.optim.overlap = Overlap::eager; }, "overlap is eager, and pseudo-gradients are encoded");
  refused(plain, [](auto& o) { o.optim.clip_to_median_norm = true; }, "clip_to_median_norm is on, and no codec");
  refused(plain, [](auto& o) { o.optim.divisor = Plain::Optim::Divisor::senders; }, "divisor is senders, and no codec");
}

}  // namespace
}  // namespace reef::test
