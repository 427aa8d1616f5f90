#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include <reef/comm/message.hpp>
#include <reef/compress/detail/coder_writer.hpp>
#include <reef/compress/detail/edge_encoder.hpp>
#include <reef/compress/detail/encoder.hpp>
#include <reef/compress/detail/memories.hpp>
#include <reef/compress/kinds.hpp>
#include <reef/compress/views.hpp>
#include <reef/core/error.hpp>
#include <reef/core/inline.hpp>
#include <reef/core/text.hpp>
#include <reef/run/kinds.hpp>
#include <reef/run/messages.hpp>
#include <reef/run/transfers.hpp>
#include <reef/run/views.hpp>
#include <reef/schedule/rewriter.hpp>

namespace reef {
inline namespace v0 {
namespace compress::detail {

REEF_INLINE void Encoder::run() {
  if (builder_.purpose == run::Purpose::gather_committed) return;
  if (std::none_of(plan_.wire.begin(), plan_.wire.end(), [](const auto& form) { return form.encodes(); })) return;
  EdgeEncoder(builder_, coders_).run();
  schedule::Rewriter rewriter(program_);
  for (std::size_t i = 0; i < program_.round.size(); ++i) {
    run::Instruction& instruction = program_.round[i];
    const bool encodes = plan_.wire_of(instruction.traffic).encodes(instruction.index);
    if (instruction.collective && encodes) {
      if (auto coders = encode_collective(instruction)) {
        rewriter.insert_before(i, std::move(coders->first));
        rewriter.insert_after(i, std::move(coders->second));
      }
    } else if (instruction.kind == run::kinds::fold_rank &&
               plan_.wire_of(Traffic::gradient).encodes(instruction.index)) {
      const int fold = folds_so_far_[instruction.index]++ % plan_.virtual_ranks;
      rewriter.insert_before(i, encode_in_place(Traffic::gradient, instruction.index,
                                                run::FoldRankView(instruction).gradient.front(),
                                                {Side::sent, Side::received}, fold));
    }
  }
  rewriter.apply();
  keep_memories();
}

REEF_INLINE std::optional<std::pair<run::Instruction, run::Instruction>> Encoder::encode_collective(
    run::Instruction& instruction) {
  const schedule::Collective& all = *instruction.collective;
  const bool sums = all.form == schedule::CollectiveForm::reduce_scatter;
  const run::CollectiveView view(instruction);
  const run::Value given = view.given.front();
  const run::Value taken = view.taken.front();
  if (all.group.size() == 1) {
    if (!sums && plan_.virtual_ranks > 1) {
      instruction = encode_in_place(instruction.traffic, instruction.index, given, {Side::shared, Side::taken}, 0);
    }
    return std::nullopt;
  }
  const int own = all.group.position_of(builder_.rank());
  const std::int64_t own_size = size_of_part(all.offsets, to_index(own));
  const Traffic traffic = instruction.traffic;
  const Element element = traffic == Traffic::parameter ? plan_.dag->element : Element::float32;
  const auto bytes = [&](std::int64_t n) { return max_bytes(plan_, pieces_, traffic, instruction.index, n); };
  const std::vector<std::int64_t> by_owner = encoded_offsets(all.offsets, bytes);
  const std::int64_t own_bytes = bytes(own_size);
  const auto messages = [&](const char* what, std::int64_t size) {
    return run::Value{program_.add_storage(concat(what, schedule::name_of(traffic), " ", instruction.index),
                                           static_cast<Bytes>(size), run::Place::host),
                      0};
  };
  const std::int64_t members = all.group.size();
  const run::Value outbox = messages("messages for others of ", sums ? by_owner.back() : own_bytes);
  const run::Value inbox = messages("messages of others of ", sums ? own_bytes * members : by_owner.back());

  run::Instruction encode =
      coders_.coder(sums ? kinds::encode_parts : kinds::encode_shard, run::Lane::evict, traffic, instruction);
  encode.collective = instruction.collective;
  Coding coding{.copies = coders_.needs_copy(given, element)};
  const MemoryStorages::Storages* memory =
      coders_.use_memory({traffic, instruction.index, sums ? Side::sent : Side::shared, 0}, coding);
  encode.mode = coding.mode();
  {
    const EncodeView operands(encode, run::Lists::added);
    operands.numbers.front() = given;
    operands.message.front() = outbox;
    if (coding.copies) operands.copy.front() = coders_.copy_of(given, sums ? all.offsets.back() : own_size);
    coders_.set_memory(operands, memory);
  }

  run::Instruction decode =
      coders_.coder(sums ? kinds::decode_fold : kinds::decode_shards, run::Lane::update, traffic, instruction);
  decode.collective = instruction.collective;
  coding = {.copies = coders_.needs_copy(taken, element), .adds = sums, .judged = is_judged(traffic)};
  memory = coders_.use_memory({traffic, instruction.index, sums ? Side::received : Side::taken, 0}, coding);
  decode.mode = coding.mode();
  {
    const DecodeView operands(decode, run::Lists::added);
    operands.message.front() = inbox;
    operands.numbers.front() = taken;
    if (coding.copies) operands.copy.front() = coders_.copy_of(taken, sums ? own_size : all.offsets.back());
    if (coding.adds) {
      operands.term.front() = {
          program_.add_storage(concat("term of ", schedule::name_of(traffic), " ", instruction.index),
                               static_cast<Bytes>(own_size) * sizeof(float), place_of_memory(plan_)),
          0};
    }
    if (coding.judged) operands.verdict.front() = {builder_.verdict, 0};
    coders_.set_memory(operands, memory);
  }

  instruction.kind = sums ? kinds::exchange_encoded : kinds::gather_encoded;
  // What the collective has waited for, its encoding does, of which it is made.
  encode.after = run::waits_of(instruction, view);
  instruction.after.clear();
  run::CollectiveView(instruction, outbox, inbox);
  set_messages(instruction, sums, own_bytes, by_owner);
  encode.cost.bytes = 2 * program_.storages[given.storage].bytes + program_.storages[outbox.storage].bytes;
  decode.cost.bytes = 2 * program_.storages[taken.storage].bytes + program_.storages[inbox.storage].bytes;
  return std::pair{std::move(encode), std::move(decode)};
}

REEF_INLINE void Encoder::set_messages(run::Instruction& instruction, bool sums, std::int64_t own_bytes,
                  const std::vector<std::int64_t>& by_owner) const {
  const schedule::Collective& all = *instruction.collective;
  const auto message = [&](schedule::Message& of, std::int64_t bytes) {
    const comm::Cost cost = comm::message_cost(std::max<Bytes>(1, static_cast<Bytes>(bytes)), plan_.piece_bytes);
    of.bytes = static_cast<Bytes>(bytes) + cost.messages * comm::header_bytes;
    of.pieces = cost.messages;
  };
  const std::uint32_t channel = channel_of(instruction);
  std::map<int, Bytes> raw;  // by peer
  for (const schedule::Message& of : instruction.sends) raw[of.peer] += of.bytes - of.pieces * comm::header_bytes;
  instruction.sends.clear();
  instruction.receives.clear();
  for (int position = 0; position < all.group.size(); ++position) {
    const int peer = all.group.members[to_index(position)];
    if (peer == builder_.rank()) continue;
    const std::int64_t theirs = size_of_part(by_owner, to_index(position));
    instruction.sends.push_back({peer, 0, channel, 1, raw[peer]});
    message(instruction.sends.back(), sums ? theirs : own_bytes);
    instruction.receives.push_back({peer, 0, channel, 1});
    message(instruction.receives.back(), sums ? own_bytes : theirs);
  }
}

REEF_INLINE std::uint32_t Encoder::channel_of(const run::Instruction& instruction) {
  if (!instruction.sends.empty()) return instruction.sends.front().channel;
  if (!instruction.receives.empty()) return instruction.receives.front().channel;
  throw ScheduleError("reef::compress: ", instruction.text(), " is a collective of ",
                      instruction.collective->group.size(),
                      " ranks without a message.\n  fix: run::add_reduce_scatter_messages or "
                      "run::add_all_gather_messages, when it is written.");
}

REEF_INLINE run::Instruction Encoder::encode_in_place(Traffic traffic, int bucket, run::Value numbers,
                                                      std::pair<Side, Side> sides, int fold) {
  const run::Bucket& of = plan_.buckets[to_index(bucket)];
  const Element element = traffic == Traffic::gradient ? Element::float32 : plan_.dag->element;
  run::Instruction encode;
  encode.kind = kinds::encode_in_place;
  encode.lane = sides.first == Side::sent ? run::Lane::compute : run::Lane::update;
  encode.index = bucket;
  encode.traffic = traffic;
  const Coding coding{.copies = coders_.needs_copy(numbers, element), .judged = is_judged(traffic)};
  encode.mode = coding.mode();
  std::vector<run::Value> kept;
  std::vector<run::Value> next;
  for (const Side side : {sides.first, sides.second}) {
    Coding of_side;
    const auto* const memory = coders_.use_memory({traffic, bucket, side, fold}, of_side);
    if (memory == nullptr) continue;
    kept.push_back({memory->kept, 0});
    next.push_back({memory->next, 0});
  }
  Bytes largest = 0;
  const std::vector<std::int64_t> owners = of.owners;
  for (std::size_t part = 0; part + 1 < owners.size(); ++part) {
    largest = (std::max)(largest, plan_.wire_of(traffic).bytes(bucket, size_of_part(owners, part)));
  }
  const EncodeInPlaceView operands(encode, kept.size(), run::Lists::added);
  operands.numbers.front() = numbers;
  if (coding.judged) operands.verdict.front() = {builder_.verdict, 0};
  operands.kept.set(kept);
  operands.next.set(next);
  operands.message.front() = {
      program_.add_storage(concat("message of ", schedule::name_of(traffic), " ", bucket), largest,
                           run::Place::host),
      0};
  if (coding.copies) operands.copy.front() = coders_.copy_of(numbers, of.size());
  encode.cost.bytes = 4 * program_.storages[numbers.storage].bytes;
  return encode;
}

REEF_INLINE void Encoder::keep_memories() {
  if (!keeps_memories(builder_)) return;
  for (const auto& [key, storages] : coders_.memories()) {
    if (storages.next == run::no_storage) continue;
    run::Instruction& keep = program_.add(kinds::keep_memory, run::Lane::update, std::get<1>(key));
    const Traffic traffic = std::get<0>(key);
    const bool ahead = builder_.keeps_gradients() && schedule::is_between_stages(traffic);
    const KeepCondition keeps = traffic == Traffic::pseudo_gradient ? KeepCondition::always
                                : ahead                             ? KeepCondition::or_nothing
                                                                    : KeepCondition::by_verdict;
    keep.mode = static_cast<std::uint8_t>(keeps);
    const KeepMemoryView view(keep, run::Lists::added);
    if (keeps != KeepCondition::always) view.verdict.front() = {builder_.verdict, 0};
    view.next.front() = {storages.next, 0};
    view.memory.front() = {storages.kept, 0};
    keep.cost.bytes = 2 * program_.storages[storages.next].bytes;
  }
}

}  // namespace compress::detail
}  // namespace v0
}  // namespace reef
