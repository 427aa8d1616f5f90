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
/// What a view of an instruction is made of: parts of what it reads, writes and accumulates into, in one order that
/// the view states. run/views.hpp has the views.

namespace reef {
inline namespace v0 {
namespace run {

/// How an instruction that adds to sums begins: `Instruction::mode` of Backward, AddGradients, FoldRank
/// and Count.
///
/// | continues | its sums are among what it accumulates into      |
/// | begins    | they are among what it writes: it is their first |
enum class SumMode : std::uint8_t { continues, begins };

inline bool begins_sum(const schedule::Instruction& instruction) {
  return instruction.mode == static_cast<std::uint8_t>(SumMode::begins);
}

/// Before a view makes room for its sums.
inline void set_sum_mode(schedule::Instruction& instruction, bool begins) {
  instruction.mode = static_cast<std::uint8_t>(begins ? SumMode::begins : SumMode::continues);
}

/// Some of the values that an instruction reads, writes or accumulates into, which stand there one after another.
/// It refers to the instruction, which stays where it is as long.
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

  /// The k-th alone.
  [[nodiscard]] Part one(std::size_t k) const { return {*list_, first_ + k, 1}; }

  /// In which list they are, and where in it the k-th stands.
  [[nodiscard]] const std::vector<schedule::Value>* list() const { return list_; }
  [[nodiscard]] std::size_t place(std::size_t k) const { return first_ + k; }

  /// The values as they are, beside the instruction.
  [[nodiscard]] std::vector<schedule::Value> values() const { return {begin(), end()}; }

  /// Other values in their places. Throws ScheduleError unless there are as many.
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

/// A part of an Instruction, or of a const one.
template <class Instr>
using PartOf = Part<std::conditional_t<std::is_const_v<Instr>, const std::vector<schedule::Value>,
                                       std::vector<schedule::Value>>>;

/// Whether a view finds its operands, or makes room for them: of an instruction that has none yet.
enum class Lists : std::uint8_t { found, added };

namespace detail {

inline constexpr const char* operands_remedy =
    ".\n  why: its code finds operands by their places.\n"
    "  fix: a pass that rewrites an instruction replaces operands where they are, by storages of "
    "their size.";

}  // namespace detail

/// Deals an instruction's values out to parts, in the order in which it is asked for them. So a view states the
/// order of its operands once, for who writes them, who replaces them and the code that finds them.
///
/// Throws ScheduleError where there are too few, or where a view is to have no more and there are.
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
  /// What it sums in, wherever its mode has that.
  PartOf<Instr> sums(std::size_t count) {
    return begins_sum(instruction_) ? writes(count) : accumulates(count);
  }

  /// There is no further value that it writes, or accumulates into. What else it reads, it waits for.
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
