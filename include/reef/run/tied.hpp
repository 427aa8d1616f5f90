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
/// Parameters that several stages use. The stage of a parameter's first use owns it: it receives the gradient of each
/// further use, and sends the weights back.
///
///     stage of a use     Download(gradient of the use)   SendTied     ReceiveTied   Upload(weights)
///     owner              ReceiveTied   Upload   FoldUses ... Update   DownloadTied(weights)   SendTied
///
/// The exchange runs once for gradients in a phase, and once for weights in a step. FoldUses adds gradients in the
/// order of uses, as a single rank would.

namespace reef {
inline namespace v0 {
namespace run {

namespace detail {

/// A writer of the messages of tied parameters (used by several stages), from and to host memory, so that they occupy
/// no device memory.
class TiedWriter {
public:
  explicit TiedWriter(StepBuilder& builder) : builder_(builder) {}

  /// Writes a send to another stage. `index`: that of the use, or of the parameter; `channel`: the message tag;
  /// `download`: the kind of the instruction that copies the values to host memory.
  void send(int index, std::vector<Value> from, const std::string& what, Bytes bytes, int stage,
            std::uint32_t channel, schedule::Traffic traffic, std::string_view download);
  void receive(int index, Value to, const std::string& what, Bytes bytes, int stage,
               std::uint32_t channel, schedule::Traffic traffic);

private:
  /// The buffers of messages that are repeated within a step: one for each weight version, since no more messages are
  /// in flight at once.
  struct MessageSlots {
    /// Buffers by name of the message, and number of uses so far.
    std::map<std::string, std::pair<std::vector<StorageId>, std::size_t>> by_name{};
  };

  /// Returns a buffer in host memory for a message. Without updates within the step, each message has a buffer of its
  /// own.
  StorageId host(const std::string& name, Bytes bytes);
  void copy(std::string_view kind, Lane lane, int index, std::vector<Value> from, Value to,
            Bytes bytes);
  [[nodiscard]] schedule::Message message(Bytes bytes, int stage, std::uint32_t channel) const;

  StepBuilder& builder_;
};

}  // namespace detail

/// Writes the messages of gradients of tied parameters to the stages that own the parameters. `sent`: their version on
/// the stage of the use; `received`: on the owner. Called by add_folds(), and by optimizers that keep gradients.
void add_tied_gradients(StepBuilder& builder, int fold, int sent, int received);

/// Writes the message of new weights to another stage that uses them; to be called on both stages. `owned`: on the
/// owner's stage, the parameter's bucket, whole or in adjacent parts; `copy`: on the other stage, the parameter.
void add_tied_copy(StepBuilder& builder, const TiedCopy& tied, std::vector<Value> owned, Value copy);

/// Writes the messages of weights to the other stages that use them. `weights`: by bucket that this stage holds, the
/// bucket, whole or in adjacent parts; `copies`: by parameter, the storage in which it arrives as version `version`.
void add_tied_weights(StepBuilder& builder, const std::vector<std::vector<Value>>& weights,
                      const std::vector<StorageId>& copies, int version);

/// Writes the messages of the model's weights of this version to all stages that use them, for optimizers that compute
/// new weights more than once in a program.
void add_tied_weights(StepBuilder& builder, int version);

/// Writes the messages of the new weights of a step (version 1) to all stages that use them, unless its optimizer does
/// so itself. To be called once the optimizer has written the step.
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
