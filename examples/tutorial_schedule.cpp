// Purpose  Step 4 of docs/tutorial.md: a schedule of one's own, beside 1F1B by what it takes, and trained to the same bits.
// Command  mpiexec -n 2 build/release/examples/tutorial-schedule LICENSE
// Output   waves of 2: 0.33 of the step is bubble, 2 activations on stage 0
//          1f1b:       0.20 of the step is bubble, 2 activations on stage 0
//          step 20, waves and 1f1b: loss 3.79824322 and 3.79824322: the same
// links: reef::compiled
// ranks: 2
// arguments: LICENSE
// prints: waves of 2: 0.33 of the step is bubble, 2 activations on stage 0
// prints: 1f1b:       0.20 of the step is bubble, 2 activations on stage 0
// prints: the same
#include <algorithm>
#include <cstdio>
#include <exception>

#include <reef/comm/environment.hpp>
#include <reef/data/corpus.hpp>
#include <reef/data/sampler.hpp>
#include <reef/optim/adamw.hpp>
#include <reef/optim/ddp.hpp>
#include <reef/pipeline/one_f_one_b.hpp>
#include <reef/pipeline/scheduled.hpp>
#include <reef/plan/pipeline_schedules.hpp>
#include <reef/trainer/trainer.hpp>

#include "support/tutorial.hpp"

using namespace reef;

/// Two forwards, then their backwards, then the next two: no stage ever keeps more than two.
struct Waves : pipeline::Scheduled<Waves> {
  static plan::PipelineOrder order(int stages, int micro_batches) {
    plan::PipelineOrder order{micro_batches, {}, {}};
    for (int stage = 0; stage < stages; ++stage) {
      order.rank_of_chunk.push_back(stage);
      auto& tasks = order.tasks.emplace_back();
      for (int first = 0; first < micro_batches; first += 2) {
        const int end = std::min(first + 2, micro_batches);
        for (int j = first; j < end; ++j)
          tasks.push_back({plan::PipelineTaskKind::forward, stage, j});
        for (int j = first; j < end; ++j)
          tasks.push_back({plan::PipelineTaskKind::backward, stage, j});
      }
    }
    return order;
  }
};

void foresee(const char* name, const plan::PipelineOrder& order) {
  plan::PipelineModel model{order};
  model.times = plan::PipelineTimes::even(model.order, 1, 1, 1);
  const plan::PipelineEstimate estimate = plan::estimate(model);
  std::printf("%-11s %.2f of the step is bubble, %d activations on stage 0\n", name,
              estimate.bubble, estimate.peak_activations[0]);
}

template <class Schedule>
double trained_loss(const data::Corpus& text) {
  using MyTrainer = Trainer<Schedule, optim::Ddp<optim::AdamW>>;
  const data::Sampler sampler(text.training(), 32, 1);
  typename MyTrainer::Options options;
  options.topology = run::Topology(1, 2);
  options.micro_batches = {4};
  MyTrainer trainer(
      tutorial::model<float>(2),
      [&](std::uint64_t first, std::span<const AnyView> inputs) {
        sampler.fill(first, inputs);
        return 1.0;
      },
      options);  // proves the order: no deadlock, no gradient that is missing
  for (int step = 1; step < 20; ++step) trainer.step();
  return trainer.step().loss;
}

int main(int argc, char** argv) try {
  const comm::Environment mpi(argc, argv);
  const data::Corpus text({argv + 1, argv + argc});
  const double waves = trained_loss<Waves>(text), known = trained_loss<pipeline::OneFOneB<>>(text);
  if (comm::Communicator().rank() > 0) return 0;
  foresee("waves of 2:", Waves::order(2, 4));
  foresee("1f1b:", plan::pipeline_order_of("1f1b", 2, 4));
  std::printf("step 20, waves and 1f1b: loss %.9g and %.9g: %s\n", waves, known,
              waves == known ? "the same" : "NOT the same");
} catch (const std::exception& error) {
  return comm::report_failure("tutorial-schedule", error);
}
