#pragma once

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <filesystem>
#include <limits>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include <reef/comm/gather.hpp>
#include <reef/comm/shared_counter.hpp>
#include <reef/core/text.hpp>
#include <reef/device/instruction_set.hpp>
#include <reef/graph/hash.hpp>
#include <reef/io/manifest.hpp>
#include <reef/trainer/detail/agreement.hpp>
#include <reef/trainer/trainer.hpp>

namespace reef::inline v0::checkpoint {

namespace detail {

inline constexpr const char* model_stem = "model";

/// Runs `work` on every rank and throws on all what it failed of on any: nobody goes on alone.
template <class F>
void together(comm::Progress& progress, const std::string& what, const F& work) {
  std::string failure;
  try {
    work();
  } catch (const std::exception& error) {
    failure = error.what();
  }
  const auto failures = comm::gather_texts(progress, what, failure);
  std::string first;
  for (std::size_t rank = 0; rank < failures.size() && first.empty(); ++rank) {
    if (failures[rank].empty()) continue;
    first = concat("reef::checkpoint: ", what, " failed on rank ", rank, ": ", failures[rank]);
  }
  first = comm::broadcast_text(progress, what + " (failure)", std::move(first));
  if (!first.empty()) throw FileError(first);
}

/// A range's tensor is named after it and where it begins: "state.0.from.8192".
inline std::string stem_of(const optim::StateRange& range) { return range.name + ".from."; }

inline std::int64_t offset_after(const std::string& name, std::size_t at) {
  std::int64_t value = 0;
  const char* const last = name.data() + name.size();
  const auto [end, error] = std::from_chars(name.data() + at, last, value);
  if (error != std::errc() || end != last || value < 0) {
    throw DecodeError("reef::checkpoint: '", name,
                      "' is no name of an optimizer's state.\n  fix: ", io::checkpoint_fix);
  }
  return value;
}

/// The tensors of one file of a checkpoint, copied out of a trainer.
class Shard {
public:
  /// Memory for the elements of a tensor, to be filled.
  void* add(const std::string& name, const Shape& shape, Element element) {
    values_.emplace_back(static_cast<Bytes>(shape.size()) * size_of(element));
    tensors_.push_back({name, {values_.back().data(), shape, element}});
    return values_.back().data();
  }
  [[nodiscard]] bool empty() const { return tensors_.empty(); }
  [[nodiscard]] io::Json write(const std::filesystem::path& path) const {
    return io::to_json(io::write_safetensors(path, tensors_));
  }

private:
  std::vector<std::vector<std::byte>> values_;  // moving a vector leaves its bytes where they are
  std::vector<io::NamedView> tensors_;
};

/// Fills a trainer from the shards of a checkpoint, whatever the number of ranks that wrote it.
template <class TrainerType>
class Loader {
  using T = typename TrainerType::T;
  using Sum = typename TrainerType::Sum;

public:
  explicit Loader(TrainerType& trainer) : trainer_(trainer), ranges_(trainer.state_ranges()) {
    for (const auto& range : ranges_)
      states_.emplace_back(static_cast<Bytes>(range.elements) * size_of(range.element));
    filled_.resize(ranges_.size());
    has_parameter_.resize(trainer_.model().dag().parameters.size());
  }

  void read(const io::CheckedShard& shard, bool is_model) {
    for (const io::StoredTensor& tensor : shard.file().tensors()) {
      is_model ? read_parameter(shard, tensor) : read_state(shard, tensor);
    }
  }

  /// Sets the state; throws DecodeError unless everything was there.
  void finish(const std::string& source) {
    bool complete =
        std::find(has_parameter_.begin(), has_parameter_.end(), false) == has_parameter_.end();
    for (std::size_t i = 0; i < ranges_.size(); ++i) {
      complete = complete && covers(ranges_[i], filled_[i]);
    }
    if (!complete) {
      throw DecodeError("reef::checkpoint::resume: ", source,
                        " does not hold all parameters and state of this model and optimizer.\n"
                        "  fix: resume with those that the run was started with.");
    }
    for (std::size_t i = 0; i < ranges_.size(); ++i)
      trainer_.set_state(ranges_[i], states_[i].data());
  }

private:
  using Interval = std::pair<std::int64_t, std::int64_t>;

