// Purpose  A swap policy of one's own: weights stay on the device, what a segment has saved for its backward
//          leaves for host memory after the forward, and comes back before the backward.
// Command  build/release/examples/own-swap
// Output   device memory of a step: resident 3.82 MiB, spilled 2.33 MiB
//          bits of a resident model: yes
// links: reef::compiled
// ranks: 1
// prints: bits of a resident model: yes
#include <cstdint>
#include <cstdio>
#include <exception>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include <reef/comm/environment.hpp>
#include <reef/nn/gpt.hpp>
#include <reef/optim/adamw.hpp>
#include <reef/optim/ddp.hpp>
#include <reef/run/views.hpp>
#include <reef/schedule/rewriter.hpp>
#include <reef/trainer/trainer.hpp>

using namespace reef;

/// Spill(s, j) behind Forward(s, j), Refill(s, j) ahead of Backward(s, j); the last segment's backward comes at
/// once, so that it keeps. Copies take the compute lane's time: so what follows there may have the bytes.
struct Spilled {
  using policy_tag = SwapTag;
  static constexpr bool updates_in_backward = false;
  static constexpr bool offloads_to_host = false;  // of weights

  static void add(run::StepBuilder& builder) {
    if (!builder.trains()) return;
    schedule::Program& program = builder.program;
    schedule::Rewriter rewriter(program);
    for (std::size_t i = 0; i < program.round.size(); ++i) {
      schedule::Instruction& instruction = program.round[i];
      const int s = instruction.index;
      const int j = instruction.micro_batch;
      const bool forward = instruction.kind == run::kinds::forward;
      if (!forward && instruction.kind != run::kinds::backward) continue;
      if (builder.plan.is_last_of_stage(static_cast<std::size_t>(s))) continue;
      const auto& storages = builder.micro_batches[static_cast<std::size_t>(j)];
      const run::StorageId saved = storages.saved[static_cast<std::size_t>(s)];
      auto& away = builder.scratch<Away>()[saved];
      const Bytes bytes = program.storages[saved].bytes;
      if (forward) {
        away = program.add_storage(program.storages[saved].name + " in host memory", bytes,
                                   run::Place::host);
        rewriter.insert_after(i, copy("Spill", s, j, saved, away, bytes));
        continue;
      }
      const run::StorageId back = program.add_storage(program.storages[saved].name + " again",
                                                      bytes, run::Place::device);
      rewriter.insert_before(i, copy("Refill", s, j, away, back, bytes));
      run::BackwardView(builder, instruction).saved.front() = {back, 0};
    }
    rewriter.apply();
  }

  template <class Handlers, class RankContext>
  static void add_code(Handlers& handlers, const RankContext& context, const NoOptions& /*none*/) {
    for (const char* const kind : {"Spill", "Refill"}) {
      handlers.on_lane(kind,
                       [&context](const schedule::Instruction& i) { return context.copies(i); });
    }
  }

private:
  /// By storage of the device: where in host memory it is.
  using Away = std::map<run::StorageId, run::StorageId>;

  static schedule::Instruction copy(std::string kind, int s, int j,
                                    run::StorageId from, run::StorageId to, Bytes bytes) {
    schedule::Instruction result;
    result.kind = std::move(kind);
    result.index = s;
    result.micro_batch = j;
    run::CopyView(result, {{from, 0}}, {{to, 0}});
    result.cost.bytes = bytes;
    result.cost.copies = 1;
    return result;
  }
};

using Optim = optim::Ddp<optim::AdamW>;
static_assert(composable<Spilled, Optim>);

graph::Graph<device::Host, float> model() {
  return nn::gpt<device::Host, float>(
      {.layers = 4, .heads = 2, .channels = 32, .vocabulary = 64, .context = 64, .batch = 4});
}

double fill(std::uint64_t first, std::span<const AnyView> inputs) {
  for (const AnyView& input : inputs) {
    auto token = static_cast<std::int32_t>(first % 1000);
    for (std::int32_t& at : input.as<std::int32_t>().span()) at = token++ % 64;
  }
  return 1.0;
}

template <class Tested>
typename Tested::Options options() {
  typename Tested::Options result;
  result.bucket_bytes = 16384;  // a segment for every few operators
  return result;
}

template <class Tested>
std::vector<double> losses() {
  Tested trainer(model(), fill, options<Tested>());
  std::vector<double> result;
  for (int step = 0; step < 5; ++step) result.push_back(trainer.step().loss);
  return result;
}

int main(int argc, char** argv) try {
  const comm::Environment mpi(argc, argv);
  using Resident = Trainer<Optim>;
  using Spilling = Trainer<Spilled, Optim>;
  const bool equal = losses<Resident>() == losses<Spilling>();
  const auto bytes = [](const StepEstimate& step) { return format_bytes(step.device_bytes); };
  std::printf("device memory of a step: resident %s, spilled %s\n",
              bytes(Resident::estimate(model(), options<Resident>())).c_str(),
              bytes(Spilling::estimate(model(), options<Spilling>())).c_str());
  std::printf("bits of a resident model: %s\n", equal ? "yes" : "NO");
  return equal ? 0 : 1;
} catch (const std::exception& error) {
  return comm::report_failure("own-swap", error);
}
