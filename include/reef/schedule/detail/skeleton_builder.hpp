#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <reef/schedule/dependencies.hpp>
#include <reef/schedule/program.hpp>
#include <reef/schedule/skeleton.hpp>

namespace reef {
inline namespace v0 {
namespace schedule::detail {

/// Starts and ends of a round, each with what it waits for, and of that only what lies between messages.
///
/// What waits for one thing alone is that thing; what one thing alone waits for is part of it. So a chain is
/// nothing, and there never are more waits than before.
class SkeletonBuilder {
public:
  SkeletonBuilder(const Program& program, const Dependencies& dependencies)
      : program_(program),
        count_(2 * program.round.size()),
        waits_(count_),
        stands_for_(count_),
        closes_(count_, no_loop),
        scopes_(scope_by_instruction(program)) {
    result_.rank = program.rank;
    for (std::uint32_t i = 0; i < program.round.size(); ++i) waits_[end(i)] = {start(i)};
    for (const Precedence& order : precedences(program, dependencies)) {
      // A round waits for the one before and never the other way, so no circle has to do with two.
      if (order.previous_round) continue;
      waits_[start(order.to)].push_back(order.at_start ? start(order.from) : end(order.from));
    }
    for (std::uint32_t l = 0; l < program.repeats.size(); ++l) {
      const Repeat& repeat = program.repeats[l];
      const Point closed = end(repeat.end - 1);
      closes_[closed] = l;
      for (std::uint32_t i = repeat.begin; i < repeat.end; ++i) {
        if (i != repeat.begin) waits_[start(i)].push_back(start(repeat.begin));
        if (i + 1 != repeat.end) waits_[closed].push_back(end(i));
      }
      if (repeat.max > 0) continue;
      waits_[closed].push_back(end(repeat.until));
      // In the last iteration all say that they are done.
      if (repeat.is_shared()) waits_[start(repeat.agree)].push_back(end(repeat.until));
    }
  }

  Skeleton build() {
    leave_out_what_lies_before_or_behind_all_messages();
    leave_out_what_waits_for_one();
    leave_out_what_one_waits_for();
    for (Point point = 0; point < count_; ++point) {
      if (exchanges(point)) {
        if (point % 2 == 0) add_instruction(point);
      } else if (!waits_[point].empty()) {
        add_other(point);
      }
    }
    return std::move(result_);
  }

private:
  using Point = std::uint32_t;  // twice the place in the round, and one more for the end
  static constexpr Point nothing = ~Point{0};
  using Name = Skeleton::Name;

  static Point start(std::uint32_t i) { return 2 * i; }
  static Point end(std::uint32_t i) { return 2 * i + 1; }
  [[nodiscard]] const Instruction& at(Point point) const { return program_.round[point / 2]; }
  [[nodiscard]] bool exchanges(Point point) const {
    return !at(point).sends.empty() || !at(point).receives.empty();
  }

  void leave_out_what_lies_before_or_behind_all_messages() {
    std::vector<bool> behind(count_);
    std::vector<bool> ahead(count_);
    for (Point point = 0; point < count_; ++point) {
      behind[point] = exchanges(point);
      for (const Point wait : waits_[point]) behind[point] = behind[point] || behind[wait];
    }
    for (Point point = static_cast<Point>(count_); point-- > 0;) {
      ahead[point] = ahead[point] || exchanges(point);
      for (const Point wait : waits_[point]) ahead[wait] = ahead[wait] || ahead[point];
    }
    for (Point point = 0; point < count_; ++point) {
      const bool between = behind[point] && ahead[point];
      stands_for_[point] = between ? point : nothing;
      if (!between) waits_[point] = {};
    }
  }

  void leave_out_what_waits_for_one() {
    for (Point point = 0; point < count_; ++point) {
      if (stands_for_[point] == nothing) continue;
      std::vector<Point>& waits = waits_[point];
      for (Point& wait : waits) wait = stands_for_[wait];
      tidy(waits);
      if (exchanges(point) || closes_[point] != no_loop || waits.size() != 1) continue;
      stands_for_[point] = waits.front();
      waits = {};
    }
  }

  void leave_out_what_one_waits_for() {
    std::vector<std::uint32_t> waiting(count_);
    std::vector<Point> last(count_);
    for (Point point = 0; point < count_; ++point) {
      for (const Point wait : waits_[point]) {
        ++waiting[wait];
        last[wait] = point;
      }
    }
    for (Point point = static_cast<Point>(count_); point-- > 0;) {
      if (exchanges(point) || closes_[point] != no_loop || waiting[point] != 1) continue;
      std::vector<Point>& to = waits_[last[point]];
      to.erase(std::find(to.begin(), to.end(), point));
      for (const Point wait : waits_[point]) {
        if (std::find(to.begin(), to.end(), wait) != to.end()) {
          --waiting[wait];
        } else {
          to.push_back(wait);
        }
        if (last[wait] == point) last[wait] = last[point];
      }
      waits_[point] = {};
      std::sort(to.begin(), to.end());
    }
  }

  /// Ascending, each once.
  static void tidy(std::vector<Point>& waits) {
    std::sort(waits.begin(), waits.end());
    waits.erase(std::unique(waits.begin(), waits.end()), waits.end());
    waits.erase(std::lower_bound(waits.begin(), waits.end(), nothing), waits.end());
  }

  Skeleton::Node& add_node(Point point, Skeleton::Part part) {
    Skeleton::Node node;
    node.part = part;
    node.lane = at(point).lane;
    node.first_wait = static_cast<std::uint32_t>(result_.waits.size());
    node.first_send = static_cast<std::uint32_t>(result_.sends.size());
    node.first_receive = static_cast<std::uint32_t>(result_.receives.size());
    if (part != Skeleton::Part::join) node.name = name_of_instruction(at(point));
    stands_for_[point] = static_cast<Point>(result_.nodes.size());
    result_.nodes.push_back(node);
    return result_.nodes.back();
  }

  void add_waits(Point point, Point but) {
    const std::vector<Point>& waits = waits_[point];
    for (std::size_t k = 0; k < waits.size(); ++k) {
      const Point wait = waits[k];
      const bool is_start = wait % 2 == 0;
      if (wait == but || (is_start && k + 1 < waits.size() && waits[k + 1] == wait + 1)) continue;
      const bool of_instruction = exchanges(wait);
      const Point node = stands_for_[of_instruction && !is_start ? wait - 1 : wait];
      result_.waits.push_back({2 * node + (of_instruction && is_start ? 0 : 1)});
    }
  }

  void add_instruction(Point point) {
    const Instruction& instruction = at(point);
    Skeleton::Node& node = add_node(point, Skeleton::Part::instruction);
    node.posted = instruction.is_posted();
    node.scope = scopes_[point / 2];
    if (std::optional<Exchange> whole = exchange_of(instruction)) {
      node.exchange = static_cast<std::uint32_t>(result_.exchanges.size());
      result_.exchanges.push_back(std::move(*whole));
    } else {
      result_.sends.insert(result_.sends.end(), instruction.sends.begin(), instruction.sends.end());
      result_.receives.insert(result_.receives.end(), instruction.receives.begin(),
                              instruction.receives.end());
    }
    Point& before = last_on_lane_[static_cast<std::size_t>(instruction.lane)];
    const Point by_lane = before == nothing        ? nothing
                          : at(before).is_posted() ? before
                                                   : before + 1;
    add_waits(point, by_lane);
    before = point;
  }

  void add_other(Point point) {
    const std::uint32_t loop = closes_[point];
    if (loop == no_loop) {
      add_node(point, Skeleton::Part::join);
    } else {
      const Name until = name_of_instruction(program_.round[program_.repeats[loop].until]);
      add_node(point, Skeleton::Part::loop).exchange =
          static_cast<std::uint32_t>(result_.untils.size());
      result_.untils.push_back(until);
    }
    add_waits(point, nothing);
  }

  Name name_of_instruction(const Instruction& instruction) {
    const auto [kind, is_new] =
        kinds_.emplace(instruction.kind, static_cast<std::uint32_t>(result_.kinds.size()));
    if (is_new) result_.kinds.push_back(instruction.kind);
    return {kind->second, instruction.index, instruction.micro_batch};
  }

  /// Where each other member of a group, of those it says or of all that it exchanges with, gets one message at
  /// most and sends one at most, all under one channel.
  std::optional<Exchange> exchange_of(const Instruction& instruction) {
    std::vector<int> members;
    if (instruction.collective) {
      members = instruction.collective->group.members;
    } else {
      if (instruction.sends.size() != instruction.receives.size()) return std::nullopt;
      for (const Message& message : instruction.sends) members.push_back(message.peer);
      members.insert(std::upper_bound(members.begin(), members.end(), program_.rank),
                     program_.rank);
    }
    if (members.size() < 3) return std::nullopt;  // no shorter
    const auto falls = [](int a, int b) { return a >= b; };
    const auto own = std::lower_bound(members.begin(), members.end(), program_.rank);
    if (std::adjacent_find(members.begin(), members.end(), falls) != members.end() ||
        own == members.end() || *own != program_.rank) {
      return std::nullopt;
    }
    const Message& first =
        instruction.sends.empty() ? instruction.receives.front() : instruction.sends.front();
    Exchange result;
    result.channel = first.channel;
    if (!portions_of(instruction.sends, members, result.channel, result.sent) ||
        !portions_of(instruction.receives, members, result.channel, result.received)) {
      return std::nullopt;
    }
    const auto absent = [](const Portion& portion) { return !portion.there; };
    if (!instruction.collective &&
        std::any_of(result.received.begin(), result.received.end(), absent)) {
      return std::nullopt;
    }
    RankSet group = RankSet::of(members);
    const auto known = std::find(result_.groups.begin(), result_.groups.end(), group);
    result.group = static_cast<std::uint32_t>(known - result_.groups.begin());
    if (known == result_.groups.end()) result_.groups.push_back(std::move(group));
    return result;
  }

  [[nodiscard]] bool portions_of(std::span<const Message> messages, std::span<const int> members,
                                 std::uint32_t channel, std::vector<Portion>& portions) const {
    std::size_t next = 0;
    for (const int member : members) {
      if (member == program_.rank) continue;
      Portion one;
      if (next < messages.size() && messages[next].peer == member) {
        const Message& message = messages[next++];
        if (message.channel != channel) return false;
        one = {1, true, message.bytes, message.pieces};
      }
      if (!portions.empty() && portions.back().is_like(one)) {
        ++portions.back().members;
      } else {
        portions.push_back(one);
      }
    }
    return next == messages.size();
  }

  const Program& program_;
  std::size_t count_;
  std::vector<std::vector<Point>> waits_;  // by point
  std::vector<Point>
      stands_for_;  // by point: what it is the same as, or nothing; once it is added, its node
  std::vector<std::uint32_t> closes_;  // by point: the loop that ends there
  std::vector<std::uint32_t> scopes_;  // by instruction
  std::array<Point, lane_count> last_on_lane_ = filled();
  std::map<std::string, std::uint32_t> kinds_{};
  Skeleton result_{};

  static std::array<Point, lane_count> filled() {
    std::array<Point, lane_count> result{};
    result.fill(nothing);
    return result;
  }
};

}  // namespace schedule::detail
}  // namespace v0
}  // namespace reef