  // Each element of the range was there once.
  static bool covers(const optim::StateRange& range, std::vector<Interval>& parts) {
    std::sort(parts.begin(), parts.end());
    std::int64_t next = range.begin;
    for (const auto& [from, to] : parts) {
      if (from != next) return false;
      next = to;
    }
    return next == range.begin + range.elements;
  }

  void read_parameter(const io::CheckedShard& shard, const io::StoredTensor& tensor) {
    const graph::Dag& dag = trainer_.model().dag();
    const int id = dag.parameter(tensor.name);
    const Shape& shape = dag.parameter_at(id).spec.shape;
    if (has_parameter_[static_cast<std::size_t>(id)]) {
      throw DecodeError("reef::checkpoint: '", tensor.name,
                        "' is there twice.\n  fix: copy the checkpoint again.");
    }
    has_parameter_[static_cast<std::size_t>(id)] = true;
    std::vector<T> values(static_cast<std::size_t>(shape.size()));
    shard.read(tensor.name, {values.data(), shape, element_of<T>});
    trainer_.set_parameter(tensor.name, std::vector<Sum>(values.begin(), values.end()));
  }

  void read_state(const io::CheckedShard& shard, const io::StoredTensor& tensor) {
    for (std::size_t i = 0; i < ranges_.size(); ++i) {
      const std::string stem = stem_of(ranges_[i]);
      if (!tensor.name.starts_with(stem) || tensor.shape.size() != 1) continue;
      const std::int64_t begin = offset_after(tensor.name, stem.size());
      const std::int64_t size = tensor.shape[0];
      if (begin > std::numeric_limits<std::int64_t>::max() - size) {
        throw DecodeError("reef::checkpoint: '", tensor.name,
                          "' begins beyond any model.\n  fix: ", io::checkpoint_fix);
      }
      const std::int64_t from = std::max(begin, ranges_[i].begin);
      const std::int64_t to = std::min(begin + size, ranges_[i].begin + ranges_[i].elements);
      if (from >= to) continue;
      const Element element = ranges_[i].element;
      const auto bytes = static_cast<std::ptrdiff_t>(size_of(element));
      std::vector<std::byte> values(static_cast<Bytes>(size) * size_of(element));
      shard.read(tensor.name, {values.data(), Shape{size}, element});
      std::copy(values.begin() + (from - begin) * bytes, values.begin() + (to - begin) * bytes,
                states_[i].begin() + (from - ranges_[i].begin) * bytes);
      filled_[i].emplace_back(from, to);
    }
  }

