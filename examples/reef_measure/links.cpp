#include "links.hpp"

#include <algorithm>
#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <span>
#include <string>
#include <string_view>
#include <thread>
#include <utility>

#include <reef/comm/clock_offset.hpp>
#include <reef/comm/functions.hpp>
#include <reef/comm/gather.hpp>
#include <reef/comm/point_to_point.hpp>
#include <reef/comm/shards.hpp>
#include <reef/core/hash.hpp>
#include <reef/trace/span.hpp>

#include "link_fit.hpp"
#include "rounds.hpp"

namespace reef_examples {

namespace {

using reef::Bytes;
using reef::Seconds;
using reef::comm::Progress;

constexpr Seconds never = std::numeric_limits<Seconds>::infinity();

/// What the rank of a pair that leads it tells the other.
struct Command {
  Bytes bytes = 0;  ///< 0: the pair is done
  int repeats = 0;
  int place = 0;  ///< of the time: that of the size, and the last of those sent at once
};

/// What a pair found of one direction.
struct Direction {
  Seconds latency = 0;
  double rate = 0;
  double reciprocal_rate = 0;
};

/// One end of a pair.
class Pair {
public:
  Pair(Progress& progress, int peer, const LinkOptions& options, std::span<std::byte> sent,
       std::span<std::byte> received)
      : progress_(progress), peer_(peer), options_(options), sent_(sent), received_(received) {}

  /// The rank that leads: the link there and the one back.
  std::pair<Direction, Direction> lead(Seconds budget, bool same_clock) {
    const Seconds end = reef::trace::now() + budget;
    const auto& sizes = options_.sizes;
    std::vector<Seconds> back(sizes.size() + 1, never);
    std::size_t count = 0;
    Seconds exchange = 0;
    for (; count < sizes.size(); ++count) {
      const Bytes size = sizes[count];
      const Seconds left = end - reef::trace::now();
      if (count >= 2 &&
          2 * exchange * static_cast<double>(size) > left * static_cast<double>(sizes[count - 1])) {
        break;
      }
      const int place = static_cast<int>(count);
      const Seconds begin = reef::trace::now();
      back[count] = run({size, 1, place});
      exchange = reef::trace::now() - begin;
      if (count == 0) pause_ = exchange / 2;
      const int more = repeats(left / static_cast<double>(sizes.size() + 1 - count), exchange) - 1;
      if (more > 0) back[count] = std::min(back[count], run({size, more, place}));
    }
    const Bytes largest = sizes[count - 1];
    back.back() = run({largest, std::max(1, repeats(end - reef::trace::now(), exchange)),
                       static_cast<int>(sizes.size())});
    command({});
    std::vector<Seconds> there(back.size());
    reef::comm::receive(progress_, "times", peer_, std::span(there));

    std::vector<LinkSample> samples_there;
    std::vector<LinkSample> samples_back;
    for (std::size_t i = 0; i < count; ++i) {
      samples_there.push_back({on_wire(sizes[i]), there[i]});
      samples_back.push_back({on_wire(sizes[i]), back[i]});
    }
    const Seconds apart = same_clock ? 0 : (there[0] - back[0]) / 2;
    const auto [fit_there, fit_back] = fit_both(samples_there, samples_back, same_clock);
    const auto direction = [&](const LinkFit& fit, Seconds at_once) {
      const double alone = on_wire(largest) * fit.beta;
      // Nothing is faster for company: less is what starts and clocks are apart.
      return Direction{fit.alpha, 1 / fit.beta,
                       on_wire(largest) / std::max(alone, at_once - fit.alpha)};
    };
    return {direction(fit_there, there.back() - apart), direction(fit_back, back.back() + apart)};
  }

  /// The other rank.
  void follow() {
    std::vector<Seconds> times(options_.sizes.size() + 1, never);
    for (;;) {
      Command next;
      reef::comm::receive(progress_, "command", peer_, std::span(&next, 1));
      if (next.bytes == 0) break;
      Seconds& least = times[static_cast<std::size_t>(next.place)];
      least = std::min(least, sends_at_once(next) ? exchange_at_once(next) : answer(next));
    }
    reef::comm::send(progress_, "times", peer_, std::span(times));
  }

private:
  [[nodiscard]] double on_wire(Bytes bytes) const {
    return static_cast<double>(reef::comm::SendTask::cost(bytes, progress_.piece_bytes()).bytes);
  }
  [[nodiscard]] int repeats(Seconds time, Seconds exchange) const {
    return static_cast<int>(
        std::clamp(time / exchange, 0.0, static_cast<double>(options_.repeats)));
  }
  [[nodiscard]] bool sends_at_once(const Command& one) const {
    return static_cast<std::size_t>(one.place) == options_.sizes.size();
  }

