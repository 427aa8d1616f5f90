#pragma once

namespace reef_examples {

/// How many rounds it takes until every two of so many ranks have met, each in at most one pair a round.
constexpr int round_count(int ranks) { return ranks < 2 ? 0 : ranks % 2 == 0 ? ranks - 1 : ranks; }

/// Whom a rank meets in that round of a tournament in which all meet once; itself where it rests, which of
/// an odd number of ranks one does in every round.
///
///     opponent = (round - rank) mod m      m = ranks, or ranks - 1 with the last rank as the one left over
constexpr int opponent(int ranks, int round, int rank) {
  const int cycle = ranks % 2 == 0 ? ranks - 1 : ranks;
  const auto in_cycle = [&](int one) { return ((round - one) % cycle + cycle) % cycle; };
  if (ranks % 2 != 0) return in_cycle(rank);
  const int last = ranks - 1;
  if (rank != last) {
    const int other = in_cycle(rank);
    return other == rank ? last : other;
  }
  // Who would meet itself: 2 x = round (mod cycle), and cycle is odd.
  return round % 2 == 0 ? round / 2 % cycle : (round + cycle) / 2 % cycle;
}

}  // namespace reef_examples
