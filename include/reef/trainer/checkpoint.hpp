#pragma once

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include <reef/comm/point_to_point.hpp>
#include <reef/device/instruction_set.hpp>
#include <reef/io/manifest.hpp>
#include <reef/trainer/detail/agreement.hpp>
#include <reef/trainer/trainer.hpp>

namespace reef::inline v0::checkpoint {

namespace detail {

/// The text of every rank, on rank 0; nothing elsewhere. Collective; blocks.
inline std::vector<std::string> gather_texts(comm::Progress& progress, const std::string& what,
                                             const std::string& mine) {
  const auto sizes = reef::detail::gather_numbers(progress, what + " (bytes)",
                                                  static_cast<double>(mine.size()));
  if (progress.rank() != 0) {
    comm::SendTask send(what, 0, std::span<const char>(mine));
    progress.submit(progress.queue("send"), send);
    progress.wait(send);
    return {};
  }
  std::vector<std::string> texts{mine};
  for (int r = 1; r < progress.size(); ++r) {
    texts.emplace_back(static_cast<std::size_t>(sizes[static_cast<std::size_t>(r)]), '\0');
    comm::ReceiveTask receive(what, r, std::span<char>(texts.back()));
    progress.submit(progress.queue("receive"), receive);
    progress.wait(receive);
  }
  return texts;
}

/// Throws on every rank what any of them failed of: nobody goes on alone.
inline void require_success(comm::Progress& progress, const std::string& what, const std::string& failure) {
  const auto failed = reef::detail::gather_numbers(progress, what, failure.empty() ? 0 : 1);
  if (!failure.empty()) throw FileError(failure);
  for (std::size_t r = 0; r < failed.size(); ++r) {
    if (failed[r] != 0) {
      throw FileError("reef::checkpoint: rank " + std::to_string(r) + " failed in: " + what +
                      ". Its own message says why.");
    }
  }
}

template <class F>
std::string failure_of(const F& work) {
  try {
    work();
    return {};
  } catch (const Error& error) {
    return error.what();
  }
}

inline std::string state_tensor(int state, int bucket, std::int64_t begin) {
  return "state." + std::to_string(state) + ".bucket." + std::to_string(bucket) + ".from." +
         std::to_string(begin);
}

/// The offset that ends a state tensor's name. Throws DecodeError when it is no number.
inline std::int64_t offset_in(const std::string& name, std::size_t at) {
  std::int64_t value = 0;
  const char* const last = name.data() + name.size();
  const auto [end, error] = std::from_chars(name.data() + at, last, value);
  if (error != std::errc() || end != last || value < 0) {
    throw DecodeError("reef::checkpoint::resume: '" + name + "' is no name of an optimizer's state.");
  }
  return value;
}

}  // namespace detail

/// Writes what a resume needs to DIRECTORY/step-N: rank 0 the parameters by their names, every rank
/// its optimizer state, and last, when all are on the disk, rank 0 the manifest.
///
/// | who    | all ranks, between steps, with the same directory on a file system that they share   |
/// | files  | model.safetensors, optimizer-R.safetensors, manifest.json with a checksum per tensor |
/// | errors | FileError on every rank; without a manifest the folder is no checkpoint, and older   |
/// |        | ones are unchanged                                                                   |
template <class... Policies>
std::filesystem::path save(Trainer<Policies...>& trainer, const std::filesystem::path& directory,
                           const io::Json& facts = io::Json::object()) {
  using T = typename Trainer<Policies...>::T;
  using Optim = typename Trainer<Policies...>::Optim;
  comm::Progress& progress = trainer.progress();
  const run::StepState& state = trainer.progress_state();
  const auto folder = io::checkpoint_folder(directory, static_cast<std::uint64_t>(state.committed));

  io::Json shards = io::Json::array();
  const auto write = [&](const std::string& file, const std::vector<io::NamedView>& tensors) {
    shards.push_back(io::to_json(io::write_safetensors(folder / file, tensors)));
  };
  const std::string failure = detail::failure_of([&] {
    std::filesystem::create_directories(folder);
    if (trainer.rank() == 0) {
      std::vector<std::vector<T>> values;
      std::vector<io::NamedView> tensors;
      for (const graph::Parameter& parameter : trainer.model().dag().parameters) {
        values.push_back(trainer.parameter(parameter.name));
        tensors.push_back({parameter.name, {values.back().data(), parameter.spec.shape, element_of<T>}});
      }
      write("model.safetensors", tensors);
    }
    if (Optim::sharded || trainer.rank() == 0) {
      std::vector<std::vector<T>> values;
      std::vector<io::NamedView> tensors;
      for (const auto& range : trainer.state_ranges()) {
        values.push_back(trainer.state(range));
        tensors.push_back({detail::state_tensor(range.state, range.bucket, range.begin),
                           {values.back().data(), Shape{range.elements}, element_of<T>}});
      }
      write("optimizer-" + std::to_string(trainer.rank()) + ".safetensors", tensors);
    }
  });
  detail::require_success(progress, "writing a checkpoint", failure);

  const std::vector<std::string> texts = detail::gather_texts(progress, "shards", shards.dump());
  const std::string manifest_failure = detail::failure_of([&] {
    if (trainer.rank() != 0) return;
    io::Manifest manifest;
    manifest.facts = {{"user", facts},
                      {"committed", state.committed},
                      {"micro_batches", state.micro_batch},
                      {"seed", state.seed},
                      {"ranks", trainer.ranks()},
                      {"rule", std::string(Trainer<Policies...>::Rule::name)},
                      {"element", std::string(name_of(element_of<T>))},
                      {"instruction_set", std::string(device::name_of(device::instruction_set()))}};
    for (const std::string& text : texts) {
      for (const io::Json& shard : io::parse_json(text, "a rank's shards")) {
        manifest.shards.push_back(io::shard_from_json(shard, "a rank's shards"));
      }
    }
    io::write_manifest(folder, manifest);
  });
  detail::require_success(progress, "writing a checkpoint's manifest", manifest_failure);
  return folder;
}

/// Reads the latest complete checkpoint of the directory into the trainer; returns its facts, or
/// nothing if there is none.
///
/// Training then goes on with the bits of the undisturbed run, if ranks, counts, model, options and
/// instruction set are the same. Another number of ranks reads its shards from those of before.
///
/// | who    | all ranks, before the first step                                                     |
/// | errors | FileError, DecodeError: a damaged file, or a checkpoint of another model, rule, seed |
/// |        | or element; the trainer is then unusable                                             |
template <class... Policies>
std::optional<io::Json> resume(Trainer<Policies...>& trainer, const std::filesystem::path& directory) {
  using T = typename Trainer<Policies...>::T;
  const std::vector<std::uint64_t> steps = io::complete_checkpoints(directory);
  const std::uint64_t latest = steps.empty() ? 0 : steps.back() + 1;
  reef::detail::require_agreement(trainer.progress(), "latest checkpoint", latest,
                                  "give all ranks the same directory on a shared file system.");
  if (steps.empty()) return std::nullopt;
  const auto folder = io::checkpoint_folder(directory, steps.back());

  io::Manifest manifest;
  const std::string failure = detail::failure_of([&] {
    manifest = io::read_manifest(folder);
    const std::string source = "'" + (folder / io::Manifest::file).string() + "'";
    const auto expect = [&](const char* fact, const auto& wanted) {
      using Fact = std::remove_cvref_t<decltype(wanted)>;
      const auto found = io::require<Fact>(manifest.facts, fact, source);
      if (found == wanted) return;
      throw DecodeError("reef::checkpoint::resume: " + source + " has another " + fact +
                        ".\n  fix: resume with the options that the run was started with, or give "
                        "another directory.");
    };
    expect("rule", std::string(Trainer<Policies...>::Rule::name));
    expect("element", std::string(name_of(element_of<T>)));
    expect("seed", trainer.progress_state().seed);

    const auto ranges = trainer.state_ranges();
    std::vector<std::vector<T>> states;
    std::vector<std::int64_t> filled(ranges.size(), 0);
    for (const auto& range : ranges) states.emplace_back(static_cast<std::size_t>(range.elements));
    std::size_t parameters = 0;
    for (const io::Shard& shard : manifest.shards) {
      const io::CheckedShard checked(folder, shard);
      for (const io::StoredTensor& tensor : checked.file().tensors()) {
        if (shard.file == "model.safetensors") {
          const graph::Dag& dag = trainer.model().dag();
          const graph::Parameter& parameter = dag.parameter_at(dag.parameter(tensor.name));
          std::vector<T> values(static_cast<std::size_t>(parameter.spec.shape.size()));
          checked.read(tensor.name, {values.data(), parameter.spec.shape, element_of<T>});
          trainer.set_parameter(tensor.name, values);
          ++parameters;
          continue;
        }
        for (std::size_t i = 0; i < ranges.size(); ++i) {
          const std::string prefix = detail::state_tensor(ranges[i].state, ranges[i].bucket, 0);
          const std::string stem = prefix.substr(0, prefix.size() - 1);
          if (!tensor.name.starts_with(stem) || tensor.shape.size() != 1) continue;
          const std::int64_t begin = detail::offset_in(tensor.name, stem.size());
          const std::int64_t from = std::max(begin, ranges[i].begin);
          const std::int64_t to =
              std::min(begin + tensor.shape[0], ranges[i].begin + ranges[i].elements);
          if (from >= to) continue;
          std::vector<T> values(static_cast<std::size_t>(tensor.shape[0]));
          checked.read(tensor.name, {values.data(), Shape{tensor.shape[0]}, element_of<T>});
          std::copy(values.begin() + (from - begin), values.begin() + (to - begin),
                    states[i].begin() + (from - ranges[i].begin));
          filled[i] += to - from;
        }
      }
    }
    const bool complete = parameters == trainer.model().dag().parameters.size() &&
                          std::equal(ranges.begin(), ranges.end(), filled.begin(),
                                     [](const auto& range, std::int64_t n) { return range.elements == n; });
    if (!complete) {
      throw DecodeError("reef::checkpoint::resume: " + source +
                        " does not hold all parameters and state of this model.\n  fix: resume with the "
                        "model that the run was started with.");
    }
    for (std::size_t i = 0; i < ranges.size(); ++i) trainer.set_state(ranges[i], states[i]);
    trainer.set_progress(io::require<std::int64_t>(manifest.facts, "committed", source),
                         io::require<std::uint64_t>(manifest.facts, "micro_batches", source));
  });
  detail::require_success(trainer.progress(), "reading a checkpoint", failure);
  return io::require<io::Json>(manifest.facts, "user", "a checkpoint's manifest");
}

}  // namespace reef::inline v0::checkpoint
