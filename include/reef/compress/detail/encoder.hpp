#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include <reef/comm/message.hpp>
#include <reef/compress/detail/memories.hpp>
#include <reef/compress/kinds.hpp>
#include <reef/compress/views.hpp>
#include <reef/core/error.hpp>
#include <reef/core/text.hpp>
#include <reef/run/kinds.hpp>
#include <reef/run/messages.hpp>
#include <reef/run/transfers.hpp>
#include <reef/run/views.hpp>
#include <reef/schedule/rewriter.hpp>

namespace reef::inline v0::compress::detail {

/// Rewrites the transfers of a program whose traffic has a WireForm:
///
///     Download(e, j)  Send(e, j)         Encode(e, j)  Send(e, j)            the same lanes and slots
///     Receive(e, j)   Upload(e, j)       Receive(e, j)  Decode(e, j)
///     ReduceScatter(b)                   EncodeParts(b)  ExchangeEncoded(b)  DecodeFold(b)
///     GatherGradients(b), GatherWeights  EncodeShard(b)  GatherEncoded(b)    DecodeShards(b)
///     GatherDifferences(p)               the same, of parameter after parameter
///     FoldRank(b) of virtual ranks       EncodeInPlace(b)  FoldRank(b)
///
/// and behind all, KeepMemory for what codecs remember. A program that commits nothing keeps nothing.
class Encoder {
public:
  explicit Encoder(run::StepBuilder& builder)
      : builder_(builder),
        program_(builder.program),
        plan_(builder.plan),
        pieces_(run::fragment_pieces(builder.plan, builder.rank())),
        memories_(builder.scratch<MemoryStorages>().by_key) {}

