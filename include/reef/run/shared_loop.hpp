#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include <reef/run/kinds.hpp>
#include <reef/run/messages.hpp>
#include <reef/run/step_builder.hpp>
#include <reef/run/transfers.hpp>

/// \file
/// Loops that the stages of a pipeline run together (schedule::Repeat), and the messages by which the stages agree
/// before the body and at its end.

namespace reef {
inline namespace v0 {
namespace run {

/// A writer of the instructions by which the stages of this rank's replica agree about one loop. Each stage tells all
/// others whether it is done; so all end the loop at the same iteration without a leader, in one latency, and the last
/// stage to arrive waits for nobody.
///
///     Ready       compute   after all instructions so far of that lane
///     Agree(l)    send      each stage's number to all: 1 if it is done, else 0
///     Agreed      compute   ends a body
///
/// | wire | 8 bytes and a header from each stage to each other, once before the loop and once an iteration   |
/// | lane | send; in the queue reduce, the agreement would stand behind messages that end the loop: deadlock |
///
/// \code
/// // given: run::StepBuilder& builder, const run::Pass& body, std::uint32_t until
/// run::SharedLoop loop(builder, 0, run::first_scalars_channel);
/// loop.begin();
/// body(builder);
/// loop.end(until, 0);
/// \endcode
class SharedLoop {
public:
  /// Constructs a writer of the agreement about one loop; refers to `builder`. `number`: the index of the loop in the
  /// program. No other loop uses `channel` (message tag).
  SharedLoop(StepBuilder& builder, int number, std::uint32_t channel);

  /// Writes the agreement of the stages that comes before the loop's body.
  void begin();

  /// Writes the agreement of the stages that ends the body, and adds the loop to the program: see Repeat::until and
  /// Repeat::max.
  void end(std::uint32_t until, int max);

private:
  /// Appends an agreement of the stages, and returns the index of its message instruction in the program.
  std::uint32_t add_agreement();

  StepBuilder& builder_;
  int number_;
  std::uint32_t channel_;
  Group group_;
  Value ready_;
  Value said_;
  schedule::Repeat repeat_{};
};

/// Adds the code by which stages agree about loops (instructions Ready, Agree and Agreed) to the handlers.
template <class Handlers, class RankContext>
void add_shared_loop_code(Handlers& handlers, const RankContext& context) {
  for (const std::string_view kind : {kinds::ready, kinds::agreed}) {
    handlers.on_lane(kind, [](const Instruction& /*unused*/) -> typename Handlers::Code {
      return [](typename Handlers::Lane& /*unused*/) {};
    });
  }
  handlers.on_wire(kinds::agree, [&context](const Instruction& agree) -> typename Handlers::Communication {
    const std::span<double> said = context.template span<double>(CollectiveView(agree).taken.front());
    const auto own = static_cast<std::size_t>(agree.collective->group.position_of(context.rank()));
    auto exchange =
        context.template all_gather<double>(agree.text(), agree, std::span<const double>(said).subspan(own, 1), said);
    exchange.say = [to = &said[own]](bool done) { *to = done ? 1 : 0; };
    exchange.all_done = [said] { return std::all_of(said.begin(), said.end(), [](double done) { return done != 0; }); };
    return exchange;
  });
}

}  // namespace run
}  // namespace v0
}  // namespace reef

#ifndef REEF_COMPILED
#include <reef/run/shared_loop.ipp>
#endif
