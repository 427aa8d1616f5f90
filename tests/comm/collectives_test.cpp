#include <reef/comm/collectives.hpp>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdint>
#include <numeric>
#include <span>
#include <string>
#include <thread>
#include <tuple>
#include <vector>

#include <gtest/gtest.h>

#include <comm/reference.hpp>
#include <reef/comm/functions.hpp>

namespace {

using namespace reef;
using namespace reef::comm;
using reef::test::inputs_of;
using reef::test::same_bits;
using reef::test::sum_of_ranks;

/// Element type x transport x piece size; in shared memory, whether peers are read in place.
template <class T, Transport Way, Bytes Piece, bool ReadPeers = true>
struct Setting {
  using Value = T;
  static constexpr Transport transport = Way;
  static constexpr Bytes piece = Piece;
  static constexpr bool read_peers = ReadPeers;
};

template <class S>
struct Collectives : testing::Test {
  using Element = typename S::Value;

  Collectives() : progress(world, options()) {}

  void SetUp() override {
    const bool wanted = S::transport == Transport::window && S::read_peers;
    if (wanted && world.size() > 1 && !progress.reads_peers()) {
      GTEST_SKIP() << "the system lets no process read another: this would test the slots again";
    }
  }

  static ProgressOptions options() {
    ProgressOptions options;
    options.deadline = 40;
    options.transport = S::transport;
    options.piece_bytes = S::piece;
    options.read_peers = S::read_peers;
    return options;
  }

  /// 0, 1, fewer than P, not divisible by P, and more than one piece and one round.
  [[nodiscard]] std::vector<std::int64_t> sizes() const {
    const std::int64_t many = S::piece < 1024 ? 997 : 300'007;
    return {0, 1, world.size() - 1, world.size() + 1, 64, many};
  }

  /// Even shards, everything with the last rank, and odd ones with an empty one between.
  [[nodiscard]] std::vector<std::vector<std::int64_t>> shardings(std::int64_t n) const {
    const auto ranks = static_cast<std::size_t>(world.size());
    std::vector<std::int64_t> last(ranks + 1, 0);
    last.back() = n;
    std::vector<std::int64_t> odd(ranks + 1, n);
    odd.front() = 0;
    if (ranks > 1) odd[1] = n / 3;
    if (ranks > 2) odd[2] = n / 3;
    return {even_offsets(n, world.size()), last, odd};
  }

  [[nodiscard]] std::span<const Element> shard(const std::vector<Element>& whole,
                                               const std::vector<std::int64_t>& offsets) const {
    const auto rank = static_cast<std::size_t>(world.rank());
    return std::span<const Element>(whole).subspan(
        static_cast<std::size_t>(offsets[rank]),
        static_cast<std::size_t>(offsets[rank + 1] - offsets[rank]));
  }
  [[nodiscard]] std::span<Element> shard(std::vector<Element>& whole,
                                         const std::vector<std::int64_t>& offsets) const {
    const std::span<const Element> part = shard(std::as_const(whole), offsets);
    return {const_cast<Element*>(part.data()), part.size()};
  }

