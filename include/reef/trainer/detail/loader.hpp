#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <limits>
#include <span>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include <reef/core/element.hpp>
#include <reef/core/error.hpp>
#include <reef/core/numbers.hpp>
#include <reef/core/shape.hpp>
#include <reef/core/text.hpp>
#include <reef/core/units.hpp>
#include <reef/graph/dag.hpp>
#include <reef/io/checkpoint_folders.hpp>
#include <reef/io/manifest.hpp>
#include <reef/run/state_range.hpp>
#include <reef/trainer/model_state.hpp>

namespace reef {
inline namespace v0 {
namespace checkpoint::detail {

/// A range's tensor is named after it and where it begins: "state.0.from.8192".
inline std::string stem_of(const run::StateRange& range) { return range.name + ".from."; }

inline std::int64_t offset_after(const std::string& name, std::size_t at) {
  const auto value = parse_number<std::int64_t>(std::string_view(name).substr(at));
  if (!value || *value < 0) {
    throw DecodeError("reef::checkpoint: '", name,
                      "' is no name of an optimizer's state.\n  fix: ", io::checkpoint_fix);
  }
  return *value;
}

/// Fills a training from the shards of a checkpoint, whatever the number of ranks that wrote it. What it
/// takes is read twice: first all is checked, and the training unchanged if something is wrong; then it
/// is filled. So it needs memory for a piece of a tensor alone.
class Loader {
public:
  /// `ranges` are the state to be filled.
  Loader(const graph::Dag& dag, ModelState& state, std::vector<run::StateRange> ranges)
      : dag_(dag), state_(state), ranges_(std::move(ranges)) {
    filled_.resize(ranges_.size());
    has_parameter_.resize(parameters().size());
  }

  /// `wrote`, `reads`: the optimizers of the checkpoint and of the training.
  void check_shards(const std::filesystem::path& folder, const std::vector<io::Shard>& shards,
                    const std::string& source, std::string_view wrote, std::string_view reads) {
    for (const io::Shard& shard : shards) read(folder, shard);
    const auto require_that = [&](bool is_whole, const std::string& name) {
      if (is_whole) return;
      throw DecodeError("reef::checkpoint::resume: ", source, ", written by ", wrote,
                        ", does not hold all parameters and state that ", reads,
                        " needs: there is no whole '", name, "'.\n  fix: resume with ", wrote,
                        ", and with the model and options that the run was started with.");
    };
    for (std::size_t p = 0; p < has_parameter_.size(); ++p) {
      require_that(has_parameter_[p], parameters()[p].name);
    }
    for (std::size_t i = 0; i < ranges_.size(); ++i) {
      require_that(covers(ranges_[i], filled_[i]), ranges_[i].name);
    }
    checked_ = true;
  }

  /// After check_shards. Parameters first: they set the master weights too, which the state has exactly.
  void fill(const std::filesystem::path& folder, const std::vector<io::Shard>& shards) {
    for (const bool model : {true, false}) {
      for (const io::Shard& shard : shards) {
        if (is_model(shard) == model) read(folder, shard);
      }
    }
  }

private:
  using Interval = std::pair<std::int64_t, std::int64_t>;

  [[nodiscard]] const std::vector<graph::Parameter>& parameters() const { return dag_.parameters; }

  static bool is_model(const io::Shard& shard) {
    return shard.file.starts_with(io::model_stem);
  }

  // Each element of the range was there once.
  static bool covers(const run::StateRange& range, std::vector<Interval>& parts) {
    std::sort(parts.begin(), parts.end());
    std::int64_t next = range.begin;
    for (const auto& [from, to] : parts) {
      if (from != next) return false;
      next = to;
    }
    return next == range.begin + range.elements;
  }

  void read(const std::filesystem::path& folder, const io::Shard& expected) {
    const io::CheckedShard shard(folder, expected);
    for (const io::StoredTensor& tensor : shard.file().tensors()) {
      is_model(expected) ? read_parameter(shard, tensor) : read_state(shard, tensor);
    }
  }

  void read_parameter(const io::CheckedShard& shard, const io::StoredTensor& tensor) {
    const auto found = std::ranges::find(parameters(), tensor.name, &graph::Parameter::name);
    const auto id = static_cast<std::size_t>(found - parameters().begin());
    const bool is_none = found == parameters().end();
    if (is_none || (!checked_ && has_parameter_[id])) {
      throw DecodeError("reef::checkpoint: '", tensor.name, "' is ",
                        is_none ? "no parameter of the model" : "there twice",
                        ".\n  fix: ", io::checkpoint_fix);
    }
    has_parameter_[id] = true;
    if (!state_.holds(id)) return;
    const Element element = state_.facts().element;
    const auto set = [&](Bytes offset, std::span<const std::byte> bytes) {
      if (checked_)
        state_.set_weights(tensor.name, static_cast<std::int64_t>(offset / size_of(element)), bytes, element);
    };
    shard.read(
        tensor.name, found->spec.shape, element, [&](Bytes, Bytes size) { return piece(size); }, set);
  }

  void read_state(const io::CheckedShard& shard, const io::StoredTensor& tensor) {
    std::vector<const run::StateRange*> takers;
    std::int64_t begin = 0;
    for (std::size_t i = 0; i < ranges_.size(); ++i) {
      const run::StateRange& range = ranges_[i];
      const std::string stem = stem_of(range);
      if (!tensor.name.starts_with(stem) || tensor.shape.size() != 1) continue;
      begin = offset_after(tensor.name, stem.size());
      const std::int64_t size = tensor.shape[0];
      if (begin > (std::numeric_limits<std::int64_t>::max)() - size) {
        throw DecodeError("reef::checkpoint: '", tensor.name,
                          "' begins beyond any model.\n  fix: ", io::checkpoint_fix);
      }
      const std::int64_t from = (std::max)(begin, range.begin);
      const std::int64_t to = (std::min)(begin + size, range.begin + range.elements);
      if (from >= to) continue;
      takers.push_back(&range);
      filled_[i].emplace_back(from, to);
    }
    if (!takers.empty()) read_parts(shard, tensor, begin, takers);
  }

  /// What ranges have of a tensor that holds the elements from `begin` on: straight to where it is, if
  /// the host can write there, and the piece is of one range alone.
  void read_parts(const io::CheckedShard& shard, const io::StoredTensor& tensor, std::int64_t begin,
                  const std::vector<const run::StateRange*>& takers) {
    const Element element = takers.front()->element;
    const auto width = static_cast<std::int64_t>(size_of(element));
    // Where a range lies, in bytes of the tensor.
    const auto first_of = [&](const run::StateRange& range) {
      return (range.begin - begin) * width;
    };
    const auto last_of = [&](const run::StateRange& range) {
      return first_of(range) + range.elements * width;
    };
    const auto room = [&](Bytes offset, Bytes size) {
      const auto at = static_cast<std::int64_t>(offset);
      for (const run::StateRange* const range : takers) {
        const bool inside =
            first_of(*range) <= at && at + static_cast<std::int64_t>(size) <= last_of(*range);
        std::byte* const memory = checked_ && inside ? state_.host_memory(*range) : nullptr;
        if (memory != nullptr) return memory + (at - first_of(*range));
      }
      return piece(size);
    };
    const auto set = [&](Bytes offset, std::span<const std::byte> bytes) {
      if (!checked_ || bytes.data() != piece_.data()) return;
      const auto at = static_cast<std::int64_t>(offset);
      for (const run::StateRange* const range : takers) {
        const std::int64_t from = (std::max)(at, first_of(*range));
        const std::int64_t to =
            (std::min)(at + static_cast<std::int64_t>(bytes.size()), last_of(*range));
        if (from >= to) continue;
        state_.write(*range, static_cast<Bytes>(from - first_of(*range)),
                           bytes.subspan(static_cast<std::size_t>(from - at),
                                         static_cast<std::size_t>(to - from)));
      }
    };
    shard.read(tensor.name, Shape{tensor.shape[0]}, element, room, set);
  }

  std::byte* piece(Bytes size) {
    piece_.resize((std::max)(piece_.size(), static_cast<std::size_t>(size)));
    return piece_.data();
  }

  const graph::Dag& dag_;
  ModelState& state_;
  std::vector<run::StateRange> ranges_;
  std::vector<std::vector<Interval>> filled_;
  std::vector<bool> has_parameter_;
  std::vector<std::byte> piece_;
  bool checked_ = false;
};

}  // namespace checkpoint::detail
}  // namespace v0
}  // namespace reef
