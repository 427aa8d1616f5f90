#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <type_traits>
#include <vector>

#include <reef/core/error.hpp>
#include <reef/schedule/program.hpp>

/// \file
/// Parts of an instruction's operand lists: of the values that an instruction reads, writes and accumulates into, in an
/// order that each kind's view (run/views.hpp) states.

namespace reef {
inline namespace v0 {
namespace run {

/// The way in which an instruction treats the sums that it computes: `Instruction::mode` of Backward, AddGradients,
/// FoldRank, Count and Evict.
///
/// | continues | adds to the sums, which are among the values that it accumulates into     |
/// | begins    | is the first to write the sums, which are among the values that it writes |
enum class SumMode : std::uint8_t { continues, begins };

inline bool begins_sum(const schedule::Instruction& instruction) {
  return instruction.mode == static_cast<std::uint8_t>(SumMode::begins);
}

/// Sets whether an instruction begins the sums that it computes (SumMode), or continues them. To be called before a
/// view, which names operands, adds room for them.
inline void set_sum_mode(schedule::Instruction& instruction, bool begins) {
  instruction.mode = static_cast<std::uint8_t>(begins ? SumMode::begins : SumMode::continues);
}

/// Returns true if an instruction has values that it reads and values that it writes, as any collective has.
inline bool has_operands(const schedule::Instruction& instruction) {
  return !instruction.reads.empty() && !instruction.writes.empty();
}

/// Consecutive values in one of an instruction's operand lists (reads, writes or accumulates). A Part refers to the
/// instruction, which must not be moved while the Part is used.
template <class List>
class Part {
public:
  Part() = default;
  Part(List& list, std::size_t first, std::size_t count)
      : list_(&list), first_(first), count_(count) {}

  [[nodiscard]] std::size_t size() const { return count_; }
  [[nodiscard]] bool empty() const { return count_ == 0; }
  [[nodiscard]] auto begin() const {
    if (list_ == nullptr) return decltype(list_->begin()){};
    return list_->begin() + static_cast<std::ptrdiff_t>(first_);
  }
  [[nodiscard]] auto end() const { return begin() + static_cast<std::ptrdiff_t>(count_); }
  [[nodiscard]] auto& operator[](std::size_t k) const { return (*list_)[first_ + k]; }
  [[nodiscard]] auto& front() const { return (*this)[0]; }

  /// Returns the range that has the k-th value alone.
  [[nodiscard]] Part one(std::size_t k) const { return {*list_, first_ + k, 1}; }

  /// Returns the instruction's operand list that contains the values; index_of(k) returns the index in it of the k-th
  /// value.
  [[nodiscard]] const std::vector<schedule::Value>* list() const { return list_; }
  [[nodiscard]] std::size_t index_of(std::size_t k) const { return first_ + k; }

  /// Returns a copy of the range's values.
  [[nodiscard]] std::vector<schedule::Value> values() const { return {begin(), end()}; }

  /// Replaces the range's values. Throws ScheduleError unless `values` has size() of them.
  void set(std::span<const schedule::Value> values) const
    requires(!std::is_const_v<List>)
  {
    if (values.size() != count_) {
      throw ScheduleError("reef::run: ", values.size(), " values for ", count_,
                          " operands.\n  fix: one for each operand of that part.");
    }
    std::copy(values.begin(), values.end(), begin());
  }

private:
  List* list_ = nullptr;
  std::size_t first_ = 0;
  std::size_t count_ = 0;
};

/// A range of an instruction's operands (Part); its values are const if Instr is.
template <class Instr>
using PartOf = Part<std::conditional_t<std::is_const_v<Instr>, const std::vector<schedule::Value>,
                                       std::vector<schedule::Value>>>;

/// The task of a view, which names an instruction's operands: to find its operands in the instruction, or to add room
/// for them to an instruction without any.
enum class Lists : std::uint8_t { found, added };

namespace detail {

inline constexpr const char* operands_remedy =
    ".\n  why: its code finds operands by their places.\n"
    "  fix: a pass that rewrites an instruction replaces operands where they are, by storages of "
    "their size.";

}  // namespace detail

/// A reader of an instruction's operand lists from front to back: each call returns the next values as a range. So a
/// view (the names of a kind's operands) states the order of its operands once, for the code that writes them, replaces
/// them, or finds them.
///
/// Throws ScheduleError if values are missing, or if there are more than the view has.
///
/// \code
/// template <class I>
/// struct BlendView {  // of an instruction of one's own: writes[0] = reads[0] + sum of the others
///   run::PartOf<I> base, terms, result;
///
///   BlendView(I& blend, std::size_t count, run::Lists lists = run::Lists::found) {
///     run::Layout layout(blend, lists);
///     base = layout.reads(1);
///     terms = layout.reads(count);
///     result = layout.writes(1);
///   }
/// };
/// \endcode
template <class Instr>
class Layout {
public:
  explicit Layout(Instr& instruction, Lists lists = Lists::found)
      : instruction_(instruction), lists_(lists) {}

  PartOf<Instr> reads(std::size_t count) {
    return take(instruction_.reads, reads_, count, "reads");
  }
  PartOf<Instr> writes(std::size_t count) {
    return take(instruction_.writes, writes_, count, "writes");
  }
  PartOf<Instr> accumulates(std::size_t count) {
    return take(instruction_.accumulates, accumulates_, count, "accumulates into");
  }
  /// Returns the next `count` values that the instruction sums into: of what it writes if its SumMode begins sums, else
  /// of what it accumulates into.
  PartOf<Instr> sums(std::size_t count) {
    return begins_sum(instruction_) ? writes(count) : accumulates(count);
  }

  /// Returns the remaining values that the instruction reads, for which it only waits, as for those in `after`.
  PartOf<Instr> further_reads() { return reads(instruction_.reads.size() - reads_); }

  /// Throws ScheduleError if the instruction writes, or accumulates into, values beyond those returned so far.
  void require_end_of_writes() const { require_end(instruction_.writes, writes_, "writes"); }
  void require_end_of_accumulates() const {
    require_end(instruction_.accumulates, accumulates_, "accumulates into");
  }

private:
  template <class List>
  PartOf<Instr> take(List& list, std::size_t& at, std::size_t count, const char* verb) {
    if constexpr (!std::is_const_v<Instr>) {
      if (lists_ == Lists::added) list.resize(at + count);
    }
    if (list.size() < at + count) {
      throw ScheduleError("reef::run: ", instruction_.text(), " ", verb, " ", list.size(),
                          " values, and needs more", detail::operands_remedy);
    }
    const std::size_t first = at;
    at += count;
    return {list, first, count};
  }

  void require_end(const std::vector<schedule::Value>& list, std::size_t at,
                   const char* verb) const {
    if (at == list.size()) return;
    throw ScheduleError("reef::run: ", instruction_.text(), " ", verb, " ", list.size(),
                        " values, and has a use for ", at, detail::operands_remedy);
  }

  Instr& instruction_;
  Lists lists_;
  std::size_t reads_ = 0;
  std::size_t writes_ = 0;
  std::size_t accumulates_ = 0;
};

}  // namespace run
}  // namespace v0
}  // namespace reef