  TrainerType& trainer_;
  std::vector<optim::StateRange> ranges_;
  std::vector<std::vector<std::byte>> states_;
  std::vector<std::vector<Interval>> filled_;
  std::vector<bool> has_parameter_;
};

template <class TrainerType>
void require_same_run(const TrainerType& trainer, const io::Json& facts,
                      const std::string& source) {
  const auto expect = [&](const char* fact, const auto& wanted) {
    using Fact = std::remove_cvref_t<decltype(wanted)>;
    if (io::require<Fact>(facts, fact, source) == wanted) return;
    throw DecodeError("reef::checkpoint::resume: ", source, " was written with another ", fact,
                      ".\n  fix: resume with the options that the run was started with, or give "
                      "another directory.");
  };
  expect("rule", std::string(TrainerType::Rule::name));
  expect("element", std::string(name_of(element_of<typename TrainerType::T>)));
  expect("seed", trainer.progress_state().seed);
  expect("model", graph::hash_of(trainer.model().dag()));
}

}  // namespace detail

/// Writes what a resume needs to DIRECTORY/step-N: rank 0 the parameters by their names, every rank
/// its optimizer state, with the gradient that is pending if rounds overlap, and last, when all are on
/// the disk, rank 0 the manifest. The trainer's weights are settled.
///
/// | who    | all ranks, between steps, with the same directory on a file system that they share   |
/// | files  | model.safetensors, optimizer-R.safetensors, manifest.json with a checksum per tensor |
/// | facts  | what the caller wants back from resume                                               |
/// | errors | FileError on every rank; without a manifest the folder is no checkpoint, and older   |
/// |        | ones, also one of this step, are unchanged                                           |
template <class... Policies>
std::filesystem::path save(Trainer<Policies...>& trainer, const std::filesystem::path& directory,
                           const io::Json& facts = io::Json::object()) {
  using T = typename Trainer<Policies...>::T;
  const run::StepState& state = trainer.progress_state();
  const auto folder = io::checkpoint_folder(directory, static_cast<std::uint64_t>(state.committed));
  const bool first = trainer.rank() == 0;
  trainer.settle();
  const comm::CounterState micro_batches = trainer.new_micro_batches();

  // A checkpoint of this step may be there already: it stays whole until the new manifest takes the
  // place of its own.
  detail::together(trainer.progress(), "making a checkpoint's folder", [&] {
    if (first) io::create_folders(folder);
  });
  io::Json shards = io::Json::array();
  detail::together(trainer.progress(), "writing a checkpoint", [&] {
    if (first) {
      detail::Shard model;
      for (const graph::Parameter& parameter : trainer.model().dag().parameters) {
        const auto values = trainer.parameter(parameter.name);
        auto* const to =
            static_cast<T*>(model.add(parameter.name, parameter.spec.shape, element_of<T>));
        std::transform(values.begin(), values.end(), to, [](auto value) { return T(value); });
      }
      shards.push_back(model.write(folder / io::free_shard_name(folder, detail::model_stem)));
    }
    detail::Shard optimizer;
    for (const auto& range : trainer.state_ranges()) {
      using Kept = optim::StateRange::Kept;
      const bool equal = range.kept == Kept::whole || (range.kept == Kept::ahead && !range.own);
      if (!first && equal) continue;
      trainer.copy_state(range, optimizer.add(concat(detail::stem_of(range), range.begin),
                                              Shape{range.elements}, range.element));
    }
    if (first || !optimizer.empty()) {
      shards.push_back(optimizer.write(
          folder / io::free_shard_name(folder, concat("optimizer-", trainer.rank()))));
    }
  });

  const auto texts = comm::gather_texts(trainer.progress(), "checkpoint shards", shards.dump());
  detail::together(trainer.progress(), "writing a checkpoint's manifest", [&] {
    if (!first) return;
    io::Manifest manifest;
    manifest.facts = {{"user", facts},
                      {"committed", state.committed},
                      {"micro_batches", micro_batches.next},
                      {"unused", micro_batches.unused},
                      {"pending", trainer.pending()},
                      {"began", state.began},
                      {"counts", trainer.plan().micro_batches},
                      {"adapts", trainer.plan().adapts},
                      {"seed", state.seed},
                      {"model", graph::hash_of(trainer.model().dag())},
                      {"ranks", trainer.ranks()},
                      {"optimizer", std::string(Trainer<Policies...>::Optim::name)},
                      {"rule", std::string(Trainer<Policies...>::Rule::name)},
                      {"element", std::string(name_of(element_of<T>))},
                      {"gradient", std::string(name_of(trainer.plan().gradient))},
                      {"instruction_set", std::string(device::name_of(device::instruction_set()))}};
    for (const std::string& text : texts) {
      for (const io::Json& shard : io::parse_json(text, "a rank's shards")) {
        manifest.shards.push_back(io::shard_from_json(shard, "a rank's shards"));
      }
    }
    io::write_manifest(folder, manifest);
    io::remove_unnamed_shards(folder, manifest);
  });
  return folder;
}

/// Reads the latest complete checkpoint of the directory into the trainer; returns the caller's facts,
/// or nothing if there is none.
///
/// Training then goes on with the bits of the undisturbed run, if ranks, counts, model, policies, options
/// and instruction set are the same. Another number of ranks takes its shards from those of before, and so
/// do other counts. Of overlapping rounds the next step then begins with a gradient of its own, of the
/// micro-batches whose gradient was pending (where counts adapt: of new ones); ranks that step on their
/// own (DiLoCo) begin anew at the outer weights, their inner states at zero.
///
/// Another optimizer policy of the same rule takes over what it needs, if it is there: Ddp and Zero1 from
/// each other and from those whose rounds overlap, which keep master weights beside; those from each
/// other, opening again. It is a DecodeError if it is not there.
///
/// | who    | all ranks, before the first step                                                     |
/// | errors | FileError on every rank for a damaged file, or a checkpoint of another model, rule,  |
/// |        | seed or element; the trainer's weights are then unspecified                          |
template <class... Policies>
std::optional<io::Json> resume(Trainer<Policies...>& trainer,
                               const std::filesystem::path& directory) {
  const std::vector<std::uint64_t> steps = io::complete_checkpoints(directory);
  reef::detail::require_agreement(trainer.progress(), "latest checkpoint",
                                  steps.empty() ? 0 : steps.back() + 1,
                                  "give all ranks the same directory on a shared file system.");
  if (steps.empty()) return std::nullopt;

  const auto folder = io::checkpoint_folder(directory, steps.back());
  const std::string source = concat("'", (folder / io::Manifest::file).string(), "'");
  io::Manifest manifest;
  std::int64_t committed = 0;
  std::int64_t began = 0;
  comm::CounterState micro_batches;
  detail::together(trainer.progress(), "reading a checkpoint", [&] {
    manifest = io::read_manifest(folder);
    detail::require_same_run(trainer, manifest.facts, source);
    const auto counts = io::value_or<std::vector<int>>(manifest.facts, "counts", {}, source);
    const bool adapts = io::value_or<bool>(manifest.facts, "adapts", false, source);
    const auto was = [&](const char* fact, const std::string& now) {
      return io::value_or<std::string>(manifest.facts, fact, now, source) == now;
    };
    trainer.set_pending(io::value_or<bool>(manifest.facts, "pending", false, source) &&
                        was("optimizer", std::string(Trainer<Policies...>::Optim::name)) &&
                        was("gradient", std::string(name_of(trainer.plan().gradient))) &&
                        counts == trainer.plan().micro_batches && adapts == trainer.plan().adapts);
    detail::Loader loader(trainer);
    for (const io::Shard& shard : manifest.shards) {
      loader.read(io::CheckedShard(folder, shard),
                  shard.file.starts_with(concat(detail::model_stem, ".")));
    }
    loader.finish(source);
    committed = io::require<std::int64_t>(manifest.facts, "committed", source);
    micro_batches.next = io::require<std::uint64_t>(manifest.facts, "micro_batches", source);
    micro_batches.unused =
        io::value_or<std::vector<std::uint64_t>>(manifest.facts, "unused", {}, source);
    began = io::value_or<std::int64_t>(manifest.facts, "began", 0, source);
    if (committed < 0 || static_cast<std::uint64_t>(committed) != steps.back()) {
      throw DecodeError("reef::checkpoint::resume: ", source, " is of step ", committed,
                        ", its folder of step ", steps.back(),
                        ".\n  fix: leave a checkpoint's folder its name.");
    }
    if (began < 0 || began > committed) {
      throw DecodeError("reef::checkpoint::resume: ", source, " is of step ", committed,
                        ", but its ranks began together after step ", began,
                        ".\n  fix: copy the checkpoint again.");
    }
  });
  trainer.set_progress(committed, micro_batches, began);
  return io::require<io::Json>(manifest.facts, "user", source);
}

}  // namespace reef::inline v0::checkpoint