  void run() {
    if (builder_.purpose == run::Purpose::gather_committed) return;
    if (std::none_of(plan_.wire.begin(), plan_.wire.end(), [](const auto& form) { return form.encodes(); })) return;
    encode_edges();
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

private:
  static std::size_t index(int i) { return static_cast<std::size_t>(i); }

  // -- tensors between stages ---------------------------------------------------------------------------------------

  void encode_edges() {
    std::map<run::StorageId, std::size_t> last_copy;  // by slot
    std::vector<std::pair<std::size_t, std::size_t>> sends;
    for (std::size_t i = 0; i < program_.round.size(); ++i) {
      run::Instruction& instruction = program_.round[i];
      if (instruction.kind == run::kinds::download) {
        for (const run::Value value : run::CopyView(instruction).to) last_copy[value.storage] = i;
      }
      if (!is_encoded_edge(instruction)) continue;
      if (!instruction.sends.empty()) {
        const run::StorageId slot = run::SendView(instruction).payload.front().storage;
        sends.emplace_back(last_copy.at(slot), i);
      } else if (!instruction.receives.empty()) {
        received_[run::ReceiveView(instruction).payload.front().storage] = instruction.traffic;
      }
    }
    for (const auto& [copy, send] : sends) {
      run::Instruction& transfer = program_.round[send];
      encode_edge(program_.round[copy], transfer.traffic);
      shrink(transfer.sends.at(0), transfer);
    }
    for (run::Instruction& instruction : program_.round) {
      if (instruction.kind == run::kinds::upload) {
        const auto slot = received_.find(run::CopyView(instruction).from.front().storage);
        if (slot != received_.end()) decode_edge(instruction, slot->second);
      } else if (!instruction.receives.empty() && is_encoded_edge(instruction)) {
        shrink(instruction.receives.at(0), instruction);
      }
    }
  }

  [[nodiscard]] bool is_encoded_edge(const run::Instruction& transfer) const {
    return !transfer.collective && schedule::is_between_stages(transfer.traffic) &&
           plan_.wire_of(transfer.traffic).encodes(transfer.index);
  }

  [[nodiscard]] const graph::TensorSpec& spec_of(int edge) const {
    return plan_.dag->tensor_at(plan_.remote_edges[index(edge)].tensor).spec;
  }

  [[nodiscard]] Bytes edge_bytes(Traffic traffic, int edge) const {
    return plan_.wire_of(traffic).bytes(edge, spec_of(edge).shape.size());
  }

  void shrink(schedule::Message& message, const run::Instruction& transfer) const {
    const comm::Cost cost = comm::message_cost(edge_bytes(transfer.traffic, transfer.index), plan_.piece_bytes);
    message.bytes = cost.bytes;
    message.pieces = cost.messages;
  }

  void encode_edge(run::Instruction& copy, Traffic traffic) {
    const run::CopyView view(copy);
    const run::Value tensor = view.from.front();
    const run::Value slot = view.to.front();
    run::Instruction encode = coder(kinds::encode, copy.lane, traffic, copy);
    Coding coding{.copies = needs_copy(tensor, spec_of(copy.index).element)};
    const MemoryStorages::Storages* const memory = use_memory(key_of_edge(plan_, traffic, Side::sent, copy), coding);
    encode.mode = coding.mode();
    const EncodeView operands(encode, run::Lists::added);
    operands.numbers.front() = tensor;
    operands.message.front() = slot;
    if (coding.copies) operands.copy.front() = copy_of(tensor, spec_of(copy.index).shape.size());
    set_memory(operands, memory);
    program_.storages[slot.storage].bytes = edge_bytes(traffic, copy.index);
    wait_as(encode, copy);
    copy = std::move(encode);
  }

  void decode_edge(run::Instruction& copy, Traffic traffic) {
    const run::CopyView view(copy);
    const run::Value slot = view.from.front();
    const run::Value tensor = view.to.front();
    run::Instruction decode = coder(kinds::decode, copy.lane, traffic, copy);
    Coding coding{.copies = needs_copy(tensor, spec_of(copy.index).element)};
    const MemoryStorages::Storages* const memory = use_memory(key_of_edge(plan_, traffic, Side::received, copy), coding);
    decode.mode = coding.mode();
    const DecodeView operands(decode, run::Lists::added);
    operands.message.front() = slot;
    operands.numbers.front() = tensor;
    if (coding.copies) operands.copy.front() = copy_of(tensor, spec_of(copy.index).shape.size());
    set_memory(operands, memory);
    program_.storages[slot.storage].bytes = edge_bytes(traffic, copy.index);
    wait_as(decode, copy);
    copy = std::move(decode);
  }

  /// What a copy reads beyond what it copies, it waits for.
  static void wait_as(run::Instruction& coder, const run::Instruction& copy) {
    for (std::size_t k = copy.writes.size(); k < copy.reads.size(); ++k) coder.reads.push_back(copy.reads[k]);
  }

  // -- collectives --------------------------------------------------------------------------------------------------

  /// What comes before the collective, and behind it. Of a process that stands for several ranks one instruction takes its
  /// place.
  std::optional<std::pair<run::Instruction, run::Instruction>> encode_collective(run::Instruction& instruction) {
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
    const std::int64_t own_size = size_of_part(all.offsets, index(own));
    const Traffic traffic = instruction.traffic;
    const Element element = traffic == Traffic::parameter ? plan_.dag->element : Element::float32;
    const auto bytes = [&](std::int64_t n) { return most_bytes(plan_, pieces_, traffic, instruction.index, n); };
    const std::vector<std::int64_t> by_owner = places_of(all.offsets, bytes);
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
        coder(sums ? kinds::encode_parts : kinds::encode_shard, lane_of_encode(traffic), traffic, instruction);
    encode.collective = instruction.collective;
    Coding coding{.copies = needs_copy(given, element)};
    const MemoryStorages::Storages* memory =
        use_memory({traffic, instruction.index, sums ? Side::sent : Side::shared, 0}, coding);
    encode.mode = coding.mode();
    {
      const EncodeView operands(encode, run::Lists::added);
      operands.numbers.front() = given;
      operands.message.front() = outbox;
      if (coding.copies) operands.copy.front() = copy_of(given, sums ? all.offsets.back() : own_size);
      set_memory(operands, memory);
    }

    run::Instruction decode =
        coder(sums ? kinds::decode_fold : kinds::decode_shards, run::Lane::update, traffic, instruction);
    decode.collective = instruction.collective;
    coding = {.copies = needs_copy(taken, element), .adds = sums};
    memory = use_memory({traffic, instruction.index, sums ? Side::received : Side::taken, 0}, coding);
    decode.mode = coding.mode();
    {
      const DecodeView operands(decode, run::Lists::added);
      operands.message.front() = inbox;
      operands.numbers.front() = taken;
      if (coding.copies) operands.copy.front() = copy_of(taken, sums ? own_size : all.offsets.back());
      if (coding.adds) {
        operands.term.front() = {
            program_.add_storage(concat("term of ", schedule::name_of(traffic), " ", instruction.index),
                                 static_cast<Bytes>(own_size) * sizeof(float), place_of_memory(plan_)),
            0};
      }
      set_memory(operands, memory);
    }

    instruction.kind = sums ? kinds::exchange_encoded : kinds::gather_encoded;
    std::vector<run::Value> waits(instruction.reads.begin() + 1, instruction.reads.end());
    encode.reads.insert(encode.reads.end(), waits.begin(), waits.end());
    instruction.reads.resize(1);
    {
      const run::CollectiveView transfer(instruction);
      transfer.given.front() = outbox;
      transfer.taken.front() = inbox;
    }
    set_messages(instruction, sums, own_bytes, by_owner);
    encode.cost.bytes = 2 * program_.storages[given.storage].bytes + program_.storages[outbox.storage].bytes;
    decode.cost.bytes = 2 * program_.storages[taken.storage].bytes + program_.storages[inbox.storage].bytes;
    return std::pair{std::move(encode), std::move(decode)};
  }

  /// Where an outer step is waited for, nothing else computes: what comes later is encoded beside what is decoded.
  [[nodiscard]] run::Lane lane_of_encode(Traffic traffic) const {
    const bool waits = plan_.outer_schedule.overlap == run::OuterSchedule::Overlap::none;
    return traffic == Traffic::pseudo_gradient && waits ? run::Lane::compute : run::Lane::update;
  }

  /// As AllToAllTask has them: at least one message for each other member.
  void set_messages(run::Instruction& instruction, bool sums, std::int64_t own_bytes,
                    const std::vector<std::int64_t>& by_owner) const {
    const schedule::Collective& all = *instruction.collective;
    const auto message = [&](schedule::Message& of, std::int64_t bytes) {
      const comm::Cost cost = comm::message_cost(std::max<Bytes>(1, static_cast<Bytes>(bytes)), plan_.piece_bytes);
      of.bytes = static_cast<Bytes>(bytes) + cost.messages * comm::header_bytes;
      of.pieces = cost.messages;
    };
    const std::uint32_t channel = channel_of(instruction);
    instruction.sends.clear();
    instruction.receives.clear();
    for (int position = 0; position < all.group.size(); ++position) {
      const int peer = all.group.members[index(position)];
      if (peer == builder_.rank()) continue;
      const std::int64_t theirs = size_of_part(by_owner, index(position));
      instruction.sends.push_back({peer, 0, channel, 1});
      message(instruction.sends.back(), sums ? theirs : own_bytes);
      instruction.receives.push_back({peer, 0, channel, 1});
      message(instruction.receives.back(), sums ? own_bytes : theirs);
    }
  }

  /// A shard may be empty, and nothing then sent of it: its channel is another's of the same collective. None: all are.
  static std::uint32_t channel_of(const run::Instruction& instruction) {
    if (!instruction.sends.empty()) return instruction.sends.front().channel;
    if (!instruction.receives.empty()) return instruction.receives.front().channel;
    throw ScheduleError("reef::compress: ", instruction.text(), " is a collective of ",
                        instruction.collective->group.size(),
                        " ranks without a message.\n  fix: run::add_reduce_scatter_messages or "
                        "run::add_all_gather_messages, when it is written.");
  }

  run::Instruction encode_in_place(Traffic traffic, int bucket, run::Value numbers, std::pair<Side, Side> sides,
                                   int fold) {
    const run::Bucket& of = plan_.buckets[index(bucket)];
    const Element element = traffic == Traffic::gradient ? Element::float32 : plan_.dag->element;
    run::Instruction encode;
    encode.kind = kinds::encode_in_place;
    encode.lane = sides.first == Side::sent ? run::Lane::compute : run::Lane::update;
    encode.index = bucket;
    encode.traffic = traffic;
    const Coding coding{.copies = needs_copy(numbers, element)};
    encode.mode = coding.mode();
    std::vector<run::Value> kept;
    std::vector<run::Value> next;
    for (const Side side : {sides.first, sides.second}) {
      Coding of_side;
      const auto* const memory = use_memory({traffic, bucket, side, fold}, of_side);
      if (memory == nullptr) continue;
      kept.push_back({memory->kept, 0});
      next.push_back({memory->next, 0});
    }
    Bytes largest = 0;
    const std::vector<std::int64_t> owners = of.owners;
    for (std::size_t part = 0; part + 1 < owners.size(); ++part) {
      largest = std::max(largest, plan_.wire_of(traffic).bytes(bucket, size_of_part(owners, part)));
    }
    const EncodeInPlaceView operands(encode, kept.size(), run::Lists::added);
    operands.numbers.front() = numbers;
    operands.kept.set(kept);
    operands.next.set(next);
    operands.message.front() = {
        program_.add_storage(concat("message of ", schedule::name_of(traffic), " ", bucket), largest,
                             run::Place::host),
        0};
    if (coding.copies) operands.copy.front() = copy_of(numbers, of.size());
    encode.cost.bytes = 4 * program_.storages[numbers.storage].bytes;
    return encode;
  }

  // -- what they share ----------------------------------------------------------------------------------------------

  run::Instruction coder(std::string_view kind, run::Lane lane, Traffic traffic, const run::Instruction& of) const {
    run::Instruction result;
    result.kind = kind;
    result.lane = lane;
    result.index = of.index;
    result.micro_batch = of.micro_batch;
    result.traffic = traffic;
    result.cost = of.cost;
    return result;
  }

  /// Numbers that the host cannot read where they are, or as they are.
  [[nodiscard]] bool needs_copy(run::Value numbers, Element element) const {
    const bool away = plan_.discrete && program_.storages[numbers.storage].place == run::Place::device;
    return away || element != Element::float32;
  }

  run::Value copy_of(run::Value numbers, std::int64_t n) {
    const std::string name = concat(program_.name(numbers), " as floats");
    return {program_.add_storage(name, static_cast<Bytes>(n) * sizeof(float), place_of_memory(plan_)), 0};
  }

  /// Null: the codec of that traffic remembers nothing on that side. Else the coding says so, and whether it is the first use
  /// of a round: of an edge micro-batches follow each other, of a reduction each begins with what was kept. Of samples that come
  /// again a program that keeps nothing remembers nothing: its samples are others.
  const MemoryStorages::Storages* use_memory(const Memory::Key& key, Coding& coding) {
    const std::int64_t period = plan_.wire_of(std::get<0>(key)).period;
    const auto found = memories_.find(key);
    if (found == memories_.end() || (period > 0 && !keeps_memories(builder_))) return nullptr;
    MemoryStorages::Storages& storages = found->second;
    coding.remembers = true;
    coding.begins = storages.next == run::no_storage || !schedule::is_between_stages(std::get<0>(key));
    if (coding.begins) {
      const schedule::Storage kept = program_.storages[storages.kept];
      storages.next = program_.add_storage(kept.name + " behind the step",
                                           kept.bytes / static_cast<Bytes>(std::max<std::int64_t>(1, period)), kept.place);
    }
    return &storages;
  }

  template <class View>
  static void set_memory(const View& operands, const MemoryStorages::Storages* memory) {
    if (memory == nullptr) return;
    if (!operands.kept.empty()) operands.kept.front() = {memory->kept, 0};
    operands.next.front() = {memory->next, 0};
  }

  void keep_memories() {
    if (!keeps_memories(builder_)) return;
    for (const auto& [key, storages] : memories_) {
      if (storages.next == run::no_storage) continue;
      run::Instruction& keep = program_.add(kinds::keep_memory, run::Lane::update, std::get<1>(key));
      const bool always = std::get<0>(key) == Traffic::pseudo_gradient;
      keep.mode = static_cast<std::uint8_t>(always ? Keeps::always : Keeps::by_verdict);
      const KeepMemoryView view(keep, run::Lists::added);
      if (!always) view.verdict.front() = {builder_.verdict, 0};
      view.next.front() = {storages.next, 0};
      view.memory.front() = {storages.kept, 0};
      keep.cost.bytes = 2 * program_.storages[storages.next].bytes;
    }
  }

  run::StepBuilder& builder_;
  schedule::Program& program_;
  const run::StepPlan& plan_;
  std::vector<run::FragmentPiece> pieces_;
  std::map<Memory::Key, MemoryStorages::Storages>& memories_;
  std::map<run::StorageId, Traffic> received_{};  ///< by slot
  std::map<int, int> folds_so_far_{};             ///< by bucket
};

}  // namespace reef::inline v0::compress::detail
