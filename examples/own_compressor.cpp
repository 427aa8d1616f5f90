// Purpose  A compressor of one's own, with options, state and a kind of instruction: gradients are rounded to bf16
//          before they travel, and what is lost is added to the next step's (error feedback, Seide et al. 2014).
// Command  mpiexec -n 2 build/release/examples/own-compressor
// Output   loss after 12 steps: as it is 0.752359, rounded 0.752352, fed back 0.752371
//          resumed with its residual, bits as without a stop: yes
// links: reef::compiled
// ranks: 2
// prints: resumed with its residual, bits as without a stop: yes
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <exception>
#include <filesystem>
#include <string>
#include <vector>

#include <reef/comm/environment.hpp>
#include <reef/core/bfloat16.hpp>
#include <reef/core/finite.hpp>
#include <reef/core/hash.hpp>
#include <reef/nn/gpt.hpp>
#include <reef/optim/adamw.hpp>
#include <reef/optim/zero1.hpp>
#include <reef/schedule/rewriter.hpp>
#include <reef/trainer/checkpoint.hpp>
#include <reef/trainer/trainer.hpp>

using namespace reef;

/// Round(b) stands before each reduction: g = bf16(g + residual), and the residual is what that has lost, also
/// in a step that is skipped then.
struct Rounded {
  using policy_tag = CompressTag;
  static constexpr bool lossless = false;
  static constexpr Payload payload = Payload::dense;

  struct Options {
    bool feedback = true;
  };

  static void reserve(run::StepBuilder& builder) {
    for (const std::size_t b : builder.stage_buckets()) {
      builder.program.add_storage(name_of(b), builder.sum_bytes(b), builder.plan.place_of(b),
                                  run::Life::persistent);
    }
  }

  static void add(run::StepBuilder& builder) {
    schedule::Program& program = builder.program;
    schedule::Rewriter rewriter(program);
    for (std::size_t i = 0; i < program.round.size(); ++i) {
      const schedule::Instruction& transfer = program.round[i];
      if (transfer.kind != optim::kinds::reduce_scatter) continue;
      schedule::Instruction round;
      round.kind = "Round";
      round.index = transfer.index;
      const auto b = static_cast<std::size_t>(transfer.index);
      round.accumulates = {run::CollectiveView(transfer).given.front(),
                           {optim::detail::find(program, name_of(b)), 0}};
      round.cost.bytes = 4 * builder.sum_bytes(b);
      rewriter.insert_before(i, std::move(round));
    }
    rewriter.apply();
  }

  template <class Handlers, class RankContext>
  static void add_code(Handlers& handlers, const RankContext& context, const Options& options) {
    handlers.on_lane("Round", [&context, options](const schedule::Instruction& i) {
      return [gradient = context.span(i.accumulates[0]), residual = context.span(i.accumulates[1]),
              options](auto& /*lane*/) {
        for (std::size_t k = 0; k < gradient.size(); ++k) {
          const float sum = gradient[k] + (options.feedback ? residual[k] : 0);
          gradient[k] = static_cast<float>(Bfloat16(sum));
          if (is_finite(sum)) residual[k] = sum - gradient[k];  // else this step is refused
        }
      };
    });
  }

  /// Every rank writes its own, named after it: a job of other ranks finds none of that name, and is refused.
  static std::vector<run::StateRange> state(const run::StepBuilder& builder) {
    std::vector<run::StateRange> ranges;
    for (const std::size_t b : builder.stage_buckets()) {
      const run::Bucket& bucket = builder.plan.buckets[b];
      run::StateRange range;
      range.storage = optim::detail::find(builder.program, name_of(b));
      range.name = concat("rank.", builder.rank(), ".residual");
      range.begin = bucket.begin;
      range.elements = bucket.size();
      range.distribution = run::StateRange::Distribution::shard;
      ranges.push_back(range);
    }
    return ranges;
  }

  static void hash(Hash& hash, const Options& options) { hash.add(options.feedback ? 1 : 0); }

private:
  static std::string name_of(std::size_t b) { return concat("residual ", b); }
};

using Optim = optim::Zero1<optim::AdamW>;
static_assert(composable<Rounded, Optim>);

double fill(std::uint64_t first, std::span<const AnyView> inputs) {
  for (const AnyView& input : inputs) {  // every token is its own target
    auto token = static_cast<std::int32_t>(first % 1000);
    for (std::int32_t& at : input.as<std::int32_t>().span()) at = token++ % 24;
  }
  return 1.0;
}

/// The losses of 12 steps; after the sixth a second Trainer goes on from a checkpoint of the first.
template <class Tested>
std::vector<double> losses(typename Tested::Options options, const std::filesystem::path& folder) {
  const nn::GptConfig config{
      .layers = 1, .heads = 2, .channels = 24, .vocabulary = 24, .context = 16, .batch = 4};
  options.learning_rate = {.peak = 0.01};
  std::vector<double> result;
  for (const bool resumed : {false, true}) {
    Tested trainer(nn::gpt<device::Host, float>(config), fill, options);
    if (resumed) checkpoint::resume(trainer, folder);
    for (int step = 0; step < (resumed ? 6 : 12); ++step) {
      if (!resumed && step == 6) checkpoint::save(trainer, folder);
      result.push_back(trainer.step().loss);
    }
  }
  return result;
}

int main(int argc, char** argv) try {
  const comm::Environment mpi(argc, argv);
  using Lossy = Trainer<Rounded, Optim>;
  typename Lossy::Options forgets;
  forgets.compress.feedback = false;
  const comm::Communicator world;
  const auto folder = std::filesystem::temp_directory_path() / "reef-own-compressor";
  if (world.rank() == 0) std::filesystem::remove_all(folder);
  const double plain = losses<Trainer<Optim>>({}, folder / "plain")[11];
  const double rounded = losses<Lossy>(forgets, folder / "forgets")[11];
  const std::vector<double> fed_back = losses<Lossy>({}, folder / "feeds-back");
  if (world.rank() == 0) std::filesystem::remove_all(folder);
  // Steps 6 to 11 of the first Trainer, and of the one that has resumed.
  const bool same = std::equal(fed_back.begin() + 6, fed_back.begin() + 12, fed_back.begin() + 12);
  if (world.rank() == 0) {
    std::printf("loss after 12 steps: as it is %.6f, rounded %.6f, fed back %.6f\n", plain, rounded,
                fed_back[11]);
    std::printf("resumed with its residual, bits as without a stop: %s\n", same ? "yes" : "NO");
  }
  return same ? 0 : 1;
} catch (const std::exception& error) {
  return comm::report_failure("own-compressor", error);
}
