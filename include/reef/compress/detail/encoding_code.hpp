#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <span>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include <reef/codec/adjust.hpp>
#include <reef/codec/concept.hpp>
#include <reef/codec/message.hpp>
#include <reef/comm/all_to_all.hpp>
#include <reef/comm/point_to_point.hpp>
#include <reef/compress/detail/coded_numbers.hpp>
#include <reef/compress/detail/coded_parts.hpp>
#include <reef/compress/detail/coding_probe.hpp>
#include <reef/compress/detail/device_coding.hpp>
#include <reef/compress/detail/encoded_exchange.hpp>
#include <reef/compress/detail/masks.hpp>
#include <reef/compress/detail/memories.hpp>
#include <reef/compress/detail/replanning.hpp>
#include <reef/compress/kinds.hpp>
#include <reef/compress/ratio_ramp.hpp>
#include <reef/compress/views.hpp>
#include <reef/compress/watch.hpp>
#include <reef/core/error.hpp>
#include <reef/core/hash.hpp>
#include <reef/core/text.hpp>
#include <reef/run/verdict.hpp>

namespace reef {
inline namespace v0 {
namespace compress::detail {

/// Decodes a message from somebody: an error says whose it was.
template <class Codec, class... Rest>
void decode_from(const Codec& codec, const std::string& what, std::span<const std::byte> room, Rest&&... rest) {
  saying_whose(what, [&] { codec::decode(codec, codec::message_in(room), std::forward<Rest>(rest)...); });
}

/// The code of what Encoder writes, for codecs that `with_codec(traffic, index, function)` calls `function` with.
template <class Handlers, class RankContext, class WithCodec>
class EncodingCode {
  using Instruction = schedule::Instruction;
  using Lane = typename Handlers::Lane;
  using Code = typename Handlers::Code;
  using Communication = typename Handlers::Communication;

public:
  EncodingCode(const RankContext& context, Watch watch, RatioRamp ramp, bool replans, WithCodec with_codec)
      : context_(context),
        watch_(std::move(watch)),
        ramp_(ramp),
        replans_(replans),
        plan_(context.plan()),
        parts_(context.plan(), context.rank()),
        with_codec_(std::move(with_codec)) {}

  static void add(Handlers& handlers, const RankContext& context, Watch watch, RatioRamp ramp, bool replans,
                  WithCodec with_codec) {
    const auto self =
        std::make_shared<const EncodingCode>(context, std::move(watch), ramp, replans, std::move(with_codec));
    const auto on_lane = [&](std::string_view kind, auto make) {
      handlers.on_lane(kind, [self, make](const Instruction& i) { return ((*self).*make)(i); });
    };
    const auto on_wire = [&](std::string_view kind, auto make) {
      handlers.on_wire(kind, [self, make](const Instruction& i) { return ((*self).*make)(i); });
    };
    on_lane(kinds::encode, &EncodingCode::encode);
    on_lane(kinds::encode_parts, &EncodingCode::encode);
    on_lane(kinds::encode_shard, &EncodingCode::encode);
    on_lane(kinds::decode, &EncodingCode::decode);
    on_lane(kinds::decode_shards, &EncodingCode::decode);
    on_lane(kinds::decode_fold, &EncodingCode::decode);
    on_lane(kinds::encode_in_place, &EncodingCode::encode_in_place);
    on_lane(kinds::keep_memory, &EncodingCode::keep_memory);
    on_wire(kinds::exchange_encoded, &EncodingCode::exchange);
    on_wire(kinds::gather_encoded, &EncodingCode::exchange);
  }

private:
  [[nodiscard]] CodedNumbers numbers_of(const Instruction& i, run::Value value,
                                        const run::PartOf<const Instruction>& copy) const {
    const schedule::Storage& storage = context_.storage(value);
    CodedNumbers numbers;
    numbers.at = context_.memory.at(value.storage);
    numbers.element = Element::float32;
    if (i.traffic == Traffic::parameter) numbers.element = plan_.dag->element;
    if (!i.collective && i.kind != kinds::encode_in_place) {
      numbers.element =
          plan_.dag->tensor_at(plan_.remote_edges[static_cast<std::size_t>(i.index)].tensor).spec.element;
    }
    numbers.count = static_cast<std::int64_t>(storage.bytes / size_of(numbers.element));
    numbers.away = plan_.discrete && storage.place == schedule::Place::device;
    if (!copy.empty()) numbers.copy = context_.template at<float>(copy.front());
    numbers.padding = parts_.padding(i, numbers.count);
    return numbers;
  }

  /// Kept memory, or where the round has it by now, and memory behind it.
  struct Memory {
    std::span<const float> before;
    std::span<float> behind;

    /// Of kept memories, one behind the other, that at a place.
    [[nodiscard]] Memory at(std::size_t place) const { return {before.subspan(place, behind.size()), behind}; }
    [[nodiscard]] std::span<const float> before_part(const std::vector<std::int64_t>& places, std::size_t part) const {
      return behind.empty() ? before : part_of(before, places, part);
    }
    [[nodiscard]] std::span<float> behind_part(const std::vector<std::int64_t>& places, std::size_t part) const {
      return behind.empty() ? behind : part_of(behind, places, part);
    }
  };

  template <class View>
  [[nodiscard]] Memory memory_of(const View& view) const {
    Memory memory;
    if (view.next.empty()) return memory;
    memory.behind = context_.template span<float>(view.next.front());
    memory.before = view.kept.empty() ? std::span<const float>(memory.behind)
                                      : std::span<const float>(context_.template span<float>(view.kept.front()));
    return memory;
  }

  /// The mask of what arrives as zero, and room for what goes by a message.
  struct MaskOperands {
    bool writes = false;
    bool reads = false;
    std::span<std::uint8_t> bits{};
    std::span<float> term{};

    [[nodiscard]] std::span<float> pack(std::span<const float> numbers) const {
      return term.first(detail::pack(numbers, bits, term));
    }
  };

  template <class View>
  [[nodiscard]] MaskOperands mask_of(const Instruction& i, const View& view) const {
    const Coding coding = coding_of(i);
    MaskOperands mask{.writes = coding.masks, .reads = coding.masked};
    if (!view.mask.empty()) mask.bits = context_.template span<std::uint8_t>(view.mask.front());
    if (!view.term.empty() && !coding.adds) mask.term = context_.template span<float>(view.term.front());
    return mask;
  }

  /// Where that of this step begins, of as many as there are: one, or one for each step until samples come again.
  [[nodiscard]] auto place_of_step(std::size_t all, std::size_t one) const {
    const std::uint64_t steps = one == 0 ? 1 : all / one;
    return [&state = context_.state, each = static_cast<std::uint64_t>(plan_.micro_batches_of_step()), steps, one] {
      return static_cast<std::size_t>(state.micro_batch / each % steps) * one;
    };
  }

  /// The number of an instruction's message among all of a training, alike on all who send or receive it: for codecs
  /// that draw. In a loop each iteration sends another.
  [[nodiscard]] auto number_of(const Instruction& i) const {
    return [&context = context_, traffic = i.traffic, index = i.index, micro_batch = i.micro_batch,
            round = std::uint32_t{0}, sent = 0]() mutable {
      sent = std::exchange(round, context.round) == context.round ? sent + 1 : 0;
      const run::StepState& state = context.state;
      Hash hash;
      hash.add(state.seed).add(state.micro_batch).add(schedule::name_of(traffic)).add(index).add(micro_batch);
      if (sent > 0) hash.add(sent);
      return hash.value();
    };
  }

  /// Where the verdict of the step is that it depends on; null: it does what it does in any case.
  template <class View>
  [[nodiscard]] const run::Verdict* verdict_of(const View& view) const {
    return view.verdict.empty() ? nullptr : context_.template at<run::Verdict>(view.verdict.front());
  }
  static bool counts(const run::Verdict* verdict) { return verdict == nullptr || verdict->commit; }

  /// Zeros that arrive are then zeros that were sent, whose gradients are none.
  template <class Codec>
  static bool keeps_all(const Codec& codec, std::span<const float> values) {
    return codec::kept_of(codec, std::ssize(values)) == std::ssize(values);
  }

  /// As `state` says when the code runs. Differences have no ramp.
  [[nodiscard]] AtStep at_step(const Instruction& i) const {
    const bool planned =
        replans_ && schedule::is_between_stages(i.traffic) && plan_.wire_of(i.traffic).ratio(i.index) == 0;
    return {i.traffic == Traffic::pseudo_gradient ? RatioRamp{} : ramp_, context_.state, planned ? i.index : -1,
            i.traffic, i.index};
  }

  [[nodiscard]] Code encode(const Instruction& i) const {
    const EncodeView view(i);
    const CodedNumbers numbers = numbers_of(i, view.numbers.front(), view.copy);
    const CodedParts parts = parts_.of(i, numbers.count, true);
    const std::span<std::byte> messages = context_.template span<std::byte>(view.message.front());
    const Memory memories = memory_of(view);
    const MaskOperands mask = mask_of(i, view);
    Code code;
    with_codec_(i.traffic, i.index, [&](const auto& codec) {
      const auto look = CodingProbe::at(watch_, context_, i, view.message.front(), codec, parts);
      if constexpr (device_has<Lane, decltype(codec)>) {
        if (numbers.away && !mask.reads && !mask.writes && look == nullptr) {
          code = [=](Lane& lane) { encode_by_device(lane, codec, numbers, parts, messages); };
          return;
        }
      }
      code = [=, at_step = at_step(i), number = number_of(i),
              place = place_of_step(memories.before.size(), memories.behind.size())](Lane& lane) mutable {
        const Memory memory = memories.at(place());
        numbers.bring(lane);
        const std::span<const float> floats = numbers.floats();
        const auto own = at_step(codec::for_message(codec, number()));
        if (mask.reads) {
          const std::span<const float> packed = mask.pack(floats);
          const Bytes used = codec::encode(own, packed, {}, {}, messages, threads_of(lane));
          if (look != nullptr) look->see_masked(own, floats, mask.bits, messages.first(static_cast<std::size_t>(used)));
          return;
        }
        std::size_t end = 0;
        for (std::size_t part = 0; part + 1 < parts.numbers.size(); ++part) {
          const std::span<std::byte> room = parts.room(messages, part, end);
          const std::span<const float> values = part_of(floats, parts.numbers, part);
          const bool sees = look != nullptr && look->sees(part);
          if (sees) look->remember(memory.before_part(parts.state, part));
          const Bytes used = codec::encode(own, values, memory.before_part(parts.state, part),
                                           memory.behind_part(parts.state, part), room, threads_of(lane));
          if (sees) look->see(own, part, values, room.first(static_cast<std::size_t>(used)));
          end = static_cast<std::size_t>(room.data() - messages.data()) + static_cast<std::size_t>(used);
        }
        if (!mask.writes) return;
        if (keeps_all(own, floats)) return write_full_mask(floats.size(), mask.bits);
        codec::decode(own, codec::message_in(messages), {}, {}, mask.term, threads_of(lane));
        write_mask(mask.term, mask.bits);
      };
    });
    return code;
  }

  [[nodiscard]] Code decode(const Instruction& i) const {
    const DecodeView view(i);
    const CodedNumbers numbers = numbers_of(i, view.numbers.front(), view.copy);
    const CodedParts parts = parts_.of(i, numbers.count, false);
    const std::span<const std::byte> messages = context_.template span<std::byte>(view.message.front());
    const std::span<float> term =
        coding_of(i).adds ? context_.template span<float>(view.term.front()) : std::span<float>();
    const Memory memories = memory_of(view);
    const MaskOperands mask = mask_of(i, view);
    const auto text = [&](std::size_t part) {
      const std::string from =
          parts.ranks.empty() ? std::string("the stage before") : concat("rank ", parts.ranks[part]);
      return concat("what ", from, " has sent of ", schedule::name_of(i.traffic), " ", i.index,
                    i.micro_batch < 0 ? std::string() : concat(", micro-batch ", i.micro_batch));
    };
    std::vector<std::string> whose;
    for (std::size_t part = 0; part + 1 < parts.numbers.size(); ++part) whose.push_back(text(part / parts.of_each));
    const run::Verdict* const verdict = verdict_of(view);
    Code code;
    with_codec_(i.traffic, i.index, [&](const auto& codec) {
      if constexpr (device_has<Lane, decltype(codec)>) {
        if (numbers.away && !mask.reads && !mask.writes) {
          code = [=, folds = !term.empty()](Lane& lane) {
            if (!counts(verdict)) return;
            decode_by_device(lane, codec, numbers, parts, messages, whose, folds);
            numbers.clear_padding(lane);
          };
          return;
        }
      }
      code = [=, at_step = at_step(i), number = number_of(i),
              place = place_of_step(memories.before.size(), memories.behind.size())](Lane& lane) mutable {
        const Memory memory = memories.at(place());
        lane.settle();
        if (!counts(verdict)) return;
        const std::span<float> floats = numbers.floats();
        const auto own = at_step(codec::for_message(codec, number()));
        if (mask.reads) {
          const std::span<float> packed = mask.term.first(count_of(mask.bits));
          decode_from(own, whose.front(), messages, std::span<const float>(), std::span<float>(), packed,
                      threads_of(lane));
          unpack(packed, mask.bits, floats);
          numbers.take_back(lane);
          return;
        }
        std::size_t end = 0;
        for (std::size_t part = 0; part + 1 < parts.numbers.size(); ++part) {
          const std::span<const std::byte> message = codec::message_in(parts.room(messages, part, end));
          end = static_cast<std::size_t>(message.data() - messages.data()) + message.size();
          const bool adds = !term.empty() && part > 0;
          const std::span<float> to = term.empty() ? part_of(floats, parts.numbers, part) : adds ? term : floats;
          decode_from(own, whose[part], message, memory.before_part(parts.state, part),
                      memory.behind_part(parts.state, part), to, threads_of(lane));
          if (adds) {
            codec::detail::each_number(threads_of(lane), to.size(), [&](std::size_t k) { floats[k] += term[k]; });
          }
        }
        if (mask.writes) {
          keeps_all(own, floats) ? write_full_mask(floats.size(), mask.bits) : write_mask(floats, mask.bits);
        }
        numbers.take_back(lane);
        numbers.clear_padding(lane);
      };
    });
    return code;
  }

  [[nodiscard]] Code encode_in_place(const Instruction& i) const {
    const EncodeInPlaceView view(i);
    const CodedNumbers numbers = numbers_of(i, view.numbers.front(), view.copy);
    const CodedParts sent = parts_.of(i, numbers.count, true);
    const CodedParts received = parts_.of(i, numbers.count, false);
    const std::span<std::byte> message = context_.template span<std::byte>(view.message.front());
    std::size_t memories = 0;
    const auto memory_of_side = [&](const CodedParts& parts) {
      Memory memory;
      if (parts.state.back() == 0) return memory;
      memory.before = context_.template span<float>(view.kept[memories]);
      memory.behind = context_.template span<float>(view.next[memories]);
      ++memories;
      return memory;
    };
    const Memory at_sender = memory_of_side(sent);
    const Memory at_receiver = memory_of_side(received);
    const run::Verdict* const verdict = verdict_of(view);
    Code code;
    with_codec_(i.traffic, i.index, [&](const auto& codec) {
      if constexpr (device_has<Lane, decltype(codec)>) {
        if (numbers.away) {
          code = [=](Lane& lane) {
            if (!counts(verdict)) return;
            code_in_place_by_device(lane, codec, numbers, sent, message);
            numbers.clear_padding(lane);
          };
          return;
        }
      }
      code = [=, at_step = at_step(i), number = number_of(i)](Lane& lane) mutable {
        if (!counts(verdict)) return;
        numbers.bring(lane);
        const auto own = at_step(codec::for_message(codec, number()));
        for (std::size_t part = 0; part + 1 < sent.numbers.size(); ++part) {
          const std::span<float> floats = part_of(numbers.floats(), sent.numbers, part);
          codec::encode(own, std::span<const float>(floats), at_sender.before_part(sent.state, part),
                        at_sender.behind_part(sent.state, part), message, threads_of(lane));
          decode_from(own, "a message of this process to itself", std::span<const std::byte>(message),
                      at_receiver.before_part(received.state, part), at_receiver.behind_part(received.state, part),
                      floats, threads_of(lane));
        }
        numbers.take_back(lane);
        numbers.clear_padding(lane);
      };
    });
    return code;
  }

  [[nodiscard]] Code keep_memory(const Instruction& i) const {
    const KeepMemoryView view(i);
    const run::Verdict* const verdict = verdict_of(view);
    const bool forgets = i.mode == static_cast<std::uint8_t>(KeepCondition::or_nothing);
    const std::span<const float> next = context_.template span<float>(view.next.front());
    const std::span<float> memory = context_.template span<float>(view.memory.front());
    return [=, place = place_of_step(memory.size(), next.size())](Lane& lane) {
      lane.settle();
      if (!counts(verdict)) {
        if (forgets) std::fill(memory.begin(), memory.end(), 0.0F);
        return;
      }
      std::copy(next.begin(), next.end(), memory.subspan(place()).begin());
    };
  }

  [[nodiscard]] Communication exchange(const Instruction& i) const {
    return exchange_of<Communication>(context_, parts_.pieces(), i);
  }

  const RankContext& context_;
  Watch watch_;
  RatioRamp ramp_;
  bool replans_;  ///< ratios of edges, while training
  const run::StepPlan& plan_;
  PartsOfRank parts_;
  WithCodec with_codec_;
};

}  // namespace compress::detail
}  // namespace v0
}  // namespace reef
