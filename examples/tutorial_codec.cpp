// Purpose  Step 3 of docs/tutorial.md: a codec of one's own, on the messages from stage 1 to stage 2 of three alone.
// Command  mpiexec -n 3 build/release/examples/tutorial-codec LICENSE
// Output   stage 0 sends 96.19 KiB of activations a step
//          stage 1 sends 48.28 KiB of activations a step
//          step 20  loss 3.23
// links: reef::compiled
// ranks: 3
// arguments: LICENSE
// prints: KiB of activations a step
// prints: KiB of activations a step
// prints: step 20  loss 3.
#include <cstdio>
#include <cstring>
#include <exception>
#include <optional>
#include <span>

#include <reef/codec/concept.hpp>
#include <reef/codec/message.hpp>
#include <reef/comm/environment.hpp>
#include <reef/compress/channels.hpp>
#include <reef/data/corpus.hpp>
#include <reef/data/sampler.hpp>
#include <reef/optim/adamw.hpp>
#include <reef/optim/ddp.hpp>
#include <reef/pipeline/one_f_one_b.hpp>
#include <reef/trainer/trainer.hpp>

#include "support/tutorial.hpp"

using namespace reef;

/// Sends the upper half of each float.
struct UpperHalf {
  static constexpr std::string_view name = "upper-half";
  static constexpr bool exact = true, lossless = false, linear = false;
  static constexpr codec::MessageHead head(std::int64_t n) {
    return {codec::CodecId{1001}, name, 0, n};
  }
  static Bytes payload(std::int64_t n) { return 2 * static_cast<Bytes>(n); }
  [[nodiscard]] Bytes encoded_bytes(std::int64_t n) const {
    return codec::message_head_bytes + payload(n);
  }

  Bytes encode(std::span<const float> values, std::span<std::byte> message) const {
    const auto n = std::ssize(values);
    std::byte* to = codec::begin_message(message, head(n), payload(n)).data();
    for (const float value : values) {
      std::memcpy(to, reinterpret_cast<const std::byte*>(&value) + 2,
                  2);  // x86: the upper half comes last
      to += 2;
    }
    return codec::seal_message(message, head(n), payload(n));
  }
  void decode(std::span<const std::byte> message, std::span<float> values) const {
    const auto n = std::ssize(values);
    const std::byte* from = codec::open_message(message, head(n), payload(n), payload(n)).data();
    for (float& value : values) {
      value = 0;
      std::memcpy(reinterpret_cast<std::byte*>(&value) + 2, from, 2);
      from += 2;
    }
  }
};
static_assert(codec::codec<UpperHalf>);

using MyTrainer = Trainer<pipeline::OneFOneB<>, compress::Channels<compress::Activation<UpperHalf>>,
                          optim::Ddp<optim::AdamW>>;

int main(int argc, char** argv) try {
  const comm::Environment mpi(argc, argv);
  const data::Corpus text({argv + 1, argv + argc});
  const data::Sampler sampler(text.training(), 32, 1);
  MyTrainer::Options options;
  options.topology = run::Topology(1, 3);  // one replica of three stages
  options.micro_batches = {3};
  options.learning_rate = {.peak = 3e-3, .warmup = 5, .steps = 20};
  options.compress.choose = [](const compress::CodedMessages& messages) -> std::optional<double> {
    if (messages.from_stage == 1) return {};  // encoded
    return 1;                                // as it is
  };
  MyTrainer trainer(
      tutorial::model<float>(3),
      [&](std::uint64_t first, std::span<const AnyView> inputs) {
        sampler.fill(first, inputs);
        return 1.0;
      },
      options);
  Bytes sent = 0;
  for (const schedule::Instruction& i : trainer.program().round) {
    for (const auto& message : i.sends)
      sent += i.traffic == schedule::Traffic::activation ? message.bytes : 0;
  }
  if (sent > 0)
    std::printf("stage %d sends %s of activations a step\n", trainer.rank(),
                format_bytes(sent).c_str());
  for (int step = 1; step < 20; ++step) trainer.step();
  const double loss = trainer.step().loss;
  if (trainer.rank() == 0) std::printf("step 20  loss %.2f\n", loss);
} catch (const std::exception& error) {
  return comm::report_failure("tutorial-codec", error);
}
