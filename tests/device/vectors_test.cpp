// Vector code under every instruction set: the vectors themselves, loops over them, block sums.

#include <reef/device/sum_of_squares.hpp>
#include <reef/device/transform.hpp>

#include <algorithm>
#include <atomic>
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <functional>
#include <limits>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include <reef/core/error.hpp>
#include <reef/core/random.hpp>
#include <reef/device/for_each.hpp>
#include <reef/device/simd.hpp>

namespace reef {
namespace {

using device::Host;
using device::InstructionSet;

std::vector<InstructionSet> instruction_sets() {
  std::vector<InstructionSet> sets;
  for (const InstructionSet set :
       {InstructionSet::baseline, InstructionSet::avx2, InstructionSet::avx512}) {
    if (set <= device::best_instruction_set()) sets.push_back(set);
  }
  return sets;
}

void each_instruction_set(const std::function<void(InstructionSet)>& body) {
  for (const InstructionSet set : instruction_sets()) {
    device::use_instruction_set(set);
    SCOPED_TRACE(std::string(device::name_of(set)));
    body(set);
  }
  device::use_instruction_set(device::best_instruction_set());
}

template <class T>
std::vector<T> normal_numbers(std::size_t n, std::uint32_t op) {
  std::vector<T> values(n);
  for (std::size_t i = 0; i < n; ++i) values[i] = static_cast<T>(normal({.seed = 1, .op = op}, i));
  return values;
}

void on_host(int threads, const std::function<void(Host::Lane&)>& function) {
  Host host({.threads = threads});
  Host::Lane lane(host, "compute");
  lane.submit(function);
  lane.synchronize();
}

template <class T>
class Vectors : public testing::Test {};
using Elements = testing::Types<float, double>;
TYPED_TEST_SUITE(Vectors, Elements);

// One call of every operation; results[operation * V::width + lane].
struct EveryOperation {
  static constexpr int operations = 16;