  Communicator world;
  Progress progress;
};

constexpr Bytes half_piece = default_piece_bytes / 2;

using Settings = testing::Types<Setting<float, Transport::messages, half_piece>,
                                Setting<double, Transport::messages, 100>,
                                Setting<float, Transport::window, half_piece>,
                                Setting<double, Transport::window, half_piece>,
                                Setting<Bfloat16, Transport::window, half_piece>,
                                Setting<float, Transport::window, half_piece, false>,
                                Setting<double, Transport::window, half_piece, false>>;
TYPED_TEST_SUITE(Collectives, Settings);

TYPED_TEST(Collectives, a_reduce_scatter_leaves_the_fold_in_rank_order_on_the_owner) {
  using T = typename TypeParam::Value;
  int number = 0;
  for (const std::int64_t n : this->sizes()) {
    for (const auto& offsets : this->shardings(n)) {
      const std::vector<T> input = inputs_of<T>(this->world.rank(), n);
      const std::vector<T> sum = sum_of_ranks<T>(this->world.size(), n);
      std::vector<T> output(this->shard(sum, offsets).size(), T{-1});
      reduce_scatter(this->progress, "rs" + std::to_string(number++), std::span<const T>(input),
                     std::span(output), offsets);
      EXPECT_TRUE(same_bits(std::span<const T>(output), this->shard(sum, offsets))) << "n = " << n;
      EXPECT_TRUE(same_bits(input, inputs_of<T>(this->world.rank(), n)))
          << "the input changed, n = " << n;
    }
  }
}

TYPED_TEST(Collectives, chunks_narrower_than_their_sum_are_widened_and_then_added) {
  int number = 0;
  for (const std::int64_t n : this->sizes()) {
    std::vector<float> sum(static_cast<std::size_t>(n));
    for (int rank = 0; rank < this->world.size(); ++rank) {
      const std::vector<Bfloat16> chunk = inputs_of<Bfloat16>(rank, n);
      for (std::size_t i = 0; i < sum.size(); ++i) {
        sum[i] = rank == 0 ? float(chunk[i]) : sum[i] + float(chunk[i]);
      }
    }
    for (const auto& offsets : this->shardings(n)) {
      const std::vector<Bfloat16> input = inputs_of<Bfloat16>(this->world.rank(), n);
      const auto own = static_cast<std::size_t>(this->world.rank());
      const auto begin = static_cast<std::size_t>(offsets[own]);
      std::vector<float> output(static_cast<std::size_t>(offsets[own + 1]) - begin, -1);
      reduce_scatter(this->progress, "wide" + std::to_string(number++),
                     std::span<const Bfloat16>(input), std::span(output), offsets);
      EXPECT_TRUE(same_bits(std::span<const float>(output),
                            std::span<const float>(sum).subspan(begin, output.size())))
          << "n = " << n;
    }
  }
}

TYPED_TEST(Collectives, an_all_gather_gives_every_rank_all_shards) {
  using T = typename TypeParam::Value;
  int number = 0;
  for (const std::int64_t n : this->sizes()) {
    for (const auto& offsets : this->shardings(n)) {
      const std::vector<T> whole = inputs_of<T>(7, n);
      std::vector<T> output(whole.size(), T{-1});
      all_gather(this->progress, "ag" + std::to_string(number++), this->shard(whole, offsets),
                 std::span(output), offsets);
      EXPECT_TRUE(same_bits(output, whole)) << "n = " << n;
    }
  }
}

TYPED_TEST(Collectives, an_all_reduce_gives_every_rank_the_fold_in_rank_order) {
  using T = typename TypeParam::Value;
  int number = 0;
  for (const std::int64_t n : this->sizes()) {
    for (const auto& offsets : this->shardings(n)) {
      std::vector<T> data = inputs_of<T>(this->world.rank(), n);
      AllReduceTask<T> task("ar" + std::to_string(number++), std::span(data), offsets);
      run(this->progress, task);
      EXPECT_TRUE(same_bits(data, sum_of_ranks<T>(this->world.size(), n))) << "n = " << n;
    }
  }
}

TYPED_TEST(Collectives, a_broadcast_gives_every_rank_the_array_of_any_root) {
  using T = typename TypeParam::Value;
  for (int root = 0; root < this->world.size(); ++root) {
    for (const std::int64_t n : this->sizes()) {
      std::vector<T> data = inputs_of<T>(this->world.rank(), n);
      broadcast(this->progress, "bc" + std::to_string(root), root, std::span(data));
      EXPECT_TRUE(same_bits(data, inputs_of<T>(root, n))) << "n = " << n << ", root " << root;
    }
  }
}

TYPED_TEST(Collectives, a_gather_gives_any_root_all_shards_and_leaves_the_others_alone) {
  using T = typename TypeParam::Value;
  for (int root = 0; root < this->world.size(); ++root) {
    for (const std::int64_t n : this->sizes()) {
      for (const auto& offsets : this->shardings(n)) {
        const std::vector<T> whole = inputs_of<T>(7, n);
        const bool here = this->world.rank() == root;
        std::vector<T> output(here ? whole.size() : 0, T{-1});
        gather(this->progress, "g" + std::to_string(root), root, this->shard(whole, offsets),
               std::span(output), offsets);
        EXPECT_TRUE(!here || same_bits(output, whole)) << "n = " << n << ", root " << root;
      }
    }
  }
}

TYPED_TEST(Collectives, shards_may_lie_inside_the_whole_array) {
  using T = typename TypeParam::Value;
  for (const std::int64_t n : this->sizes()) {
    const auto offsets = even_offsets(n, this->world.size());
    std::vector<T> data = inputs_of<T>(this->world.rank(), n);
    reduce_scatter(this->progress, "in place " + std::to_string(n), std::span<const T>(data),
                   this->shard(data, offsets), offsets);
    all_gather(this->progress, "in place " + std::to_string(n),
               this->shard(std::as_const(data), offsets), std::span(data), offsets);
    EXPECT_TRUE(same_bits(data, sum_of_ranks<T>(this->world.size(), n))) << "n = " << n;
  }
}

TYPED_TEST(Collectives, each_element_of_the_own_shard_is_reported_once_when_it_is_final) {
  using T = typename TypeParam::Value;
  const std::int64_t n = this->sizes().back();
  const auto offsets = even_offsets(n, this->world.size());
  const std::vector<T> input = inputs_of<T>(this->world.rank(), n);
  const std::vector<T> sum = sum_of_ranks<T>(this->world.size(), n);
  const std::span<const T> expected = this->shard(sum, offsets);
  std::vector<T> output(expected.size());
  std::vector<int> seen(expected.size(), 0);
  bool final = true;
  ReduceScatterTask<T> task("folded", std::span<const T>(input), std::span(output), offsets);
  task.on_folded([&](std::int64_t begin, std::int64_t end) {
    for (auto i = static_cast<std::size_t>(begin); i < static_cast<std::size_t>(end); ++i) {
      ++seen[i];
      final = final && output[i] == expected[i];
    }
  });
  for (int round = 1; round <= 2; ++round) {
    run(this->progress, task);
    EXPECT_EQ(std::count(seen.begin(), seen.end(), round), std::ssize(seen));
  }
  EXPECT_TRUE(final);
}

TYPED_TEST(Collectives, the_bits_are_the_same_in_every_repetition) {
  using T = typename TypeParam::Value;
  const std::int64_t n = 5'003;
  const std::vector<T> sum = sum_of_ranks<T>(this->world.size(), n);
  std::vector<T> data(static_cast<std::size_t>(n));
  AllReduceTask<T> task("again", std::span(data), this->world.size());
  Queue& queue = this->progress.queue("again");
  const std::vector<T> input = inputs_of<T>(this->world.rank(), n);
  int wrong = 0;
  for (int repetition = 0; repetition < 30; ++repetition) {
    std::copy(input.begin(), input.end(), data.begin());
    this->progress.submit(queue, task);
    this->progress.wait(task);
    wrong += same_bits(data, sum) ? 0 : 1;
  }
  EXPECT_EQ(wrong, 0);
}

TYPED_TEST(Collectives, small_and_large_arrays_take_turns_whoever_is_behind) {
  using T = typename TypeParam::Value;
  if (TypeParam::piece < 1024) GTEST_SKIP() << "many pieces";
  // What a rank says of the one must not be overwritten while another still looks at the other.
  int wrong = 0;
  for (int repetition = 0; repetition < 8; ++repetition) {
    for (const std::int64_t n : {11, 100'000, 2'000, 13}) {
      if (repetition % this->world.size() == this->world.rank() && n != 11) {
        std::this_thread::sleep_for(std::chrono::microseconds(300));
      }
      std::vector<T> data = inputs_of<T>(this->world.rank(), n);
      all_reduce(this->progress, "in turn", std::span(data));
      wrong += same_bits(data, sum_of_ranks<T>(this->world.size(), n)) ? 0 : 1;
    }
  }
  EXPECT_EQ(wrong, 0);
}

TYPED_TEST(Collectives, threads_that_wait_for_their_own_queues_do_not_hold_each_other_up) {
  using T = typename TypeParam::Value;
  constexpr int threads = 3;
  const std::int64_t n = 1'009;
  std::array<int, threads> wrong{};
  std::vector<std::thread> callers;
  for (int i = 0; i < threads; ++i) {
    callers.emplace_back([&, i] {
      const std::string name = "caller" + std::to_string(i);
      Queue& queue = this->progress.queue(name);
      const std::vector<T> sum = sum_of_ranks<T>(this->world.size(), n);
      for (int repetition = 0; repetition < 10; ++repetition) {
        std::vector<T> data = inputs_of<T>(this->world.rank(), n);
        AllReduceTask<T> task(name, std::span(data), this->world.size());
        this->progress.run(queue, task);
        wrong[static_cast<std::size_t>(i)] += same_bits(data, sum) ? 0 : 1;
      }
    });
  }
  for (std::thread& caller : callers) caller.join();
  EXPECT_EQ(wrong, (std::array<int, threads>{}));
}

TYPED_TEST(Collectives, queues_run_side_by_side_without_mixing_their_messages) {
  using T = typename TypeParam::Value;
  constexpr int count = 6;
  const std::int64_t n = 2'011;
  std::vector<std::vector<T>> left;
  std::vector<std::vector<T>> right;
  std::vector<std::unique_ptr<AllReduceTask<T>>> tasks;
  for (int i = 0; i < count; ++i) {
    left.push_back(inputs_of<T>(this->world.rank(), n, static_cast<std::uint64_t>(i)));
    right.push_back(inputs_of<T>(this->world.rank(), n, 100 + static_cast<std::uint64_t>(i)));
  }
  for (int i = 0; i < count; ++i) {
    for (auto* side : {&left, &right}) {
      // Every other rank fills the queues the other way round.
      const bool swap = (this->world.rank() + i) % 2 == 0;
      auto& data = (swap ? (side == &left ? right : left) : *side)[static_cast<std::size_t>(i)];
      const bool is_left = &data == &left[static_cast<std::size_t>(i)];
      tasks.push_back(std::make_unique<AllReduceTask<T>>(
          (is_left ? "left" : "right") + std::to_string(i), std::span(data), this->world.size()));
      this->progress.submit(this->progress.queue(is_left ? "left" : "right"), *tasks.back());
    }
  }
  this->progress.wait_all();
  for (int i = 0; i < count; ++i) {
    const auto at = static_cast<std::size_t>(i);
    EXPECT_TRUE(same_bits(left[at], sum_of_ranks<T>(this->world.size(), n, at)));
    EXPECT_TRUE(same_bits(right[at], sum_of_ranks<T>(this->world.size(), n, 100 + at)));
  }
}

TYPED_TEST(Collectives, the_meter_counts_what_cost_says) {
  using T = typename TypeParam::Value;
  const int ranks = this->world.size();
  const int rank = this->world.rank();
  for (const std::int64_t n : this->sizes()) {
    for (const auto& offsets : this->shardings(n)) {
      const Meter before = this->progress.meter();
      std::vector<T> data = inputs_of<T>(rank, n);
      reduce_scatter(this->progress, "cost", std::span<const T>(data), this->shard(data, offsets),
                     offsets);
      all_gather(this->progress, "cost", this->shard(std::as_const(data), offsets), std::span(data),
                 offsets);
      AllReduceTask<T> task("cost", std::span(data), offsets);
      run(this->progress, task);
      const Meter after = this->progress.meter();
      const auto used = [&](Kind kind) { return after.of(kind) - before.of(kind); };
      const Transport way = this->progress.transport();
      EXPECT_EQ(used(Kind::reduce_scatter),
                ReduceScatterTask<T>::cost(ranks, rank, offsets, sizeof(T), way, TypeParam::piece));
      EXPECT_EQ(used(Kind::all_gather),
                AllGatherTask<T>::cost(ranks, rank, offsets, sizeof(T), way, TypeParam::piece));
      EXPECT_EQ(used(Kind::all_reduce),
                AllReduceTask<T>::cost(ranks, rank, offsets, sizeof(T), way, TypeParam::piece));
    }
  }
}

TYPED_TEST(Collectives, shards_of_several_pieces_arrive_whole) {
  using T = typename TypeParam::Value;
  // An even shard is of two to three pieces, and of several rounds through the slots.
  const auto large = std::min<std::int64_t>(300'000, 1'200'000 / std::int64_t{sizeof(T)});
  const std::int64_t n = (TypeParam::piece < 1024 ? 97 : large) * this->world.size();
  const std::vector<T> sum = sum_of_ranks<T>(this->world.size(), n);
  const std::vector<T> inputs = inputs_of<T>(this->world.rank(), n);
  for (const auto& offsets : this->shardings(n)) {
    std::vector<T> data = inputs;
    AllReduceTask<T> task("whole", std::span(data), offsets);
    run(this->progress, task);
    EXPECT_TRUE(same_bits(data, sum));
    data = inputs;
    reduce_scatter(this->progress, "in pieces", std::span<const T>(data),
                   this->shard(data, offsets), offsets);
    all_gather(this->progress, "in pieces", this->shard(std::as_const(data), offsets),
               std::span(data), offsets);
    EXPECT_TRUE(same_bits(data, sum));
  }
}

TYPED_TEST(Collectives, other_offsets_on_one_rank_are_refused_on_all) {
  using T = typename TypeParam::Value;
  if (this->world.size() == 1) GTEST_SKIP() << "one rank agrees with itself";
  const bool first = this->world.rank() == 0;
  std::vector<std::int64_t> offsets(static_cast<std::size_t>(this->world.size()) + 1, 10);
  offsets[0] = 0;
  offsets[1] = first ? 4 : 6;
  const std::vector<T> whole(10, T{1});
  std::vector<T> output(10);
  EXPECT_THROW(
      all_gather(this->progress, "apart", this->shard(whole, offsets), std::span(output), offsets),
      MpiError);
}

TYPED_TEST(Collectives, roots_and_offsets_of_other_ranks_are_refused_before_anything_is_sent) {
  using T = typename TypeParam::Value;
  const int ranks = this->world.size();
  std::vector<T> data(10);
  const auto even = even_offsets(10, ranks);
  const std::span<const T> own = this->shard(std::as_const(data), even);
  for (const int root : {-1, ranks, ranks + 5}) {
    EXPECT_THROW(broadcast(this->progress, "nobody", root, std::span(data)), OptionError);
    EXPECT_THROW(gather(this->progress, "nobody", root, own, std::span(data), even), OptionError);
  }
  for (const int others : {0, ranks - 1, ranks + 1}) {
    const auto offsets = others == 0 ? std::vector<std::int64_t>{} : even_offsets(10, others);
    EXPECT_THROW(gather(this->progress, "others", 0, own, std::span(data), offsets), OptionError);
  }
  barrier(this->progress, "goes on");
}

TYPED_TEST(Collectives, buffers_of_a_wrong_length_are_refused_before_anything_is_sent) {
  using T = typename TypeParam::Value;
  std::vector<T> data(10);
  const auto make = [&](std::vector<std::int64_t> offsets) {
    return AllReduceTask<T>("bad", std::span(data), std::move(offsets)).name();
  };
  EXPECT_THROW(make({}), OptionError);
  EXPECT_THROW(make({0, 9}), OptionError);
  EXPECT_THROW(make({1, 10}), OptionError);
  EXPECT_THROW(make({0, 11, 10}), OptionError);
  AllReduceTask<T> fine("fine", std::span(data), this->world.size());
  EXPECT_THROW(fine.bind(std::span(data).first(9)), OptionError);
  run(this->progress, fine);
}

TEST(Reference, notices_another_order_of_summation) {
  const std::int64_t n = 1000;
  std::vector<float> backwards = inputs_of<float>(2, n);
  for (const int rank : {1, 0}) {
    for (std::int64_t i = 0; i < n; ++i) {
      backwards[static_cast<std::size_t>(i)] += reef::test::input_of<float>(rank, i);
    }
  }
  EXPECT_FALSE(same_bits(backwards, sum_of_ranks<float>(3, n)));
}

}  // namespace
