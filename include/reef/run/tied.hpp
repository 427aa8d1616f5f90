#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <reef/comm/message.hpp>
#include <reef/core/text.hpp>
#include <reef/run/kinds.hpp>
#include <reef/run/messages.hpp>
#include <reef/run/step_builder.hpp>
#include <reef/run/transfers.hpp>

/// \file
/// Parameters that several stages use. The stage of the first use owns it: to it go the gradients of all further
/// uses, each for itself, and from it the weights come back.
///
///     stage of a use     Download(gradient of the use)   SendTied     ReceiveTied   Upload(weights)
///     owner              ReceiveTied   Upload   FoldUses ... Update   DownloadTied(weights)   SendTied
///
/// The exchange runs once for gradients in a phase, and once for weights in a step. FoldUses adds gradients in the
/// order of uses, as where one rank has them all.

namespace reef {
inline namespace v0 {
namespace run {

namespace detail {

/// Writes the messages of tied parameters: from and to host memory, so that messages do not hold the device's.
class TiedWriter {
public:
  explicit TiedWriter(StepBuilder& builder) : builder_(builder) {}

  /// Writes a send to another stage. `index`: the use, or the parameter; `channel` tells messages apart.
  void send(int index, std::vector<Value> from, const std::string& what, Bytes bytes, int stage,
            std::uint32_t channel, schedule::Traffic traffic, std::string_view download);
  void receive(int index, Value to, const std::string& what, Bytes bytes, int stage,
               std::uint32_t channel, schedule::Traffic traffic);

private:
  /// The slots of messages that come again within a step: one for each weight version, since no more messages are under
  /// way.
  struct Slots {
    std::map<std::string, std::pair<std::vector<StorageId>, std::size_t>> by_name{};  ///< slots, and their uses so far
  };

  /// Returns a slot in host memory for a message. Without updates within the step, each message has a slot of its own.
  StorageId host(const std::string& name, Bytes bytes);
  void copy(std::string_view kind, Lane lane, int index, std::vector<Value> from, Value to,
            Bytes bytes);
  [[nodiscard]] schedule::Message message(Bytes bytes, int stage, std::uint32_t channel) const;

  StepBuilder& builder_;
};

}  // namespace detail

/// Brings the gradients of uses on other stages to the stage that owns the parameter: of version `sent` there, of
/// version `received` here. Called by add_folds(), and by optimizers that keep gradients, when they hand them over.
void add_tied_gradients(StepBuilder& builder, int fold, int sent, int received);

/// Brings new weights to another stage that uses them: written on both stages. `owned`: on the stage that owns the
/// parameter, the storage of its bucket, whole or in parts side by side; `copy`: on the other stage, the parameter.
void add_tied_copy(StepBuilder& builder, const TiedCopy& tied, std::vector<Value> owned, Value copy);

/// Brings weights to the other stages that use them. `weights`: by bucket that this stage holds, its storages, whole or
/// in parts side by side; `copies`: by parameter, the storage in which it arrives as version `version`.
void add_tied_weights(StepBuilder& builder, const std::vector<std::vector<Value>>& weights,
                      const std::vector<StorageId>& copies, int version);

/// Brings the model's weights of that version to all stages that use them, for optimizers that make new weights more
/// than once in a program.
void add_tied_weights(StepBuilder& builder, int version);

/// Brings the one version of weights that a step makes to all stages that use them, unless its optimizer has done so.
/// Called once the optimizer has written the step.
inline void add_tied_weights(StepBuilder& builder) {
  const bool steps = builder.purpose == Purpose::training || builder.purpose == Purpose::warm_up;
  if (steps && !builder.sends_tied_weights) add_tied_weights(builder, 1);
}

}  // namespace run
}  // namespace v0
}  // namespace reef

#ifndef REEF_COMPILED
#include <reef/run/tied.ipp>
#endif
