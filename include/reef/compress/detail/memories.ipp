#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include <reef/compress/detail/memories.hpp>
#include <reef/core/error.hpp>
#include <reef/core/inline.hpp>
#include <reef/core/text.hpp>
#include <reef/run/fragment.hpp>
#include <reef/run/state_range.hpp>
#include <reef/run/step_builder.hpp>

namespace reef {
inline namespace v0 {
namespace compress::detail {

REEF_INLINE std::int64_t Memory::numbers() const {
  std::int64_t all = 0;
  for (const Piece& piece : pieces) all += piece.numbers;
  return all;
}

REEF_INLINE std::string Memory::name() const {
  constexpr std::string_view sides[]{"sent", "received", "shared", "taken"};
  const std::string at = place.empty() ? std::to_string(index) : place;
  const std::string of = concat("memory.", schedule::name_of(traffic), ".");
  return (by_element ? of : concat(of, at, ".")) + std::string(sides[static_cast<std::size_t>(side)]);
}

REEF_INLINE void require_period(const run::StepPlan& plan, Traffic traffic, std::int64_t period,
                                const std::string& codec) {
  const bool of_edges = schedule::is_between_stages(traffic);
  if (period == 0 || (of_edges && plan.phases_per_step == 1 && !plan.adapts)) return;
  throw OptionError(
      "reef::compress::Channels: the channel ", schedule::name_of(traffic), " is to have the codec ", codec,
      ".\n  why: it remembers what was sent of the same samples, and ",
      of_edges && plan.adapts
          ? "accumulation adapts, so that the clock decides which samples a step has.\n  fix: Accumulation::fixed()."
      : of_edges ? "this optimizer takes samples in several phases of a step.\n  fix: optim::Ddp or optim::Zero1."
                 : "this is a sum over samples.\n  fix: codec::Ef21.");
}

REEF_INLINE std::vector<std::int64_t> parts_within(const std::vector<run::FragmentPiece>& pieces, Traffic traffic,
                                                   int index, std::int64_t n) {
  if (traffic == Traffic::pseudo_gradient) return pieces[static_cast<std::size_t>(index)].parameters;
  return {0, n};
}

REEF_INLINE bool remembers_elements(const run::WireForm& form, Traffic traffic) {
  if (schedule::is_between_stages(traffic) || traffic == Traffic::pseudo_gradient) return false;
  const auto by_element = [](const auto& state) {
    return !state || (state(0, 1) == 1 && state(0, 7) == 7 && state(0, 1000) == 1000);
  };
  return form.ratios.empty() && by_element(form.state) && by_element(form.received_state);
}

REEF_INLINE std::int64_t max_bytes(const run::StepPlan& plan, const std::vector<run::FragmentPiece>& pieces,
                                   Traffic traffic, int index, std::int64_t n) {
  const auto bytes = [&](std::int64_t part) { return plan.wire_of(traffic).bytes(index, part); };
  return encoded_offsets(parts_within(pieces, traffic, index, n), bytes).back();
}

REEF_INLINE void add_memories_of_differences(std::vector<Memory>& all, const run::StepBuilder& builder) {
  const run::WireForm& form = builder.plan.wire_of(Traffic::pseudo_gradient);
  if (!form.state && !form.received_state) return;
  const std::vector<run::FragmentPiece> pieces = run::fragment_pieces(builder.plan, builder.rank());
  for (std::size_t p = 0; p < pieces.size(); ++p) {
    const Group& senders = pieces[p].senders;
    if (senders.size() == 1) continue;
    const auto index = static_cast<int>(p);
    const auto add = [&](Side side, int rank, std::int64_t numbers) {
      all.push_back({Traffic::pseudo_gradient, index, side, 0, {{rank, 0, numbers}},
                     concat(pieces[p].bucket, ".fragment.", pieces[p].fragment), false});
    };
    const auto of_one = [&](const auto& state) {
      return encoded_offsets(pieces[p].parameters, [&](std::int64_t n) { return state(index, n); }).back();
    };
    if (form.state) add(Side::shared, senders.position_of(builder.rank()), of_one(form.state));
    if (form.received_state) add(Side::taken, -1, senders.size() * of_one(form.received_state));
  }
}

REEF_INLINE std::vector<Memory> memories_of(const run::StepBuilder& builder) {
  const run::StepPlan& plan = builder.plan;
  std::vector<Memory> all;
  const auto add = [&](Traffic traffic, int index, Side side, int fold, std::vector<Memory::Piece> pieces) {
    const bool by_element = plan.wire_of(traffic).by_element;
    for (Memory::Piece& piece : pieces)
      piece.begin += by_element ? plan.buckets[static_cast<std::size_t>(index)].begin : 0;
    all.push_back({traffic, index, side, fold, std::move(pieces), {}, by_element});
  };
  const int replica = plan.topology.replica_of(builder.rank());
  for (std::size_t e = 0; e < plan.remote_edges.size(); ++e) {
    const graph::RemoteEdge& edge = plan.remote_edges[e];
    const Traffic traffic = edge.gradient ? Traffic::activation_gradient : Traffic::activation;
    const run::WireForm& form = plan.wire_of(traffic);
    const auto stage_of = [&](int segment) { return plan.stage_of_segment[static_cast<std::size_t>(segment)]; };
    const std::int64_t n = plan.dag->tensor_at(edge.tensor).spec.shape.size();
    const int index = static_cast<int>(e);
    if (!form.encodes(index)) continue;
    const auto add_end = [&](Side side, std::int64_t of_one) {
      if (form.period == 0) return add(traffic, index, side, 0, {{replica, 0, of_one}});
      const std::int64_t of_all = form.period * of_one;  // step after step
      for (int j = 0; j < plan.micro_batches_of(builder.rank()); ++j)
        add(traffic, index, side, j, {{replica, j * of_all, of_all}});
    };
    if (form.state && stage_of(edge.from) == builder.stage()) add_end(Side::sent, form.state(index, n));
    if (form.received_state && stage_of(edge.to) == builder.stage())
      add_end(Side::received, form.received_state(index, n));
  }
  for (const std::size_t b : builder.stage_buckets()) {
    const run::Bucket& bucket = plan.buckets[b];
    const bool alone = bucket.alone();
    if (alone && plan.virtual_ranks == 1) continue;
    const std::vector<std::int64_t> owners = bucket.owners;
    const auto index = static_cast<int>(b);
    const std::size_t own = alone ? 0 : static_cast<std::size_t>(bucket.group.position_of(builder.rank()));
    const auto places = [&](const auto& state) {
      return encoded_offsets(owners, [&](std::int64_t n) { return state(index, n); });
    };
    const run::WireForm& sums = plan.wire_of(Traffic::gradient);
    for (int fold = 0; sums.encodes(index) && fold < plan.virtual_ranks; ++fold) {
      const int rank = alone ? fold : static_cast<int>(own);
      if (sums.state) add(Traffic::gradient, index, Side::sent, fold, {{rank, 0, places(sums.state).back()}});
      if (!sums.received_state) continue;
      const std::vector<std::int64_t> received = places(sums.received_state);
      std::vector<Memory::Piece> pieces;
      for (int sender = 0; !alone && sender < bucket.group.size(); ++sender) {
        pieces.push_back({sender, received[own], size_of_part(received, own)});
      }
      if (alone) pieces.push_back({rank, 0, received.back()});
      add(Traffic::gradient, index, Side::received, fold, std::move(pieces));
    }
    for (const Traffic traffic : {Traffic::gradient, Traffic::parameter}) {
      const run::WireForm& form = plan.wire_of(traffic);
      if (!plan.gathers_of(traffic) || !form.encodes(index)) continue;
      if (form.state) {
        const std::vector<std::int64_t> shared = places(form.state);
        if (alone) {
          add(traffic, index, Side::shared, 0, {{-1, 0, shared.back()}});
        } else {
          add(traffic, index, Side::shared, 0, {{-1, shared[own], size_of_part(shared, own)}});
        }
      }
      if (form.received_state) add(traffic, index, Side::taken, 0, {{-1, 0, places(form.received_state).back()}});
    }
  }
  add_memories_of_differences(all, builder);
  return all;
}

REEF_INLINE bool keeps_memories(const run::StepBuilder& builder) {
  const bool commits = builder.purpose == run::Purpose::training || builder.purpose == run::Purpose::warm_up;
  return commits && builder.verdict != run::no_storage;
}

REEF_INLINE void reserve_memories(run::StepBuilder& builder) {
  auto& storages = builder.scratch<MemoryStorages>().by_key;
  for (const Memory& memory : memories_of(builder)) {
    storages[memory.key()].kept = builder.program.add_storage(
        memory.storage_name(), static_cast<Bytes>(memory.numbers()) * sizeof(float), place_of_memory(builder.plan),
        run::Life::persistent);
    Bytes offset = 0;
    for (std::size_t k = 0; k < memory.pieces.size(); ++k) {
      const Bytes bytes = static_cast<Bytes>(memory.pieces[k].numbers) * sizeof(float);
      static_cast<void>(builder.program.add_part(concat(memory.storage_name(), ", piece ", k),
                                                 storages[memory.key()].kept, offset, bytes));
      offset += bytes;
    }
  }
}

REEF_INLINE std::vector<run::StateRange> memory_ranges(const run::StepBuilder& builder) {
  std::map<std::string, run::StorageId> ids;
  for (std::size_t id = 0; id < builder.program.storages.size(); ++id) {
    ids[builder.program.storages[id].name] = static_cast<run::StorageId>(id);
  }
  std::vector<run::StateRange> ranges;
  for (const Memory& memory : memories_of(builder)) {
    for (std::size_t k = 0; k < memory.pieces.size(); ++k) {
      const Memory::Piece& piece = memory.pieces[k];
      if (piece.numbers == 0) continue;
      run::StateRange range;
      range.storage = ids.at(concat(memory.storage_name(), ", piece ", k));
      range.name = piece.rank < 0 ? memory.name() : concat(memory.name(), ".rank.", piece.rank);
      range.begin = piece.begin;
      range.elements = piece.numbers;
      range.distribution =
          memory.side == Side::taken ? run::StateRange::Distribution::whole : run::StateRange::Distribution::shard;
      range.memory = true;
      ranges.push_back(std::move(range));
    }
  }
  return ranges;
}

}  // namespace compress::detail
}  // namespace v0
}  // namespace reef
