#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <span>
#include <vector>

#include <reef/core/element.hpp>
#include <reef/core/error.hpp>
#include <reef/core/tensor_view.hpp>
#include <reef/core/units.hpp>
#include <reef/device/concept.hpp>
#include <reef/graph/rows.hpp>
#include <reef/nn/detail/open_sequences.hpp>
#include <reef/nn/host/rows.hpp>

namespace reef {
inline namespace v0 {
namespace nn {

/// Options of a PagedAttention: the shape of its heads, and the memory of its pages.
struct PagedAttentionOptions {
  std::int64_t heads = 1;         ///< H, the heads of queries
  std::int64_t kv_heads = 1;      ///< G, the heads of keys and values: a divisor of H
  std::int64_t head_size = 64;    ///< D, the channels of a head
  std::int64_t positions = 1024;  ///< the largest number of positions of a sequence
  std::int64_t sequences = 1;     ///< the number of sequences of `positions` that fit in memory, in pages of 64
  std::int64_t rows = 256;        ///< the largest number of new positions that are computed at once
  std::int64_t window = 0;        ///< the number of last positions that a position attends to; 0: all
  bool alibi = false;             ///< distances are subtracted from scores, as GroupedAttention::alibi does
  graph::StateForm states = graph::StateForm::as_given;  ///< the form of stored keys and values

  /// Throws OptionError, naming the first invalid member.
  void validate() const {
    const auto require_that = [](bool holds, const char* member, std::int64_t value, const char* range) {
      if (holds) return;
      throw OptionError("reef::nn::PagedAttentionOptions: ", member, " is ", value, ".\n  fix: ", range, ".");
    };
    require_that(heads >= 1, "heads", heads, "1 or more");
    require_that(kv_heads >= 1 && heads % kv_heads == 0, "kv_heads", kv_heads, "a divisor of heads");
    require_that(head_size >= 1, "head_size", head_size, "1 or more");
    require_that(positions >= 1, "positions", positions, "1 or more");
    require_that(sequences >= 1, "sequences", sequences, "1 or more");
    require_that(rows >= 1, "rows", rows, "1 or more");
    require_that(window >= 0, "window", window, "0 for all positions, or more");
  }
};

/// New positions of a sequence of a PagedAttention.
struct NewPositions {
  int sequence = 0;
  std::int64_t count = 1;
};

/// Causal attention over keys and values that are kept in pages of 64 positions, without a model: sequences grow, fork
/// and are truncated as in a Session.
///
///     out[t] = sum over s <= t of softmax(q[t] k[s] / sqrt(D)) v[s];  t: a new position, s: the sequence's positions
///
/// | shape  | q, out: (R, H, D); k, v: (R, G, D), on the device; R: the new positions of all sequences of a call    |
/// | bits   | a position's result depends on its sequence alone: not on how positions are split into calls, on      |
/// |        | other sequences, forks, truncations or threads                                                        |
/// | memory | pages: 2 G D numbers a position, in the form of `states`, allocated once; a fork copies a page when   |
/// |        | one of the two writes to that page                                                                    |
/// | cost   | 4 H D s operations for a position that attends to s                                                   |
/// | errors | OptionError for a sequence that is not open or stands twice in a call, one beyond its positions, or   |
/// |        | when pages run out; ShapeError; MemoryError. After any of these errors, sequences are as before       |
///
/// The device must outlive the PagedAttention, which one thread may use at a time.
///
/// Source: Kwon et al., Efficient memory management for large language model serving with PagedAttention,
/// arXiv 2309.06180, section 4.
///
/// \code
/// device::Host host;
/// nn::PagedAttention<device::Host, float> attention(host, {.heads = 4, .kv_heads = 2, .head_size = 16});
/// const int sequence = attention.open();
/// std::vector<float> q(4 * 16), k(2 * 16), v(2 * 16), out(4 * 16);  // of one new position
/// attention.append({out.data(), {1, 4, 16}}, {q.data(), {1, 4, 16}}, {k.data(), {1, 2, 16}}, {v.data(), {1, 2, 16}},
///                  {{sequence, 1}});
/// \endcode
template <device::device Device, real T>
class PagedAttention {
public:
  /// Allocates the pages on the device.
  explicit PagedAttention(Device& device, const PagedAttentionOptions& options = {})
      : options_(checked(options)),
        threads_(device.threads()),
        page_bytes_(round_up(Bytes{graph::page_positions} * Kernels::template rows_attention_state<T>(
                                                                options.kv_heads, options.head_size, options.states),
                             64)),
        sequences_(options.sequences * detail::OpenSequences::pages_of(options.positions), "PagedAttention"),
        pages_(device.allocate(page_bytes_ * static_cast<Bytes>(sequences_.pages()), "pages of sequences")),
        workspace_(device.allocate(
            Kernels::template rows_attention_workspace<T>(options.rows, options.heads, options.head_size,
                                                          options.positions, threads_),
            "workspace")),
        lane_(device, "attention") {}

  /// Opens an empty sequence; returns its number.
  int open() { return sequences_.open(); }
  /// Opens a copy of a sequence, which shares its pages; returns its number.
  int fork(int sequence) { return sequences_.fork(sequence); }
  /// Closes a sequence; its pages are free again.
  void close(int sequence) { sequences_.close(sequence); }
  /// Removes all positions of a sequence from `length` on.
  void truncate(int sequence, std::int64_t length) { sequences_.truncate(sequence, length); }
  /// Returns the number of positions of a sequence.
  [[nodiscard]] std::int64_t length(int sequence) const { return sequences_.at(sequence).length; }
  /// Returns the number of positions in pages that no sequence uses.
  [[nodiscard]] std::int64_t free_positions() const {
    return static_cast<std::int64_t>(sequences_.free_pages()) * graph::page_positions;
  }

  /// Stores keys and values of new positions, those of appends[0] first, and writes their attention to `out`.
  void append(TensorView<T> out, TensorView<const T> q, TensorView<const T> k, TensorView<const T> v,
              std::span<const NewPositions> appends) {
    const std::vector<detail::OpenSequences::Growth> growths = require_valid(out, q, k, v, appends);
    const std::vector<detail::OpenSequences::PageCopy> copies = sequences_.reserve(growths);
    std::span<const detail::OpenSequences::PageCopy> undone_by_failure = copies;
    try {
      for (const auto& copy : copies) {
        run([&](Lane& lane) {
          lane.copy(address_of(copy.to), address_of(copy.from), page_bytes_, device::Copy::on_device);
        });
      }
      undone_by_failure = {};  // a sequence that keeps a page may write to where its former sharers have their numbers
      attend(out, q, k, v, growths);
    } catch (...) {
      sequences_.give_back(growths, undone_by_failure);
      throw;
    }
    sequences_.commit(growths);
  }
  void append(TensorView<T> out, TensorView<const T> q, TensorView<const T> k, TensorView<const T> v,
              std::initializer_list<NewPositions> appends) {
    append(out, q, k, v, std::span<const NewPositions>(appends.begin(), appends.size()));
  }

private:
  using Lane = typename Device::Lane;
  using Kernels = RowKernels<Device>;
  using Growths = std::vector<detail::OpenSequences::Growth>;

  static const PagedAttentionOptions& checked(const PagedAttentionOptions& options) {
    options.validate();
    return options;
  }

  Growths require_valid(TensorView<T> out, TensorView<const T> q, TensorView<const T> k, TensorView<const T> v,
                        std::span<const NewPositions> appends) const {
    Growths growths;
    std::int64_t R = 0;
    for (const NewPositions& append : appends) {
      const std::int64_t length = this->length(append.sequence) + append.count;
      if (append.count < 1 || length > options_.positions) {
        throw OptionError("reef::nn::PagedAttention: sequence ", append.sequence, " is given ", append.count,
                          " positions and would have ", length, ", of at most ", options_.positions,
                          ".\n  fix: one or more, and no more than PagedAttentionOptions::positions in all.");
      }
      if (std::any_of(growths.begin(), growths.end(),
                      [&](const auto& growth) { return growth.sequence == append.sequence; })) {
        throw OptionError("reef::nn::PagedAttention: sequence ", append.sequence,
                          " stands twice in one call.\n  fix: all of its positions at once.");
      }
      growths.push_back({append.sequence, append.count});
      R += append.count;
    }
    const auto require_size = [&](const char* name, const Shape& shape, std::int64_t heads) {
      if (shape.size() == R * heads * options_.head_size) return;
      throw ShapeError("reef::nn::PagedAttention: ", name, " is ", shape.text(), ", expected (", R, ", ", heads, ", ",
                       options_.head_size, ") for ", R,
                       " new positions.\n  fix: all rows of all sequences of the call.");
    };
    require_size("out", out.shape(), options_.heads);
    require_size("q", q.shape(), options_.heads);
    require_size("k", k.shape(), options_.kv_heads);
    require_size("v", v.shape(), options_.kv_heads);
    return growths;
  }

  /// Runs the rows of all growths, at most options.rows at once.
  void attend(TensorView<T> out, TensorView<const T> q, TensorView<const T> k, TensorView<const T> v,
              const Growths& growths) {
    std::vector<std::vector<std::byte*>> addresses;
    std::vector<graph::Row> rows;
    for (const auto& growth : growths) {
      const auto& sequence = sequences_.at(growth.sequence);
      auto& list = addresses.emplace_back();
      for (const auto page : sequence.pages) list.push_back(address_of(page));
      for (std::int64_t i = 0; i < growth.tokens; ++i) {
        rows.push_back({static_cast<int>(addresses.size()) - 1, sequence.length + i});
      }
    }
    const std::vector<graph::Pages> tables(addresses.begin(), addresses.end());
    const std::int64_t of_query = options_.heads * options_.head_size;
    const std::int64_t of_key = options_.kv_heads * options_.head_size;
    for (std::int64_t first = 0; first < std::ssize(rows); first += options_.rows) {
      const std::int64_t count = (std::min)(options_.rows, std::ssize(rows) - first);
      const std::span<const graph::Row> part =
          std::span(rows).subspan(static_cast<std::size_t>(first), static_cast<std::size_t>(count));
      run([&](Lane& lane) {
        Kernels::template rows_attention<T>(
            lane, out.data() + first * of_query, q.data() + first * of_query, k.data() + first * of_key,
            v.data() + first * of_key, of_query, of_key, part, tables, 0, options_.heads, options_.kv_heads,
            options_.head_size, options_.window, options_.alibi,
            graph::RowOptions{.positions = options_.positions, .states = options_.states}, workspace_.data());
      });
    }
  }

  template <class F>
  void run(const F& work) {
    lane_.submit([&work](Lane& lane) { work(lane); });
    lane_.synchronize();
  }

  [[nodiscard]] std::byte* address_of(detail::OpenSequences::Page page) {
    return static_cast<std::byte*>(pages_.data()) + static_cast<Bytes>(page) * page_bytes_;
  }

  PagedAttentionOptions options_;
  int threads_;
  Bytes page_bytes_;
  detail::OpenSequences sequences_;
  typename Device::Buffer pages_;
  typename Device::Buffer workspace_;
  Lane lane_;
};

}  // namespace nn
}  // namespace v0
}  // namespace reef
