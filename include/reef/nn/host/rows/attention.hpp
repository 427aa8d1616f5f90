#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <type_traits>

#include <reef/core/element.hpp>
#include <reef/core/units.hpp>
#include <reef/device/for_each.hpp>
#include <reef/device/host.hpp>
#include <reef/device/simd.hpp>
#include <reef/graph/rows.hpp>
#include <reef/nn/detail/alibi_slope.hpp>
#include <reef/nn/host/detail/causal_softmax.hpp>
#include <reef/nn/host/detail/scratch.hpp>
#include <reef/nn/host/rows/norms.hpp>

namespace reef {
inline namespace v0 {
namespace nn::host {

namespace detail {

/// The keys and values of one head in one page of a key-value cache, 64 positions: keys (D, 64), D channels of 64
/// positions, so that a vector holds one channel of several positions, and behind them values (64, D), stored as
/// numbers of type S.
template <class S>
struct HeadPage {
  static constexpr std::int64_t positions = graph::page_positions;
  static constexpr bool is_scaled = false;

  /// Returns the bytes of the keys and values of one head of D columns at one position.
  static Bytes bytes(std::int64_t D) { return static_cast<Bytes>(2 * D) * sizeof(S); }

  HeadPage(std::byte* page, std::int64_t D) : keys(reinterpret_cast<S*>(page)), values(keys + positions * D) {}

  template <class T>
  void store(std::int64_t place, const T* key, const T* value, std::int64_t D) const {
    for (std::int64_t d = 0; d < D; ++d) keys[d * positions + place] = S(key[d]);
    for (std::int64_t d = 0; d < D; ++d) values[place * D + d] = S(value[d]);
  }

  S* keys;
  S* values;
};

/// A key or value of a head in int8: the vector is `scale` times the integers.
template <class E>
struct Int8Vector {
  template <class T>
  Int8Vector(const T* numbers, std::int64_t D) {
    E largest(0);
    bool finite = true;
    for (std::int64_t d = 0; d < D; ++d) {
      const E magnitude = (std::abs)(static_cast<E>(numbers[d]));
      largest = (std::max)(largest, magnitude);
      finite = finite && magnitude <= (std::numeric_limits<E>::max)();
    }
    scale = finite ? largest / 127 : std::numeric_limits<E>::quiet_NaN();
    inverse = finite && largest > 0 ? 127 / largest : E(0);
    // If the largest magnitude is subnormal, all numbers become 0.
    inverse = inverse <= (std::numeric_limits<E>::max)() ? inverse : E(0);
  }
  template <class T>
  [[nodiscard]] std::int8_t operator()(T number) const {
    const E rounded = std::nearbyint(static_cast<E>(number) * inverse);
    return static_cast<std::int8_t>(rounded == rounded ? rounded : E(0));
  }

  E scale;
  E inverse;
};

/// The keys and values of one head in one page of a key-value cache, 64 positions, in int8: the scales of the keys and
/// of the values, of type E, then keys (D, 64), then values (64, D).
template <class E>
struct Int8HeadPage {
  static constexpr std::int64_t positions = graph::page_positions;
  static constexpr bool is_scaled = true;

  static Bytes bytes(std::int64_t D) { return 2 * sizeof(E) + static_cast<Bytes>(2 * D); }

  Int8HeadPage(std::byte* page, std::int64_t D)
      : key_scales(reinterpret_cast<E*>(page)),
        value_scales(key_scales + positions),
        keys(reinterpret_cast<std::int8_t*>(value_scales + positions)),
        values(keys + positions * D) {}

  template <class T>
  void store(std::int64_t place, const T* key, const T* value, std::int64_t D) const {
    const Int8Vector<E> to_key(key, D), to_value(value, D);
    key_scales[place] = to_key.scale;
    value_scales[place] = to_value.scale;
    for (std::int64_t d = 0; d < D; ++d) keys[d * positions + place] = to_key(key[d]);
    for (std::int64_t d = 0; d < D; ++d) values[place * D + d] = to_value(value[d]);
  }

  E* key_scales;
  E* value_scales;
  std::int8_t* keys;
  std::int8_t* values;
};

/// Returns a vector of the first `count` numbers at `from`; its other lanes are 0.
template <class V, class S>
REEF_ALWAYS_INLINE V load_first(const S* from, std::int64_t count) {
  if constexpr (std::is_same_v<S, std::int8_t>) {
    if (count >= V::width) return V::load(from);
    std::int8_t part[V::width] = {};
    std::copy_n(from, count, part);
    return V::load(static_cast<const std::int8_t*>(part));
  } else {
    return V::load(from, count);
  }
}

/// A function that computes attention scores of the 64 positions of a cache page: scores[i] = scale * (q . key(i)),
/// each by fma over the D channels in ascending order.
struct PageScores {
  template <class V, class E, class Page>
  void run(E* scores, const E* q, const Page& page, std::int64_t D, E scale) const {
    constexpr std::int64_t at_once = 4 * V::width;
    const auto scaled = [&](const V& sum, std::int64_t i) {
      if constexpr (Page::is_scaled) return sum * V::load(page.key_scales + i) * V(scale);
      else return sum * V(scale);
    };
    for (std::int64_t i = 0; i < Page::positions; i += at_once) {
      V a(E(0)), b(E(0)), c(E(0)), d(E(0));
      for (std::int64_t k = 0; k < D; ++k) {
        const V x(q[k]);
        const auto* const row = page.keys + k * Page::positions + i;
        a = fma(x, V::load(row), a);
        b = fma(x, V::load(row + V::width), b);
        c = fma(x, V::load(row + 2 * V::width), c);
        d = fma(x, V::load(row + 3 * V::width), d);
      }
      scaled(a, i).store(scores + i);
      scaled(b, i + V::width).store(scores + i + V::width);
      scaled(c, i + 2 * V::width).store(scores + i + 2 * V::width);
      scaled(d, i + 3 * V::width).store(scores + i + 3 * V::width);
    }
  }
};

/// A function that adds the values of a cache page's positions [first, last), each times its probability p[i], in
/// ascending order, to the D numbers at `out`.
struct PageSum {
  template <class V, class E, class Page>
  void run(E* out, const E* p, const Page& page, std::int64_t D, std::int64_t first, std::int64_t last) const {
    const auto share = [&](std::int64_t i) {
      if constexpr (Page::is_scaled) return V(p[i]) * V(page.value_scales[i]);
      else return V(p[i]);
    };
    for (std::int64_t n = 0; n < D; n += 4 * V::width) {
      const std::int64_t left = D - n;
      const auto place = [&](std::int64_t v) { return (std::max)(std::int64_t{0}, left - v * V::width); };
      E* const to = out + n;
      V a = V::load(to, place(0));
      V b = place(1) == 0 ? V(E(0)) : V::load(to + V::width, place(1));
      V c = place(2) == 0 ? V(E(0)) : V::load(to + 2 * V::width, place(2));
      V d = place(3) == 0 ? V(E(0)) : V::load(to + 3 * V::width, place(3));
      if (left >= 4 * V::width) {
        for (std::int64_t i = first; i < last; ++i) {
          const V x = share(i);
          const auto* const row = page.values + i * D + n;
          a = fma(x, V::load(row), a);
          b = fma(x, V::load(row + V::width), b);
          c = fma(x, V::load(row + 2 * V::width), c);
          d = fma(x, V::load(row + 3 * V::width), d);
        }
      } else {
        for (std::int64_t i = first; i < last; ++i) {
          const V x = share(i);
          const auto* const row = page.values + i * D + n;
          a = fma(x, load_first<V>(row, place(0)), a);
          if (place(1) != 0) b = fma(x, load_first<V>(row + V::width, place(1)), b);
          if (place(2) != 0) c = fma(x, load_first<V>(row + 2 * V::width, place(2)), c);
        }
      }
      a.store(to, place(0));
      if (place(1) != 0) b.store(to + V::width, place(1));
      if (place(2) != 0) c.store(to + 2 * V::width, place(2));
      if (place(3) != 0) d.store(to + 3 * V::width, place(3));
    }
  }
};

/// A function that replaces p[i] by exp(p[i] - largest) for `count` attention scores, a multiple of 64, and writes
/// their sum to *total.
struct RowExponentials {
  template <class V, class E>
  void run(E* p, std::int64_t count, E* total) const {
    V most(p[0]);
    for (std::int64_t i = 0; i < count; i += V::width) most = larger(V::load(p + i), most);
    const V shift(largest(most));
    SixteenSums<V> sums;
    sums.over(count, [&](const V& sum, std::int64_t i, std::int64_t /*left*/) {
      const V value = exp(V::load(p + i) - shift);
      value.store(p + i);
      return sum + value;
    });
    *total = sums.total();
  }
};

}  // namespace detail

/// The kernels of attention of rows (tokens) over the keys and values in the cache pages of their sequences. The rows'
/// own keys and values are stored first; then a task is one row and one group of heads that share keys.
struct RowsAttention {
  /// Returns the bytes of one position's keys and values in G heads of D columns.
  template <real T>
  static Bytes rows_attention_state(std::int64_t G, std::int64_t D, graph::StateForm form) {
    return static_cast<Bytes>(G) * with_form<T>(form, [&](auto page) { return decltype(page)::type::bytes(D); });
  }

  /// Returns the bytes of scratch memory for attention over sequences of at most `positions` positions.
  template <real T>
  static Bytes rows_attention_workspace(std::int64_t /*R*/, std::int64_t /*H*/, std::int64_t D, std::int64_t positions,
                                        int threads) {
    return static_cast<Bytes>(threads) * slot<T>(D, positions);
  }

  template <real T>
  static void rows_attention(device::Host::Lane& lane, T* out, const T* q, const T* k, const T* v, std::int64_t ld_q,
                             std::int64_t ld_kv, std::span<const graph::Row> rows, std::span<const graph::Pages> pages,
                             Bytes offset, std::int64_t H, std::int64_t G, std::int64_t D, std::int64_t window,
                             bool alibi, const graph::RowOptions& options, void* workspace) {
    with_form<T>(options.states, [&](auto form) {
      using Page = typename decltype(form)::type;
      const auto R = std::ssize(rows);
      const auto page_of = [&](const graph::Row& row, std::int64_t page, std::int64_t g) {
        std::byte* const state = pages[static_cast<std::size_t>(row.sequence)][static_cast<std::size_t>(page)] + offset;
        return Page(state + static_cast<Bytes>(g * block) * Page::bytes(D), D);
      };
      device::for_each_block(lane, R, 16, [&](std::int64_t begin, std::int64_t end) {
        for (std::int64_t r = begin; r < end; ++r) {
          const graph::Row& row = rows[static_cast<std::size_t>(r)];
          for (std::int64_t g = 0; g < G; ++g) {
            page_of(row, row.position / block, g)
                .store(row.position % block, k + r * ld_kv + g * D, v + r * ld_kv + g * D, D);
          }
        }
      });
      const std::int64_t shared_by = H / G;
      device::for_each_in_slots(lane, R * G, [&](std::int64_t slot_of, std::int64_t task) {
        const std::int64_t r = task / G;
        const std::int64_t g = task % G;
        const graph::Row& row = rows[static_cast<std::size_t>(r)];
        detail::Scratch scratch = detail::Scratch::of(workspace, slot_of, slot<T>(D, options.positions));
        for (std::int64_t i = 0; i < shared_by; ++i) {
          const std::int64_t h = g * shared_by + i;
          const double slope = alibi ? nn::detail::alibi_slope(h, H) : 0;
          attend<T>(out + r * H * D + h * D, q + r * ld_q + h * D, D, window, slope, row.position,
                    [&](std::int64_t page) { return page_of(row, page, g); }, scratch);
        }
      });
    });
  }

private:
  static constexpr std::int64_t block = graph::page_positions;

  template <real T>
  static Bytes slot(std::int64_t D, std::int64_t positions) {
    using E = sum_t<T>;
    const std::int64_t places = (positions + block - 1) / block * block;
    return detail::Scratch::bytes<E>(places) + 2 * detail::Scratch::bytes<E>(D);
  }

  // Calls use(std::type_identity<Page>) with the type of pages that store states in this form.
  template <real T, class Use>
  static auto with_form(graph::StateForm form, const Use& use) {
    switch (form) {
      case graph::StateForm::bf16: return use(std::type_identity<detail::HeadPage<Bfloat16>>());
      case graph::StateForm::int8: return use(std::type_identity<detail::Int8HeadPage<sum_t<T>>>());
      case graph::StateForm::as_given: break;
    }
    return use(std::type_identity<detail::HeadPage<T>>());
  }

  // Computes one head of one row; `slope` is that of ALiBi, or 0. page(i) returns the head's keys and values at
  // positions 64 i to 64 i + 63.
  template <real T, class Page>
  static void attend(T* out, const T* q, std::int64_t D, std::int64_t window, double slope, std::int64_t position,
                     const Page& page, detail::Scratch scratch) {
    using E = sum_t<T>;
    const std::int64_t first = window == 0 ? 0 : (std::max)(std::int64_t{0}, position + 1 - window);
    const std::int64_t first_page = first / block;
    const std::int64_t last_page = position / block;
    const std::int64_t count = (last_page + 1 - first_page) * block;
    E* const p = scratch.take<E>(count);
    E* const wide = scratch.take<E>(D);
    E* const sums = scratch.take<E>(D);
    for (std::int64_t d = 0; d < D; ++d) wide[d] = static_cast<E>(q[d]);
    const E scale = E(1) / std::sqrt(static_cast<E>(D));
    for (std::int64_t i = first_page; i <= last_page; ++i) {
      device::run_vectors<E>(detail::PageScores{}, p + (i - first_page) * block, static_cast<const E*>(wide), page(i),
                             D, scale);
    }
    const std::int64_t start = first_page * block;
    if (slope != 0) {
      device::run_vectors<E>(detail::AlibiBias{}, p, std::int64_t{1}, count, count, start - position,
                             static_cast<E>(slope));
    }
    std::fill(p, p + (first - start), -std::numeric_limits<E>::infinity());
    std::fill(p + (position + 1 - start), p + count, -std::numeric_limits<E>::infinity());
    E total(0);
    device::run_vectors<E>(detail::RowExponentials{}, p, count, &total);
    std::fill_n(sums, D, E(0));
    for (std::int64_t i = first_page; i <= last_page; ++i) {
      const std::int64_t begin = i == first_page ? first - start : 0;
      const std::int64_t end = i == last_page ? position + 1 - last_page * block : block;
      device::run_vectors<E>(detail::PageSum{}, sums, static_cast<const E*>(p + (i - first_page) * block),
                             page(i), D, begin, end);
    }
    for (std::int64_t d = 0; d < D; ++d) out[d] = T(sums[d] / total);
  }
};

}  // namespace nn::host
}  // namespace v0
}  // namespace reef
