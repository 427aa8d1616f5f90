#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <reef/core/random.hpp>
#include <reef/schedule/program.hpp>

#include "programs.hpp"

namespace reef::test {

/// Programs of 2 to 6 ranks that exchange messages and collectives, on lanes of every kind, held and posted, with
/// computation and loops between. Everything is sent and received in one order of all ranks, unless they are strewn: then
/// some deadlock. Some have a message of another size, or one end of it alone.
class RandomExchanges {
public:
  struct Wanted {
    bool strewn = false;
    bool wrong = false;
  };

  RandomExchanges(std::uint64_t seed, Wanted wanted) : seed_(seed) {
    const int ranks = 2 + static_cast<int>(below(5));
    for (int rank = 0; rank < ranks; ++rank) {
      writers_.emplace_back(rank);
      Writer& w = writers_.back();
      for (const char* name : {"a", "b", "c"}) w.storage(name, 64, Life::persistent);
      for (const char* name : {"p", "q", "r", "s", "t"}) w.storage(name);
      written_.emplace_back(8, false);
      for (std::size_t persistent = 0; persistent < 3; ++persistent)
        written_.back()[persistent] = true;
    }
    const std::uint32_t calls = 4 + below(16);
    for (std::uint32_t call = 0; call < calls; ++call) {
      if (below(4) == 0 && ranks > 2) {
        add_collective(ranks);
      } else {
        add_message(ranks);
      }
      for (int extra = static_cast<int>(below(3)); extra > 0; --extra) add_work(rank_of(ranks));
    }
    for (Writer& w : writers_) {
      for (std::uint32_t moved = wanted.strewn ? below(5) : 0; moved > 0; --moved) strew(w.program);
      if (wanted.wrong && below(3) == 0) spoil(w.program);
      add_loop(w.program);
      programs.push_back(std::move(w.program));
    }
  }

  std::vector<Program> programs{};

private:
  using Completion = schedule::Completion;
  using Message = schedule::Message;
  using Value = schedule::Value;

  std::uint32_t below(std::uint32_t n) { return random_bits({seed_, 0, 4, 0}, draw_++) % n; }
  std::size_t rank_of(int ranks) { return below(static_cast<std::uint32_t>(ranks)); }

  Value read_by(std::size_t rank) {
    StorageId storage = below(8);
    if (!written_[rank][storage]) storage = below(3);
    return {storage, 0};
  }
  /// Of a round, so that it may be written again and again.
  Value written_by(std::size_t rank) {
    const StorageId storage = 3 + below(5);
    written_[rank][storage] = true;
    return {storage, 0};
  }

  void add_work(std::size_t rank) {
    static constexpr Lane lanes[] = {Lane::compute, Lane::compute, Lane::load,
                                     Lane::send,    Lane::receive, Lane::update};
    Instruction& work =
        writers_[rank].program.add("Work", lanes[below(6)], static_cast<int>(draw_));
    work.reads = {read_by(rank)};
    if (below(3) == 0) work.after = {read_by(rank)};
    if (below(3) == 0) {
      work.accumulates = {{below(3), 0}};
    } else {
      work.writes = {written_by(rank)};
    }
  }

  /// Of lanes that never carry anything else under the channel.
  void add_message(int ranks) {
    const std::size_t from = rank_of(ranks);
    const std::size_t to =
        (from + 1 + below(static_cast<std::uint32_t>(ranks) - 1)) % static_cast<std::size_t>(ranks);
    static constexpr Lane lanes[] = {Lane::send, Lane::receive, Lane::reduce};
    const std::uint32_t out = below(2) == 0 ? 0 : below(3);
    const std::uint32_t in = below(2) == 0 ? 1 : below(3);
    const std::uint32_t channel = 3 * out + in;
    const Bytes bytes = 96 + channel;
    const bool posted = below(2) == 0;
    Instruction& send = writers_[from].program.add("Send", lanes[out], static_cast<int>(draw_));
    send.reads = {read_by(from)};
    if (below(4) == 0) send.after = {read_by(from)};
    send.sends = {{static_cast<int>(to), bytes, channel}};
    if (posted && lanes[out] == Lane::send) send.completion = Completion::posted;
    Instruction& receive = writers_[to].program.add("Receive", lanes[in], send.index);
    receive.writes = {written_by(to)};
    receive.receives = {{static_cast<int>(from), bytes, channel}};
    if (posted && lanes[in] == Lane::receive) receive.completion = Completion::posted;
  }

