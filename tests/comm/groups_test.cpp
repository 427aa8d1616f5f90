// Collectives over some of the ranks: laws over every way to part 1 to 4 ranks.

#include <reef/comm/collectives.hpp>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include <comm/groups.hpp>
#include <comm/reference.hpp>
#include <reef/comm/detail/collective_scope.hpp>
#include <reef/comm/progress.hpp>

namespace {

using namespace reef;
using namespace reef::comm;
using reef::test::inputs_of;
using reef::test::no_reads;
using reef::test::offsets_of;
using reef::test::options_of;
using reef::test::own_group;
using reef::test::partitions_of;
using reef::test::same_bits;
using reef::test::shardings;
using reef::test::tests_another_way;
using reef::test::Travel;

/// ((x_a + x_b) + x_c) + ... in the order of the members.
template <class T>
std::vector<T> sum_of(const Group& group, std::int64_t n, std::uint64_t salt) {
  std::vector<T> sum = inputs_of<T>(group.members.front(), n, salt);
  for (std::size_t member = 1; member < group.members.size(); ++member) {
    const std::vector<T> next = inputs_of<T>(group.members[member], n, salt);
    for (std::size_t i = 0; i < sum.size(); ++i) sum[i] += next[i];
  }
  return sum;
}

/// One of each collective of one group, or of all ranks, with data of its own and what must become of it.
template <class T>
class Trio {
public:
  Trio(const std::string& name, const std::optional<Group>& group, const Communicator& world,
       std::int64_t n, int sharding, std::uint64_t salt)
      : members_(group ? *group : comm::detail::all_of(world.size())),
        input_(inputs_of<T>(world.rank(), n, salt)),
        data_(input_),
        // What is gathered is of this group alone.
        whole_(inputs_of<T>(100 + members_.members.front(), n, salt)),
        sum_(sum_of<T>(members_, n, salt)) {
    const std::vector<std::int64_t> offsets = offsets_of(sharding, n, members_.size());
    const auto at = static_cast<std::size_t>(members_.position_of(world.rank()));
    begin_ = static_cast<std::size_t>(offsets[at]);
    length_ = static_cast<std::size_t>(offsets[at + 1]) - begin_;
    scattered_.assign(length_, T{-1});
    gathered_.assign(whole_.size(), T{-1});
    scatter_ = std::make_unique<ReduceScatterTask<T>>(name, std::span<const T>(input_),
                                                      std::span(scattered_), offsets, group);
    gather_ =
        std::make_unique<AllGatherTask<T>>(name, own(whole_), std::span(gathered_), offsets, group);
    reduce_ = std::make_unique<AllReduceTask<T>>(name, std::span(data_), offsets, group);
  }

  void submit(Progress& progress, Queue& queue) {
    progress.submit(queue, *scatter_);
    progress.submit(queue, *gather_);
    progress.submit(queue, *reduce_);
  }
  /// "" or which of the three is wrong, once they are complete.
  [[nodiscard]] std::string wrong() const {
    std::string text;
    if (!same_bits(std::span<const T>(scattered_), own(sum_))) text += " reduce-scatter";
    if (!same_bits(gathered_, whole_)) text += " all-gather";
    if (!same_bits(data_, sum_)) text += " all-reduce";
    return text.empty() ? "" : "wrong:" + text + " over " + members_.name;
  }

private:
  [[nodiscard]] std::span<const T> own(const std::vector<T>& whole) const {
    return std::span<const T>(whole).subspan(begin_, length_);
  }

  Group members_;
  std::vector<T> input_, data_, whole_, sum_, scattered_, gathered_;
  std::size_t begin_ = 0, length_ = 0;
  std::unique_ptr<ReduceScatterTask<T>> scatter_;
  std::unique_ptr<AllGatherTask<T>> gather_;
  std::unique_ptr<AllReduceTask<T>> reduce_;
};

/// Element type x how its arrays travel x the bytes of a message.
template <class T, Travel Way, Bytes Piece = default_piece_bytes>
struct GroupSetting {
  using Value = T;
  static constexpr Travel way = Way;
  static constexpr Bytes piece = Piece;
};

template <class S>
struct Groups : testing::Test {
  using Element = typename S::Value;

