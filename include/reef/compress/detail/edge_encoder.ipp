#pragma once

#include <cstddef>
#include <map>
#include <utility>

#include <reef/comm/message.hpp>
#include <reef/compress/detail/coder_writer.hpp>
#include <reef/compress/detail/edge_encoder.hpp>
#include <reef/compress/detail/masks.hpp>
#include <reef/core/error.hpp>
#include <reef/core/inline.hpp>
#include <reef/run/kinds.hpp>
#include <reef/run/messages.hpp>
#include <reef/run/transfers.hpp>
#include <reef/run/views.hpp>

namespace reef {
inline namespace v0 {
namespace compress::detail {

REEF_INLINE void EdgeEncoder::run() {
  for (std::size_t e = 0; builder_.trains() && e < plan_.remote_edges.size(); ++e) {
    const int masks = plan_.wire_of(Traffic::activation_gradient).mask(static_cast<int>(e));
    if (masks >= 0) masking_.insert(masks);
  }
  for (run::Instruction& instruction : program_.round) {
    if (!is_encoded(instruction)) continue;
    if (instruction.kind == run::kinds::download) {
      code(instruction, true);
    } else if (instruction.kind == run::kinds::upload) {
      code(instruction, false);
    } else if (!instruction.sends.empty()) {
      require_coded(instruction, run::SendView(instruction).payload.front());
      shrink(instruction.sends.at(0), instruction);
    } else if (!instruction.receives.empty()) {
      shrink(instruction.receives.at(0), instruction);
    }
  }
}

REEF_INLINE void EdgeEncoder::require_coded(const run::Instruction& send, run::Value slot) const {
  if (encoded_.contains(slot.storage)) return;
  throw ScheduleError(
      "reef::compress: ", send.text(), " is to be encoded, but no copy of ", schedule::name_of(send.traffic), " ",
      send.index, " has written '", program_.name(slot),
      "'.\n  why: a codec takes the place of the copies beside a message, and finds them by what they carry.\n"
      "  fix: Instruction::traffic and index of Download and Upload, as of their message.");
}

REEF_INLINE bool EdgeEncoder::is_encoded(const run::Instruction& transfer) const {
  return !transfer.collective && schedule::is_between_stages(transfer.traffic) &&
         plan_.wire_of(transfer.traffic).encodes(transfer.index);
}

REEF_INLINE void EdgeEncoder::shrink(schedule::Message& message, const run::Instruction& transfer) const {
  message.raw = message.bytes - message.pieces * comm::header_bytes;
  const comm::Cost cost = comm::message_cost(run::edge_bytes(plan_, transfer.index), plan_.piece_bytes);
  message.bytes = cost.bytes;
  message.pieces = cost.messages;
}

REEF_INLINE void EdgeEncoder::code(run::Instruction& copy, bool sends) {
  const Traffic traffic = copy.traffic;
  const run::CopyView view(copy);
  const run::Value tensor = sends ? view.from.front() : view.to.front();
  const run::Value slot = sends ? view.to.front() : view.from.front();
  run::Instruction coder = coders_.coder(sends ? kinds::encode : kinds::decode, copy.lane, traffic, copy);
  const graph::TensorSpec& spec = spec_of(copy.index);
  const int masks = plan_.wire_of(traffic).mask(copy.index);
  Coding coding{.copies = coders_.needs_copy(tensor, spec.element),
                .masks = traffic == Traffic::activation && masking_.contains(copy.index),
                .masked = masks >= 0};
  const auto* const memory =
      coders_.use_memory(key_of_edge(plan_, traffic, sends ? Side::sent : Side::received, copy), coding);
  coder.mode = coding.mode();
  const auto fill = [&](const auto& operands) {
    operands.numbers.front() = tensor;
    operands.message.front() = slot;
    if (coding.copies) operands.copy.front() = room_of("as floats", copy.index);
    coders_.set_memory(operands, memory);
    if (coding.masks) operands.mask.front() = masks_.take(copy.index, copy.micro_batch, spec.shape.size());
    if (coding.masked) operands.mask.front() = masks_.give_back(masks, copy.micro_batch);
    if (!operands.term.empty()) operands.term.front() = room_of("as its message has it", copy.index);
  };
  if (sends) {
    fill(EncodeView(coder, run::Lists::added));
  } else {
    fill(DecodeView(coder, run::Lists::added));
  }
  if (sends) encoded_.insert(slot.storage);
  coder.after = run::waits_of(copy, view);
  copy = std::move(coder);
}

REEF_INLINE run::Value EdgeEncoder::room_of(const char* use, int edge) {
  const auto [at, is_new] = rooms_.try_emplace({edge, use}, run::no_storage);
  if (is_new) {
    const graph::Tensor& tensor = plan_.dag->tensor_at(plan_.remote_edges[static_cast<std::size_t>(edge)].tensor);
    at->second = program_.add_storage(concat(tensor.name, " of edge ", edge, " ", use),
                                      static_cast<Bytes>(tensor.spec.shape.size()) * sizeof(float),
                                      place_of_memory(plan_));
  }
  return {at->second, 0};
}

}  // namespace compress::detail
}  // namespace v0
}  // namespace reef
