// Purpose  A compressor of one's own, with options, state and a kind of instruction: gradients are rounded to bf16
//          before they travel, and what is lost is added to the next step's (error feedback, Seide et al. 2014).
// Command  mpiexec -n 2 build/release/examples/own-compressor
// Output   loss after 12 steps: as it is 0.752359, rounded 0.752352, fed back 0.752371
//          a checkpoint keeps the residual: yes
// ranks: 2
// prints: a checkpoint keeps the residual: yes
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <exception>
#include <string>
#include <vector>

#include <reef/comm/environment.hpp>
#include <reef/core/bfloat16.hpp>
#include <reef/core/hash.hpp>
#include <reef/nn/gpt.hpp>
#include <reef/optim/adamw.hpp>
#include <reef/optim/zero1.hpp>
#include <reef/schedule/rewriter.hpp>
#include <reef/trainer/trainer.hpp>

using namespace reef;

/// Round(b) stands before each reduction: g = bf16(g + residual), and the residual is what that has lost.
struct Rounded {
  using policy_tag = CompressTag;
  static constexpr bool lossless = false;
  static constexpr Payload payload = Payload::dense;

  struct Options {
    bool feedback = true;
  };

  static void reserve(run::StepBuilder& builder) {
    for (const std::size_t b : builder.held()) {
      builder.program.add_storage(name_of(b), builder.sum_bytes(b), builder.plan.place_of(b),
                                  run::Life::persistent);
    }
  }

  static void add(run::StepBuilder& builder) {
    schedule::Program& program = builder.program;
    schedule::Rewriter rewriter(program);
    for (std::size_t i = 0; i < program.round.size(); ++i) {
      const schedule::Instruction& transfer = program.round[i];
      if (transfer.kind != "ReduceScatter") continue;
      schedule::Instruction round;
      round.kind = "Round";
      round.index = transfer.index;
      const auto b = static_cast<std::size_t>(transfer.index);
      round.accumulates = {transfer.reads[0], {optim::detail::find(program, name_of(b)), 0}};
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
          residual[k] = sum - gradient[k];
        }
      };
    });
  }

  /// A rank's own, under its number; there between steps as what is pending is.
  static std::vector<run::StateRange> state(const run::StepBuilder& builder) {
    std::vector<run::StateRange> ranges;
    for (const std::size_t b : builder.held()) {
      const run::Bucket& bucket = builder.plan.buckets[b];
      run::StateRange range;
      range.storage = optim::detail::find(builder.program, name_of(b));
      range.name = concat("rank.", builder.rank(), ".residual");
      range.begin = bucket.begin;
      range.elements = bucket.size();
      range.kept = run::StateRange::Kept::whole;
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

/// The loss at the end, and whether a checkpoint would keep a residual.
template <class Tested>
std::pair<double, bool> trained(typename Tested::Options options) {
  const nn::GptConfig config{
      .layers = 1, .heads = 2, .channels = 24, .vocabulary = 24, .context = 16, .batch = 4};
  options.learning_rate = {.peak = 0.01};
  Tested trainer(nn::gpt<device::Host, float>(config), fill, options);
  double loss = 0;
  for (int step = 0; step < 12; ++step) loss = trainer.step().loss;
  const auto ranges = trainer.state_ranges();
  const bool kept = std::any_of(ranges.begin(), ranges.end(), [](const auto& range) {
    return range.name.ends_with(".residual");
  });
  return {loss, kept};
}

int main(int argc, char** argv) try {
  const comm::Environment mpi(argc, argv);
  using Lossy = Trainer<Rounded, Optim>;
  typename Lossy::Options forgets;
  forgets.compress.feedback = false;
  const auto plain = trained<Trainer<Optim>>({});
  const auto rounded = trained<Lossy>(forgets);
  const auto fed_back = trained<Lossy>({});
  const bool right = !plain.second && fed_back.second;
  if (comm::Communicator().rank() == 0) {
    std::printf("loss after 12 steps: as it is %.6f, rounded %.6f, fed back %.6f\n", plain.first,
                rounded.first, fed_back.first);
    std::printf("a checkpoint keeps the residual: %s\n", right ? "yes" : "NO");
  }
  return right ? 0 : 1;
} catch (const std::exception& error) {
  return comm::report_failure("own-compressor", error);
}