  void SetUp() override {
    if (tests_another_way(S::way, world)) GTEST_SKIP() << no_reads;
  }

  static ProgressOptions options() { return options_of(S::way, S::piece); }
  /// Of several pieces and rounds; where arrays are read in place, of more than goes through slots.
  static constexpr std::int64_t many = S::piece < 1024 ? 997 : 70'001;

  void expect_right(const std::vector<std::unique_ptr<Trio<Element>>>& trios) {
    for (const auto& trio : trios) EXPECT_EQ(trio->wrong(), "");
  }

  Communicator world;
};

using GroupSettings =
    testing::Types<GroupSetting<float, Travel::messages>,
                   GroupSetting<double, Travel::messages, 100>, GroupSetting<float, Travel::slots>,
                   GroupSetting<double, Travel::slots>, GroupSetting<float, Travel::reads>,
                   GroupSetting<double, Travel::reads>, GroupSetting<Bfloat16, Travel::reads>>;
TYPED_TEST_SUITE(Groups, GroupSettings);

TYPED_TEST(Groups, of_every_partition_of_the_ranks_get_the_fold_in_the_order_of_their_members) {
  using T = typename TypeParam::Value;
  Progress progress(this->world, this->options());
  Queue& queue = progress.queue("parts");
  const auto partitions = partitions_of(this->world.size());
  for (const std::int64_t n :
       {std::int64_t{0}, std::int64_t{1}, std::int64_t{3}, std::int64_t{65}, TestFixture::many}) {
    // Large ones take most of the time: those in one way, the others are below.
    for (int sharding = n == TestFixture::many ? 2 : 0; sharding < shardings; ++sharding) {
      // All of them are in the queue at once: a family for each partition.
      std::vector<std::unique_ptr<Trio<T>>> trios;
      for (std::size_t number = 0; number < partitions.size(); ++number) {
        const Group group =
            own_group("family " + std::to_string(number), partitions[number], this->world.rank());
        trios.push_back(std::make_unique<Trio<T>>("trio", group, this->world, n, sharding, number));
        trios.back()->submit(progress, queue);
      }
      progress.wait_all();
      this->expect_right(trios);
    }
  }
}

TYPED_TEST(Groups, and_all_ranks_take_turns_on_one_queue_whoever_is_behind) {
  using T = typename TypeParam::Value;
  const int rank = this->world.rank();
  Progress progress(this->world, this->options());
  Queue& queue = progress.queue("turns");
  const auto partitions = partitions_of(this->world.size());
  for (std::size_t number = 0; number < partitions.size(); ++number) {
    const Group group = own_group("part " + std::to_string(number), partitions[number], rank);
    std::vector<std::unique_ptr<Trio<T>>> trios;
    for (int turn = 0; turn < 8; ++turn) {
      const std::int64_t n = turn % 4 == 3 ? TestFixture::many / 2 : 10 + turn;
      const std::optional<Group> who = turn % 2 == 0 ? std::optional(group) : std::nullopt;
      if (turn % this->world.size() == rank) {
        std::this_thread::sleep_for(std::chrono::microseconds(300));
      }
      trios.push_back(std::make_unique<Trio<T>>("turn", who, this->world, n, turn % shardings,
                                                static_cast<std::uint64_t>(turn)));
      trios.back()->submit(progress, queue);
    }
    progress.wait_all();
    this->expect_right(trios);
  }
}

TYPED_TEST(Groups, submit_as_many_of_their_own_as_they_like_between_those_of_all_ranks) {
  using T = typename TypeParam::Value;
  const int ranks = this->world.size();
  Progress progress(this->world, this->options());
  Queue& queue = progress.queue("unequal");
  std::vector<int> halves(static_cast<std::size_t>(ranks), 1);
  std::fill_n(halves.begin(), (ranks + 1) / 2, 0);
  const Group group = own_group("half", halves, this->world.rank());
  const int count = group.has(0) ? 5 : 3;
  std::vector<std::unique_ptr<Trio<T>>> trios;
  const auto add = [&](const std::optional<Group>& who, std::int64_t n, int salt) {
    trios.push_back(std::make_unique<Trio<T>>("unequal", who, this->world, n, salt % shardings,
                                              static_cast<std::uint64_t>(salt)));
    trios.back()->submit(progress, queue);
  };
  for (int round = 0; round < 3; ++round) {
    for (int i = 0; i < count; ++i) add(group, i == 1 ? TestFixture::many : 20 + i, 10 * round + i);
    add({}, 33, round);
  }
  progress.wait_all();
  this->expect_right(trios);
}

TYPED_TEST(Groups, of_different_names_may_share_ranks_and_are_submitted_in_one_order) {
  using T = typename TypeParam::Value;
  const int ranks = this->world.size();
  const int rank = this->world.rank();
  Progress progress(this->world, this->options());
  Queue& queue = progress.queue("chain");
  std::vector<std::unique_ptr<Trio<T>>> trios;
  for (int round = 0; round < 4; ++round) {
    for (int first = 0; first + 1 < ranks; ++first) {  // a rank is in two pairs of the chain
      const Group pair{"pair " + std::to_string(first), {first, first + 1}};
      if (!pair.has(rank)) continue;
      const std::int64_t n = round == 2 ? TestFixture::many : 15 + first;
      trios.push_back(std::make_unique<Trio<T>>("pair", pair, this->world, n, round % shardings,
                                                static_cast<std::uint64_t>(round)));
      trios.back()->submit(progress, queue);
    }
  }
  progress.wait_all();
  this->expect_right(trios);
}

TYPED_TEST(Groups, are_on_several_queues_at_once) {
  using T = typename TypeParam::Value;
  Progress progress(this->world, this->options());
  const auto partitions = partitions_of(this->world.size());
  std::vector<std::unique_ptr<Trio<T>>> trios;
  for (int round = 0; round < 3; ++round) {
    for (std::size_t number = 0; number < std::min<std::size_t>(partitions.size(), 5); ++number) {
      // The same name, of other members on each queue.
      const Group group = own_group("part", partitions[number], this->world.rank());
      trios.push_back(std::make_unique<Trio<T>>("queues", group, this->world, 200 + round,
                                                round % shardings, number));
      trios.back()->submit(progress, progress.queue("queue " + std::to_string(number)));
    }
  }
  progress.wait_all();
  this->expect_right(trios);
}

TYPED_TEST(Groups, send_what_cost_says_of_their_size_and_position) {
  using T = typename TypeParam::Value;
  Progress progress(this->world, this->options());
  const Transport way = progress.transport();
  const auto partitions = partitions_of(this->world.size());
  for (std::size_t number = 0; number < partitions.size(); ++number) {
    const Group group =
        own_group("part " + std::to_string(number), partitions[number], this->world.rank());
    const int at = group.position_of(this->world.rank());
    for (const std::int64_t n : {std::int64_t{5}, TestFixture::many}) {
      const auto offsets = offsets_of(2, n, group.size());
      const Meter before = progress.meter();
      Trio<T> trio("cost", group, this->world, n, 2, 0);
      trio.submit(progress, progress.queue("cost"));
      progress.wait_all();
      const Meter after = progress.meter();
      const auto used = [&](Kind kind) { return after.of(kind) - before.of(kind); };
      const int size = group.size();
      const Bytes piece = TypeParam::piece;
      EXPECT_EQ(used(Kind::reduce_scatter),
                ReduceScatterTask<T>::cost(size, at, offsets, sizeof(T), way, piece));
      EXPECT_EQ(used(Kind::all_gather),
                AllGatherTask<T>::cost(size, at, offsets, sizeof(T), way, piece));
      EXPECT_EQ(used(Kind::all_reduce),
                AllReduceTask<T>::cost(size, at, offsets, sizeof(T), way, piece));
      EXPECT_EQ(after.operations() == before.operations(), size == 1);
    }
  }
}

}  // namespace