  /// A reduce-scatter or an all-gather of three ranks or more, in which some may have nothing.
  void add_collective(int ranks) {
    std::vector<int> members;
    for (int rank = 0; rank < ranks; ++rank) {
      if (ranks - rank + static_cast<int>(members.size()) <= 3 || below(3) > 0)
        members.push_back(rank);
    }
    const bool scatters = below(2) == 0;
    const bool says = below(4) > 0;
    const std::uint32_t channel = below(8) == 0 ? 8 : 20 + below(2);
    std::vector<Bytes> size(members.size());
    const std::uint32_t kind = below(3);
    for (Bytes& bytes : size)
      bytes = kind == 0 ? 64 : kind == 1 ? 64 * (1 + below(2)) : 64 * below(3);
    const auto number = static_cast<int>(draw_);
    for (std::size_t p = 0; p < members.size(); ++p) {
      const auto rank = static_cast<std::size_t>(members[p]);
      Instruction& own = writers_[rank].program.add(scatters ? "ReduceScatter" : "AllGather",
                                                    Lane::reduce, number);
      own.accumulates = {{below(3), 0}};
      for (std::size_t q = 0; q < members.size(); ++q) {
        if (q == p) continue;
        const Bytes out = scatters ? size[q] : size[p];
        const Bytes in = scatters ? size[p] : size[q];
        if (out > 0) own.sends.push_back({members[q], out, channel});
        if (in > 0) own.receives.push_back({members[q], in, channel});
      }
      if (says)
        own.collective = std::make_shared<const schedule::Collective>(
            schedule::Collective{{"some", members}, {}});
    }
  }

  /// Puts an instruction elsewhere. What reads must still find something.
  void strew(Program& program) {
    const auto count = static_cast<std::uint32_t>(program.round.size());
    if (count < 2) return;
    const std::uint32_t from = below(count);
    const Program before = program;
    const Instruction moved = program.round[from];
    program.round.erase(program.round.begin() + from);
    program.round.insert(program.round.begin() + below(count), moved);
    std::vector<bool> written(8, false);
    written[0] = written[1] = written[2] = true;
    for (const Instruction& instruction : program.round) {
      for (const auto* values : {&instruction.reads, &instruction.after}) {
        for (const Value value : *values) {
          if (written[value.storage]) continue;
          program = before;
          return;
        }
      }
      for (const Value value : instruction.writes) written[value.storage] = true;
    }
  }

  void spoil(Program& program) {
    if (program.round.empty()) return;
    Instruction& any = program.round[below(static_cast<std::uint32_t>(program.round.size()))];
    std::vector<Message>& messages = below(2) == 0 ? any.sends : any.receives;
    if (messages.empty()) return;
    const std::uint32_t place = below(static_cast<std::uint32_t>(messages.size()));
    switch (below(any.is_posted() ? 2 : 3)) {
      case 0: messages[place].bytes += 1; break;
      case 1: messages[place].pieces += 1; break;
      default: messages.erase(messages.begin() + place);
    }
  }

  /// Around computation that changes nothing which its next iteration or what comes behind would miss.
  void add_loop(Program& program) {
    if (program.round.empty() || below(2) == 0) return;
    const auto place = 1 + below(static_cast<std::uint32_t>(program.round.size()));
    Program sum;
    Instruction& batch = sum.add("Batch", below(2) == 0 ? Lane::receive : Lane::load);
    batch.reads = {{below(3), 0}};
    sum.add("Add", Lane::compute).accumulates = {{below(3), 0}};
    program.round.insert(program.round.begin() + place, sum.round.begin(), sum.round.end());
    program.repeats.push_back({place, place + 2, below(place), below(2) == 0 ? 0 : 2});
  }

  std::uint64_t seed_;
  std::uint64_t draw_ = 0;
  std::vector<Writer> writers_{};
  std::vector<std::vector<bool>> written_{};  // by rank and storage
};

}  // namespace reef::test