  template <class V>
  void run(typename V::element_type* results, const typename V::element_type* a,
           const typename V::element_type* b, std::int64_t* width) const {
    using T = typename V::element_type;
    *width = V::width;
    const V x = V::load(a);
    const V y = V::load(b);
    const V values[operations] = {x + y,
                                  x - y,
                                  x * y,
                                  x / y,
                                  -x,
                                  fma(x, y, V(T(2))),
                                  larger(x, y),
                                  smaller(x, y),
                                  select_less(x, y, V(T(1)), V(T(2))),
                                  sqrt(x * x),
                                  round_even(x * V(T(3))),
                                  scale(x, round_even(y)),
                                  V(sum(x)),
                                  V(largest(x)),
                                  keep(x, 1),
                                  V::load(a, V::width - 1, V(T(9)))};
    for (int i = 0; i < operations; ++i) values[i].store(results + i * V::width);
  }
};

TYPED_TEST(Vectors, every_operation_does_in_each_lane_what_the_scalar_does) {
  using T = TypeParam;
  each_instruction_set([](InstructionSet) {
    const auto a = normal_numbers<T>(16, 1);
    const auto b = normal_numbers<T>(16, 2);
    std::vector<T> results(16 * EveryOperation::operations);
    std::int64_t width = 0;
    device::run_vectors<T>(EveryOperation{}, results.data(), a.data(), b.data(), &width);
    double total = 0;
    T top = a[0];
    for (std::int64_t i = 0; i < width; ++i) {
      total += static_cast<double>(a[static_cast<std::size_t>(i)]);
      top = std::max(top, a[static_cast<std::size_t>(i)]);
    }
    for (std::int64_t i = 0; i < width; ++i) {
      const auto got = [&](int operation) {
        return results[static_cast<std::size_t>(operation * width + i)];
      };
      const T x = a[static_cast<std::size_t>(i)];
      const T y = b[static_cast<std::size_t>(i)];
      EXPECT_EQ(got(0), x + y);
      EXPECT_EQ(got(1), x - y);
      EXPECT_EQ(got(2), x * y);
      EXPECT_EQ(got(3), x / y);
      EXPECT_EQ(got(4), -x);
      EXPECT_NEAR(got(5), x * y + T(2), 8 * std::numeric_limits<T>::epsilon());
      EXPECT_EQ(got(6), std::max(x, y));
      EXPECT_EQ(got(7), std::min(x, y));
      EXPECT_EQ(got(8), x < y ? T(1) : T(2));
      EXPECT_EQ(got(9), std::sqrt(x * x));
      EXPECT_EQ(got(10), std::nearbyint(x * T(3)));
      EXPECT_EQ(got(11), std::ldexp(x, static_cast<int>(std::nearbyint(y))));
      EXPECT_NEAR(got(12), total, 32 * static_cast<double>(std::numeric_limits<T>::epsilon()));
      EXPECT_EQ(got(13), top);
      EXPECT_EQ(got(14), i == 0 ? x : T(0));
      EXPECT_EQ(got(15), i == width - 1 ? T(9) : x);
    }
  });
}

struct CopyRounded {
  template <class V>
  void run(Bfloat16* to, const float* from, std::int64_t count) const {
    for (std::int64_t i = 0; i < count; i += V::width) {
      V::load(from + i, count - i).store(to + i, count - i);
    }
  }
};

struct CopyWidened {
  template <class V>
  void run(float* to, const Bfloat16* from, std::int64_t count, float other) const {
    for (std::int64_t i = 0; i < count; i += V::width) {
      const V value = V::load(from + i, count - i);
      const V same = V::load(from + i, count - i, V(other));
      select_less(value, V(other), value, same).store(to + i, count - i);
    }
  }
};

TEST(Bf16Vectors, floats_are_rounded_and_widened_as_one_by_one_under_every_instruction_set) {
  std::vector<float> from;
  for (std::uint64_t i = 0; i < 10'000; ++i) {
    const std::uint32_t word = random_bits({.seed = 3, .op = 2}, i);
    from.push_back(std::bit_cast<float>(i % 3 == 0 ? (word & 0xFFFF0000U) | 0x8000U : word));
  }
  for (const std::uint32_t word : {0x7F800001U, 0x7FFFFFFFU, 0xFF800000U, 0x7F7FFFFFU, 0U}) {
    from.push_back(std::bit_cast<float>(word));
  }
  each_instruction_set([&](InstructionSet) {
    for (const std::size_t count : {from.size(), std::size_t{1}, std::size_t{7}, std::size_t{19}}) {
      std::vector<Bfloat16> rounded(count);
      std::vector<float> widened(count);
      const auto n = static_cast<std::int64_t>(count);
      device::run_vectors<Bfloat16>(CopyRounded{}, rounded.data(), from.data(), n);
      device::run_vectors<Bfloat16>(CopyWidened{}, widened.data(),
                                    static_cast<const Bfloat16*>(rounded.data()), n, 0.5F);
      for (std::size_t i = 0; i < count; ++i) {
        EXPECT_EQ(rounded[i].bits(), Bfloat16(from[i]).bits()) << from[i];
        EXPECT_EQ(std::bit_cast<std::uint32_t>(widened[i]),
                  static_cast<std::uint32_t>(rounded[i].bits()) << 16);
      }
    }
  });
}

struct CopyFirst {
  template <class V>
  void run(typename V::element_type* to, const typename V::element_type* from,
           std::int64_t count) const {
    V::load(from, count).store(to, count);
  }
};

TYPED_TEST(Vectors, partial_loads_and_stores_touch_nothing_else) {
  using T = TypeParam;
  each_instruction_set([](InstructionSet) {
    for (std::int64_t count = 0; count <= 20; ++count) {
      // Exactly `count` elements are there: more would be seen by an address sanitizer.
      const auto from = normal_numbers<T>(static_cast<std::size_t>(count), 1);
      std::vector<T> to(20, T(-1));
      device::run_vectors<T>(CopyFirst{}, to.data(), from.data(), count);
      std::int64_t copied = 0;
      while (copied < count &&
             to[static_cast<std::size_t>(copied)] == from[static_cast<std::size_t>(copied)])
        ++copied;
      for (std::size_t i = static_cast<std::size_t>(copied); i < 20; ++i) EXPECT_EQ(to[i], T(-1));
      EXPECT_TRUE(copied == count || copied >= 2) << copied << " of " << count;
    }
  });
}

struct Bits {
  template <class V>
  void run(const float* from, std::int64_t count, std::uint8_t* bytes, std::uint32_t* keys, std::uint32_t* above,
           std::int32_t bits) const {
    for (std::int64_t i = 0; i < count; i += V::width) {
      const V value = V::load(from + i, count - i);
      select_less(V(-0.5F), value, smaller(V(255.0F), value), V(0.0F))
          .store_bytes(bytes + i, count - i);
      value.store_keys(keys + i);
      const std::uint32_t mask = magnitudes_above(value, bits);
      for (std::int64_t lane = 0; lane < V::width; ++lane) above[i + lane] = mask >> lane & 1U;
    }
  }
};

TEST(BitsOfVectors, bytes_keys_and_magnitudes_are_those_of_single_numbers) {
  std::vector<float> from{0.0F, -0.0F, 255.0F, 1.99F, std::bit_cast<float>(0x7F800000U), std::bit_cast<float>(0xFFC00001U),
                          std::bit_cast<float>(0x7FFFFFFFU)};
  for (std::uint64_t i = 0; i < 1000; ++i) {
    const std::uint32_t word = random_bits({.seed = 4, .op = 1}, i);
    from.push_back(i % 2 == 0 ? std::bit_cast<float>(word) : static_cast<float>(word) / 16777216.0F);
  }
  each_instruction_set([&](InstructionSet) {
    for (const std::size_t count : {from.size(), std::size_t{1}, std::size_t{7}, std::size_t{19}}) {
      for (const std::int32_t bits : {0, 0x3F800000, 0x7F800000}) {
        std::vector<std::uint8_t> bytes(count + 1, 77);
        std::vector<std::uint32_t> keys(count + 16);
        std::vector<std::uint32_t> above(count + 16);
        device::run_vectors<float>(Bits{}, from.data(), static_cast<std::int64_t>(count), bytes.data(), keys.data(),
                                   above.data(), bits);
        EXPECT_EQ(bytes[count], 77);
        for (std::size_t i = 0; i < count; ++i) {
          const float x = from[i];
          const auto word = std::bit_cast<std::uint32_t>(x);
          EXPECT_EQ(bytes[i], x > -0.5F ? static_cast<int>(std::min(x, 255.0F)) : 0) << x;
          EXPECT_EQ(keys[i], word >> 31 != 0 ? ~word : word | 0x80000000U) << x;
          EXPECT_EQ(above[i], (word & 0x7FFFFFFFU) > static_cast<std::uint32_t>(bits) ? 1U : 0U) << x;
        }
      }
    }
  });
}

struct Halves {
  template <class V>
  void run(const float* from, std::int64_t count, const float* thresholds, std::uint8_t* bytes, const float* table,
           float* to) const {
    for (std::int64_t i = 0; i < count; i += V::width) {
      V::load(from + i, count - i, V(std::numeric_limits<float>::quiet_NaN())).store_halves(bytes + i / 2, count - i, thresholds);
      V::load_halves(bytes + i / 2, count - i, table).store(to + i, count - i);
    }
  }
};

TEST(BitsOfVectors, halves_of_bytes_are_the_steps_below_a_number) {
  std::vector<float> thresholds(16, -1000.0F);
  std::vector<float> table(16);
  for (std::size_t k = 0; k < 15; ++k) thresholds[k] = static_cast<float>(k * k) - 60;
  for (std::size_t k = 0; k < 16; ++k) table[k] = 3.5F * static_cast<float>(k);
  std::vector<float> from{-0.0F, std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity()};
  for (int k = -80; k < 150; ++k) from.push_back(static_cast<float>(k % 7 == 0 ? -k : k));
  each_instruction_set([&](InstructionSet) {
    for (std::size_t count = 0; count <= from.size(); count = count < 40 ? count + 1 : count + 97) {
      const std::vector<float> exactly(from.begin(), from.begin() + static_cast<std::ptrdiff_t>(count));
      std::vector<std::uint8_t> bytes((count + 1) / 2);
      std::vector<float> to(count);
      device::run_vectors<float>(Halves{}, exactly.data(), static_cast<std::int64_t>(count), thresholds.data(), bytes.data(),
                                 table.data(), to.data());
      for (std::size_t i = 0; i < count; ++i) {
        const auto steps = std::count_if(thresholds.begin(), thresholds.end() - 1, [&](float t) { return from[i] > t; });
        EXPECT_EQ(bytes[i / 2] >> (i % 2 == 0 ? 4 : 0) & 15, steps) << from[i];
        EXPECT_EQ(to[i], table[static_cast<std::size_t>(steps)]);
      }
      if (count % 2 != 0) {
        EXPECT_EQ(bytes.back() & 15, 0);
      }
    }
  });
}

struct Eighths {
  template <class V>
  void run(float* to, const std::uint32_t* words, std::int64_t count, const float* table) const {
    for (int place = 0; place < 8; ++place) {
      for (std::int64_t i = 0; i < count; i += V::width) V::load_eighths(words + i, place, table).store(to + place * count + i);
    }
  }
};

TEST(BitsOfVectors, eighths_of_words_are_half_bytes_from_the_lowest_on) {
  constexpr std::int64_t count = 64;
  std::vector<std::uint32_t> words;
  for (std::uint64_t i = 0; i < count; ++i) words.push_back(random_bits({.seed = 4, .op = 2}, i));
  std::vector<float> table;
  for (int k = 0; k < 16; ++k) table.push_back(3.5F * static_cast<float>(k) - 20);
  each_instruction_set([&](InstructionSet) {
    std::vector<float> to(8 * words.size());
    device::run_vectors<float>(Eighths{}, to.data(), words.data(), count, table.data());
    for (std::size_t i = 0; i < to.size(); ++i) {
      EXPECT_EQ(to[i], table[words[i % words.size()] >> (4 * (i / words.size())) & 15]) << i;
    }
  });
}

struct Exp {
  template <class V>
  void run(typename V::element_type* to, const typename V::element_type* from,
           std::int64_t n) const {
    for (std::int64_t i = 0; i < n; i += V::width)
      exp(V::load(from + i, n - i)).store(to + i, n - i);
  }
};

TYPED_TEST(Vectors, exp_is_within_its_stated_error) {
  using T = TypeParam;
  each_instruction_set([](InstructionSet) {
    constexpr std::int64_t n = 200'001;
    std::vector<T> x(n), y(n);
    for (std::int64_t i = 0; i < n; ++i) {
      x[static_cast<std::size_t>(i)] =
          static_cast<T>(-87.3 + 176.0 * static_cast<double>(i) / (n - 1));
    }
    device::run_vectors<T>(Exp{}, y.data(), static_cast<const T*>(x.data()), n);
    double worst = 0;
    for (std::size_t i = 0; i < x.size(); ++i) {
      const double exact = std::exp(static_cast<double>(x[i]));
      const T rounded = static_cast<T>(exact);
      const double ulp = static_cast<double>(
          std::nextafter(rounded, std::numeric_limits<T>::infinity()) - rounded);
      worst = std::max(worst, std::abs(static_cast<double>(y[i]) - exact) / ulp);
    }
    EXPECT_LE(worst, 1.1);
  });
}

TYPED_TEST(Vectors, exp_of_extremes_is_zero_infinite_or_nan) {
  using T = TypeParam;
  each_instruction_set([](InstructionSet) {
    const T infinity = std::numeric_limits<T>::infinity();
    const std::vector<T> x{-infinity, T(-800),  T(0),
                           T(800),    infinity, std::numeric_limits<T>::quiet_NaN()};
    std::vector<T> y(x.size());
    device::run_vectors<T>(Exp{}, y.data(), x.data(), static_cast<std::int64_t>(x.size()));
    EXPECT_EQ(y[0], T(0));
    EXPECT_EQ(y[1], T(0));
    EXPECT_EQ(y[2], T(1));
    EXPECT_EQ(y[3], infinity);
    EXPECT_EQ(y[4], infinity);
    EXPECT_TRUE(std::isnan(y[5]));
  });
}

// -- update rules --------------------------------------------------------------------------------

// The shape of every update rule: written once, for vectors on the host and for single elements.
template <class T>
struct AdamWLike {
  T* w;
  T* m;
  T* v;
  const T* g;
  T rate, beta1, beta2, epsilon, decay;