  void command(Command next) { reef::comm::send(progress_, "command", peer_, std::span(&next, 1)); }

  /// Tells the other end and does its own part. The least time of what came back.
  Seconds run(const Command& next) {
    command(next);
    if (sends_at_once(next)) {
      std::this_thread::sleep_for(std::chrono::duration<double>(pause_));
      return exchange_at_once(next);
    }
    Seconds least = never;
    for (int i = 0; i < next.repeats; ++i) {
      give(next.bytes);
      least = std::min(least, take(next.bytes));
    }
    return least;
  }

  Seconds answer(const Command& next) {
    Seconds least = never;
    for (int i = 0; i < next.repeats; ++i) {
      least = std::min(least, take(next.bytes));
      give(next.bytes);
    }
    return least;
  }

  Seconds exchange_at_once(const Command& next) {
    const auto size = static_cast<std::size_t>(next.bytes);
    reef::comm::SendTask out("at once", peer_, sent_.first(size));
    reef::comm::ReceiveTask in("at once", peer_, received_.first(size));
    Seconds least = never;
    for (int i = 0; i < next.repeats; ++i) {
      progress_.submit(progress_.queue("in"), in);
      stamp();
      progress_.submit(progress_.queue("out"), out);
      progress_.wait(in);
      least = std::min(least, since_stamp());
      progress_.wait(out);
    }
    return least;
  }

  /// A message begins with when it was sent.
  void stamp() {
    const Seconds now = reef::trace::now();
    std::memcpy(sent_.data(), &now, sizeof now);
  }
  [[nodiscard]] Seconds since_stamp() const {
    Seconds then = 0;
    std::memcpy(&then, received_.data(), sizeof then);
    return reef::trace::now() - then;
  }

  void give(Bytes bytes) {
    stamp();
    reef::comm::send(progress_, "message", peer_, sent_.first(static_cast<std::size_t>(bytes)));
  }
  Seconds take(Bytes bytes) {
    reef::comm::receive(progress_, "message", peer_,
                        received_.first(static_cast<std::size_t>(bytes)));
    return since_stamp();
  }

  Progress& progress_;
  int peer_;
  const LinkOptions& options_;
  std::span<std::byte> sent_;
  std::span<std::byte> received_;
  Seconds pause_ = 0;  // from a command to when the other end has it
};

}  // namespace

Links measure_links(Progress& progress, const LinkOptions& options,
                    const std::function<void(int round, int rounds)>& told) {
  const int ranks = progress.size();
  const int rank = progress.rank();
  const int rounds = round_count(ranks);
  const std::string clock = reef::comm::name_of_clock();
  const auto clocks = reef::comm::gather_numbers(
      progress, "clocks", clock.empty() ? 0 : reef::Hash().add(std::string_view(clock)).value());
  const auto n = static_cast<std::size_t>(ranks);
  std::vector<std::byte> sent(static_cast<std::size_t>(options.sizes.back()));
  std::vector<std::byte> received(sent.size());
  std::vector<double> mine(6 * n, 0.0);  // of each peer that this rank led: there and back
  for (int round = 0; round < rounds; ++round) {
    if (rank == 0) told(round, rounds);
    const int peer = opponent(ranks, round, rank);
    const auto other = static_cast<std::size_t>(peer);
    Pair pair(progress, peer, options, sent, received);
    if (rank < peer) {
      const std::uint64_t own = clocks[static_cast<std::size_t>(rank)];
      const auto [there, back] =
          pair.lead(options.seconds / rounds, own != 0 && own == clocks[other]);
      const std::array figures{there.latency, there.rate, there.reciprocal_rate,
                               back.latency,  back.rate,  back.reciprocal_rate};
      std::copy(figures.begin(), figures.end(),
                mine.begin() + static_cast<std::ptrdiff_t>(6 * other));
    } else if (peer < rank) {
      pair.follow();
    }
    reef::comm::barrier(progress, "end of a round");
  }

  std::vector<double> all(rank == 0 ? 6 * n * n : 0);
  reef::comm::gather<double>(progress, "links", 0, mine, all,
                             reef::comm::even_offsets(6 * ranks * ranks, ranks));
  Links links;
  if (rank != 0) return links;
  for (auto* const matrix : {&links.latencies, &links.rates, &links.reciprocal_rates})
    matrix->assign(n * n, 0.0);
  for (std::size_t a = 0; a < n; ++a) {
    for (std::size_t b = a + 1; b < n; ++b) {
      const double* const found = &all[6 * (a * n + b)];
      const auto enter = [&](std::size_t link, const double* figures) {
        links.latencies[link] = figures[0];
        links.rates[link] = figures[1];
        links.reciprocal_rates[link] = figures[2];
      };
      enter(a * n + b, found);
      enter(b * n + a, found + 3);
    }
  }
  return links;
}

}  // namespace reef_examples