  REEF_RULE template <class At>
  REEF_ALWAYS_INLINE REEF_HOST_DEVICE void operator()(const At& at) const {
    using device::fma;
    using device::sqrt;
    using V = typename At::Vector;
    const V gradient = at.load(g);
    const V first = fma(V(beta1), at.load(m), V(T(1) - beta1) * gradient);
    const V second = fma(V(beta2), at.load(v), V(T(1) - beta2) * gradient * gradient);
    const V weight = at.load(w);
    const V step = first / (sqrt(second) + V(epsilon)) + V(decay) * weight;
    at.store(m, first);
    at.store(v, second);
    at.store(w, fma(V(-rate), step, weight));
  }
};

template <class T>
struct Moments {
  std::vector<T> w, m, v, g;
  explicit Moments(std::size_t n)
      : w(normal_numbers<T>(n, 1)),
        m(normal_numbers<T>(n, 2)),
        v(normal_numbers<T>(n, 3)),
        g(normal_numbers<T>(n, 4)) {
    for (T& x : v) x = x * x;
  }
  AdamWLike<T> rule(std::size_t first = 0) {
    return {w.data() + first, m.data() + first, v.data() + first,
            g.data() + first, T(0.01),          T(0.9),
            T(0.95),          T(1e-8),          T(0.1)};
  }
};

TYPED_TEST(Vectors, an_update_rule_gives_on_vectors_what_it_gives_on_elements) {
  using T = TypeParam;
  each_instruction_set([](InstructionSet) {
    constexpr std::size_t n = 17'003;
    Moments<T> vectors(n);
    Moments<T> elements(n);
    on_host(2, [&](Host::Lane& lane) { device::transform_vectors<T>(lane, n, vectors.rule()); });
    for (std::size_t i = 0; i < n; ++i)
      elements.rule()(device::ElementAt<T>{static_cast<std::int64_t>(i)});
    double worst = 0;  // in units of epsilon and of the magnitudes that were added
    const auto compare = [&](T a, T b, T magnitude) {
      worst =
          std::max(worst, std::abs(static_cast<double>(a) - static_cast<double>(b)) /
                              static_cast<double>(std::numeric_limits<T>::epsilon() * magnitude));
    };
    for (std::size_t i = 0; i < n; ++i) {
      const T step = std::abs(elements.m[i]) / (std::sqrt(elements.v[i]) + T(1e-8));
      compare(vectors.m[i], elements.m[i], T(1) + std::abs(elements.m[i]));
      compare(vectors.v[i], elements.v[i], T(1) + std::abs(elements.v[i]));
      compare(vectors.w[i], elements.w[i], T(1) + step + std::abs(elements.w[i]));
    }
    EXPECT_LE(worst, 16);
  });
}

TYPED_TEST(Vectors, a_transform_gives_the_same_bits_wherever_the_array_is_cut_and_for_any_threads) {
  using T = TypeParam;
  each_instruction_set([](InstructionSet) {
    constexpr std::size_t n = 70'001;
    Moments<T> whole(n);
    on_host(1, [&](Host::Lane& lane) { device::transform_vectors<T>(lane, n, whole.rule()); });
    for (const int threads : {1, 2, 3}) {
      Moments<T> parts(n);
      on_host(threads, [&](Host::Lane& lane) {
        std::size_t begin = 0;
        for (const std::size_t end :
             {std::size_t{1}, std::size_t{30}, std::size_t{33'333}, std::size_t{33'340}, n}) {
          device::transform_vectors<T>(lane, static_cast<std::int64_t>(end - begin),
                                       parts.rule(begin));
          begin = end;
        }
      });
      EXPECT_EQ(std::memcmp(whole.w.data(), parts.w.data(), n * sizeof(T)), 0);
      EXPECT_EQ(std::memcmp(whole.m.data(), parts.m.data(), n * sizeof(T)), 0);
      EXPECT_EQ(std::memcmp(whole.v.data(), parts.v.data(), n * sizeof(T)), 0);
    }
  });
}

// -- block sums ----------------------------------------------------------------------------------

TYPED_TEST(Vectors, block_sums_of_squares_have_one_value_for_any_threads_and_instruction_set) {
  using T = TypeParam;
  for (const std::size_t n :
       {std::size_t{0}, std::size_t{1}, std::size_t{4096}, std::size_t{100'005}}) {
    const auto x = normal_numbers<T>(n, 1);
    const std::size_t blocks = (n + 4095) / 4096;
    std::vector<double> first;
    each_instruction_set([&](InstructionSet) {
      for (const int threads : {1, 2, 3}) {
        std::vector<double> sums(blocks, -1);
        on_host(threads, [&](Host::Lane& lane) {
          device::block_sums_of_squares(lane, static_cast<std::int64_t>(n), x.data(), sums.data());
        });
        if (first.empty()) first = sums;
        EXPECT_EQ(sums, first);
      }
    });
    for (std::size_t i = 0; i < blocks; ++i) {
      long double exact = 0;
      for (std::size_t j = i * 4096; j < std::min(n, (i + 1) * 4096); ++j) {
        exact += static_cast<long double>(x[j]) * static_cast<long double>(x[j]);
      }
      EXPECT_NEAR(first[i], static_cast<double>(exact), 300 * 2.3e-16 * static_cast<double>(exact));
    }
  }
}

TYPED_TEST(Vectors, a_block_with_a_value_that_is_not_finite_has_such_a_sum) {
  using T = TypeParam;
  each_instruction_set([](InstructionSet) {
    for (const T bad : {std::numeric_limits<T>::quiet_NaN(), std::numeric_limits<T>::infinity()}) {
      auto x = normal_numbers<T>(10'000, 1);
      x[5000] = bad;
      std::vector<double> sums(3);
      on_host(1, [&](Host::Lane& lane) {
        device::block_sums_of_squares(lane, 10'000, x.data(), sums.data());
      });
      EXPECT_TRUE(std::isfinite(sums[0]));
      EXPECT_FALSE(std::isfinite(sums[1]));
      EXPECT_TRUE(std::isfinite(sums[2]));
    }
  });
}

// -- loops ---------------------------------------------------------------------------------------

TEST(ForEach, every_index_and_every_block_is_met_once) {
  for (const int threads : {1, 3}) {
    on_host(threads, [](Host::Lane& lane) {
      for (const std::int64_t n : {0, 1, 16'384, 50'001}) {
        std::vector<int> met(static_cast<std::size_t>(n), 0);
        device::for_each_index(lane, n,
                               [&](std::int64_t i) { ++met[static_cast<std::size_t>(i)]; });
        EXPECT_EQ(met, std::vector<int>(static_cast<std::size_t>(n), 1));
        std::vector<int> blocks(static_cast<std::size_t>(n), 0);
        device::for_each_block(lane, n, 1000, [&](std::int64_t begin, std::int64_t end) {
          EXPECT_TRUE(begin % 1000 == 0 && (end == n || end == begin + 1000));
          for (std::int64_t i = begin; i < end; ++i) ++blocks[static_cast<std::size_t>(i)];
        });
        EXPECT_EQ(blocks, met);
      }
    });
  }
}

// -- the choice ----------------------------------------------------------------------------------

struct Width {
  template <class V>
  void run(std::int64_t* width) const {
    *width = V::width;
  }
};

TEST(InstructionSetChoice, decides_how_wide_a_vector_is) {
  each_instruction_set([](InstructionSet set) {
    EXPECT_EQ(device::instruction_set(), set);
    std::int64_t width = 0;
    device::run_vectors<float>(Width{}, &width);
    EXPECT_EQ(width, set == InstructionSet::avx512 ? 16 : set == InstructionSet::avx2 ? 8 : 4);
    device::run_vectors<double>(Width{}, &width);
    EXPECT_EQ(width, 2);
  });
}

TEST(InstructionSetChoice, cannot_exceed_the_machine) {
  if (device::best_instruction_set() == InstructionSet::avx512)
    GTEST_SKIP() << "this machine has all";
  EXPECT_THROW(device::use_instruction_set(InstructionSet::avx512), OptionError);
}

TEST(InstructionSetChoice, is_lowered_by_the_environment) {
  setenv("REEF_INSTRUCTION_SET", "sse2", 1);
  EXPECT_EQ(device::detail::initial_instruction_set(), InstructionSet::baseline);
  setenv("REEF_INSTRUCTION_SET", "avx2", 1);
  EXPECT_EQ(device::detail::initial_instruction_set(),
            std::min(InstructionSet::avx2, device::best_instruction_set()));
  setenv("REEF_INSTRUCTION_SET", "mmx", 1);
  EXPECT_THROW(device::detail::initial_instruction_set(), OptionError);
  unsetenv("REEF_INSTRUCTION_SET");
  EXPECT_EQ(device::detail::initial_instruction_set(), device::best_instruction_set());
}

}  // namespace
}  // namespace reef
