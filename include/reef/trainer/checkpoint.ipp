#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <system_error>
#include <type_traits>
#include <utility>
#include <vector>

#include <reef/comm/agreement.hpp>
#include <reef/comm/at_work.hpp>
#include <reef/comm/functions.hpp>
#include <reef/comm/gather.hpp>
#include <reef/comm/shared_counter.hpp>
#include <reef/core/hash.hpp>
#include <reef/core/inline.hpp>
#include <reef/core/text.hpp>
#include <reef/device/instruction_set.hpp>
#include <reef/graph/hash.hpp>
#include <reef/io/checkpoint_folders.hpp>
#include <reef/io/directory_lock.hpp>
#include <reef/io/manifest.hpp>
#include <reef/nn/host/numerics.hpp>
#include <reef/run/fragment.hpp>
#include <reef/trainer/checkpoint.hpp>
#include <reef/trainer/detail/claim.hpp>
#include <reef/trainer/detail/loader.hpp>
#include <reef/trainer/training.hpp>

namespace reef {
inline namespace v0 {
namespace checkpoint {

namespace detail {

/// Of a plan's edges between stages.
inline std::uint64_t hash_of_edges(const run::StepPlan& plan) {
  Hash hash;
  for (const graph::RemoteEdge& edge : plan.remote_edges) hash.add(edge.tensor).add(edge.from).add(edge.to);
  return hash.value();
}

/// The same where what codecs remember of messages can be taken over: as many replicas, or a process that stands for as
/// many; of what is not remembered by elements, of a model that is cut alike.
inline std::string text_of_memory(const Training& training) {
  const run::StepPlan& plan = training.plan();
  Hash cuts;
  if (run::gathers_differences(plan)) cuts.add(plan.outer_schedule.fragments);
  bool remembers = false;
  for (std::size_t t = 0; t < plan.wire.size(); ++t) {
    const run::WireForm& form = plan.wire[t];
    cuts.add(plan.gathers[t] ? 1 : 0).add(form.codec);
    for (const double ratio : form.ratios) cuts.add(ratio);
    if (form.state || form.received_state) {
      const auto traffic = static_cast<schedule::Traffic>(t);
      if (schedule::is_between_stages(traffic)) {
        cuts.add(hash_of_edges(plan));
      } else if (!form.by_element) {
        for (const run::Bucket& bucket : plan.buckets) cuts.add(bucket.begin).add(bucket.end);
      }
    }
    if (form.period > 0) {
      cuts.add(form.period);
      for (const int count : plan.micro_batches) cuts.add(count);
    }
    for (const std::int64_t n : {1, 1000}) {
      if (form.encodes()) cuts.add(form.bytes(0, n));
      cuts.add(form.state ? form.state(0, n) : 0).add(form.received_state ? form.received_state(0, n) : 0);
    }
    remembers = remembers || form.state || form.received_state;
  }
  if (remembers)
    return concat((std::max)(plan.topology.replicas, plan.virtual_ranks), " ranks, plan ",
                  cuts.value());
  return "none";
}

/// Those that a run had in force; none, where it planned none again or its edges were others.
inline run::EdgeRatios ratios_of(const io::Json& facts, const run::StepPlan& plan, const io::JsonSource& source) {
  const auto found = facts.find("ratios");
  if (found == facts.end() || io::require<std::uint64_t>(*found, "edges", source) != hash_of_edges(plan)) return {};
  return {io::require<std::int64_t>(*found, "step", source),
          io::require<std::vector<double>>(*found, "by_edge", source)};
}

/// The rule's name; of several, with what stands for the parameters of each.
inline std::string text_of_rule(const Training& training) {
  const Training::PolicyFacts& facts = training.facts();
  if (facts.rules == 1) return std::string(facts.rule);
  Hash of_parameters;
  for (std::size_t p = 0; p < training.plan().dag->parameters.size(); ++p)
    of_parameters.add(training.plan().rule_of(p));
  return concat(facts.rule, " of parameters with the hash ", of_parameters.value());
}

inline void require_same_run(const Training& training, const io::Json& facts,
                      const std::string& source) {
  const auto expect = [&](const char* fact, const auto& wanted) {
    using Fact = std::remove_cvref_t<decltype(wanted)>;
    const auto found = io::require<Fact>(facts, fact, {source, io::checkpoint_fix});
    if (found == wanted) return;
    throw DecodeError("reef::checkpoint::resume: ", source, " was written with another ", fact,
                      ": ", found, ", here it is ", wanted,
                      ".\n  fix: resume with the options that the run was started with, or give "
                      "another directory.");
  };
  expect("rule", text_of_rule(training));
  expect("element", std::string(name_of(training.facts().state.element)));
  expect("seed", training.progress_state().seed);
  expect("model", graph::hash_of(*training.plan().dag));
}

/// Every rank's shards, and then the manifest. A checkpoint of this step may be there already: it stays whole
/// until the new manifest takes the place of its own.
inline void write_checkpoint(Training& training, const std::filesystem::path& folder,
                      const io::Json& facts, const comm::CounterState& micro_batches) {
  const Element element = training.facts().state.element;
  const run::StepState& state = training.progress_state();
  const bool first = training.rank() == 0;
  const run::Topology& topology = training.plan().topology;
  const bool whole = topology.stages == 1;
  // What holders of a stage have alike is written by those of one replica.
  const bool first_replica = topology.replica_of(training.rank()) == 0;
  on_all_ranks(training.progress(), "making a checkpoint's folder", [&] {
    if (first) io::create_folders(folder);
  });
  io::Json shards = io::Json::array();
  on_all_ranks(training.progress(), "writing a checkpoint", [&] {
    const auto write = [&](const std::string& stem, const std::vector<io::NamedSource>& tensors) {
      shards.push_back(
          io::to_json(io::stream_safetensors(folder / io::free_shard_name(folder, stem), tensors)));
    };
    if (first_replica) {
      std::vector<io::NamedSource> model;
      for (const graph::Parameter& parameter : training.plan().dag->parameters) {
        if (!training.owns(parameter.name)) continue;
        model.push_back({parameter.name, parameter.spec.shape, element,
                         [&](Bytes offset, std::span<std::byte> room) {
                           return training.parameter_bytes(parameter.name, offset, room);
                         }});
      }
      write(whole ? std::string(io::model_stem) : io::model_stem_of(training.rank()), model);
    }
    std::vector<io::NamedSource> optimizer;
    for (const auto& range : training.state_ranges()) {
      using Distribution = run::StateRange::Distribution;
      const bool equal =
          range.distribution == Distribution::whole || (range.distribution == Distribution::ahead && !range.own);
      if (range.copy || (!first_replica && equal)) continue;
      optimizer.push_back({concat(stem_of(range), range.begin), Shape{range.elements},
                           range.element,
                           [&training, range](Bytes offset, std::span<std::byte> room) {
                             return training.state_bytes(range, offset, room);
                           }});
    }
    if (first_replica || !optimizer.empty()) write(io::optimizer_stem(training.rank()), optimizer);
  });

  const auto texts = comm::gather_texts(training.progress(), "checkpoint shards", shards.dump());
  on_all_ranks(training.progress(), "writing a checkpoint's manifest", [&] {
    if (!first) return;
    io::Manifest manifest;
    manifest.facts = {{"user", facts},
                      {"committed", state.committed},
                      {"updates", state.updates},
                      {"micro_batches", micro_batches.next},
                      {"unused", micro_batches.unused},
                      {"pending", training.pending()},
                      {"began", state.began},
                      {"counts", training.plan().micro_batches},
                      {"adapts", training.plan().adapts},
                      {"exchange", training.plan().outer_schedule.text()},
                      {"seed", state.seed},
                      {"model", graph::hash_of(*training.plan().dag)},
                      {"ranks", training.ranks()},
                      {"memory", text_of_memory(training)},
                      {"optimizer", std::string(training.facts().optimizer)},
                      {"rule", text_of_rule(training)},
                      {"element", std::string(name_of(element))},
                      {"gradient", std::string(name_of(training.plan().gradient))},
                      {"instruction_set", std::string(device::name_of(device::instruction_set()))},
                      {"numerics", nn::host::text_of_numerics_class()}};
    if (state.ratios.step >= 0) {
      manifest.facts["ratios"] = {{"edges", hash_of_edges(training.plan())},
                                  {"step", state.ratios.step},
                                  {"by_edge", state.ratios.by_edge}};
    }
    for (const std::string& text : texts) {
      for (const io::Json& shard : io::parse_json(text, "a rank's shards")) {
        manifest.shards.push_back(io::shard_from_json(shard, "a rank's shards"));
      }
    }
    io::write_manifest(folder, manifest);
    io::remove_unnamed_shards(folder, manifest);
  });
}

}  // namespace detail

REEF_INLINE void claim(Training& training, const std::filesystem::path& directory) {
  auto& mine = training.claimed_directory();
  if (mine == nullptr) mine = std::make_shared<Claim>();
  Claim& claimed = *mine;
  comm::Progress& progress = training.progress();
  const int is_new = claimed.directory == directory ? 0 : 1;
  const auto all = comm::gather_numbers(progress, "checkpoint directory is new", is_new);
  const bool first = training.rank() == 0;
  if (std::all_of(all.begin(), all.end(), [](int one) { return one == 0; })) {
    detail::on_all_ranks(progress, "claiming the checkpoint directory again", [&] {
      if (first) io::create_folders(directory);
      if (first) claimed.lock->renew();
    });
    return;
  }
  claimed = {};
  constexpr Seconds patience = 3;
  bool made = false;
  try {
    detail::on_all_ranks(progress, "claiming the checkpoint directory", [&] {
      if (!first) return;
      std::error_code ignored;
      made = !std::filesystem::exists(directory, ignored);
      io::create_folders(directory);
      claimed.lock = std::make_unique<io::DirectoryLock>(directory, patience);
    });
    if (progress.size() > 1) detail::require_shared(progress, directory);
  } catch (const FileError&) {  // of all ranks
    claimed = {};
    std::error_code ignored;
    if (made) std::filesystem::remove(directory, ignored);
    comm::barrier(progress, "what a claim left is removed");
    throw;
  }
  claimed.directory = directory;
}

REEF_INLINE std::filesystem::path save(Training& training, const std::filesystem::path& directory,
                           const io::Json& facts) {
  const auto entry = training.one_thread("reef::checkpoint", "save");
  const comm::AtWork at_work(training.progress(), "a checkpoint");
  const auto folder = io::checkpoint_folder(
      directory, static_cast<std::uint64_t>(training.progress_state().committed));
  const bool first = training.rank() == 0;
  detail::on_all_ranks(training.progress(), "looking at a checkpoint's facts", [&] {
    if (first) io::require_text(facts, "facts", 2);
  });
  claim(training, directory);
  Claim& claimed = *training.claimed_directory();
  if (first && !std::exchange(claimed.cleaned, true)) {
    detail::remove_probes(directory);
    io::remove_temporaries(directory);
  }
  training.gather_committed_weights();
  const comm::CounterState micro_batches = training.new_micro_batches();
  try {
    detail::write_checkpoint(training, folder, facts, micro_batches);
  } catch (const FileError&) {  // of all ranks, none of which writes any more
    if (first) io::remove_failed_save(folder);
    comm::barrier(training.progress(), "what a checkpoint left is removed");
    throw;
  }
  return folder;
}

REEF_INLINE std::optional<io::Json> resume(Training& training,
                               const std::filesystem::path& directory, std::string_view called) {
  const auto entry = training.one_thread("reef::checkpoint", "resume");
  const comm::AtWork at_work(training.progress(), "a resume");
  const std::vector<std::uint64_t> steps = io::complete_checkpoints(directory);
  const std::string latest =
      steps.empty() ? std::string("none") : concat("after step ", steps.back());
  comm::require_alike(
      training.progress(), "reef::checkpoint::resume", "latest checkpoint",
      {{"latest checkpoint", latest, concat(latest, ", in '", directory.string(), "'")}},
      "give all ranks the same directory on a shared file system.");
  if (steps.empty()) return std::nullopt;

  const auto folder = io::checkpoint_folder(directory, steps.back());
  const std::string source = concat("'", (folder / io::Manifest::file).string(), "'");
  io::Manifest manifest;
  std::int64_t committed = 0;
  std::int64_t began = 0;
  std::int64_t updates = 0;
  run::EdgeRatios ratios;
  comm::CounterState micro_batches;
  io::Json user;
  bool pending = false;
  std::optional<detail::Loader> loader;
  detail::on_all_ranks(training.progress(), "reading a checkpoint", [&] {
    manifest = io::read_manifest(folder);
    detail::require_same_run(training, manifest.facts, source);
    const io::JsonSource written(source, io::checkpoint_fix);
    const auto counts = io::value_or<std::vector<int>>(manifest.facts, "counts", {}, written);
    const bool adapts = io::value_or<bool>(manifest.facts, "adapts", false, written);
    const auto was = [&](const char* fact, const std::string& now) {
      return io::value_or<std::string>(manifest.facts, fact, now, written);
    };
    const std::string optimizer(training.facts().optimizer);
    const std::string gradient(name_of(training.plan().gradient));
    const std::string outer = training.plan().outer_schedule.text();
    pending = io::value_or<bool>(manifest.facts, "pending", false, written) &&
              was("optimizer", optimizer) == optimizer && was("gradient", gradient) == gradient &&
              was("exchange", outer) == outer && counts == training.plan().micro_batches &&
              adapts == training.plan().adapts;
    auto ranges = training.state_ranges(pending);
    const std::string memory = detail::text_of_memory(training);
    const auto kept = io::value_or<std::string>(manifest.facts, "memory", "none", written);
    if (kept != memory) {
      std::erase_if(ranges, [](const auto& range) { return range.memory; });
      if (memory != "none" && training.rank() == 0) {
        std::fprintf(stderr,
                     "reef: %s is of other ranks, cuts or codecs (%s): what codecs remember of messages begins anew.\n",
                     source.c_str(), kept.c_str());
      }
    }
    loader.emplace(*training.plan().dag, training.model_state(), std::move(ranges));
    const bool has_name = manifest.facts.contains("user") && manifest.facts["user"].is_object();
    loader->check_shards(folder, manifest.shards, source,
                  io::value_or<std::string>(has_name ? manifest.facts["user"] : io::Json::object(), "called",
                                            was("optimizer", optimizer), written),
                  called.empty() ? optimizer : called);
    committed = io::require<std::int64_t>(manifest.facts, "committed", written);
    micro_batches.next = io::require<std::uint64_t>(manifest.facts, "micro_batches", written);
    micro_batches.unused =
        io::value_or<std::vector<std::uint64_t>>(manifest.facts, "unused", {}, written);
    began = io::value_or<std::int64_t>(manifest.facts, "began", 0, written);
    updates = io::value_or<std::int64_t>(manifest.facts, "updates", committed, written);
    if (committed < 0 || static_cast<std::uint64_t>(committed) != steps.back()) {
      throw DecodeError("reef::checkpoint::resume: ", source, " is of step ", committed,
                        ", its folder of step ", steps.back(),
                        ".\n  fix: leave a checkpoint's folder its name.");
    }
    if (began < 0 || began > committed) {
      throw DecodeError("reef::checkpoint::resume: ", source, " is of step ", committed,
                        ", but its ranks began together after step ", began,
                        ".\n  fix: ", io::checkpoint_fix);
    }
    if (updates < committed) {
      throw DecodeError("reef::checkpoint::resume: ", source, " is of step ", committed, ", but of ", updates,
                        " updates.\n  fix: ", io::checkpoint_fix);
    }
    if (!micro_batches.is_valid()) {
      throw DecodeError("reef::checkpoint::resume: ", source, " has unused micro-batches that do ",
                        "not rise, or reach the next one.\n  fix: ", io::checkpoint_fix);
    }
    ratios = detail::ratios_of(manifest.facts, training.plan(), written);
    user = io::require<io::Json>(manifest.facts, "user", written);
  });
  training.set_pending(pending);
  detail::on_all_ranks(training.progress(), "reading a checkpoint again",
                   [&] { loader->fill(folder, manifest.shards); });
  training.set_progress(committed, micro_batches, began, updates);
  training.set_ratios(std::move(ratios));
  return user;
}

}  // namespace checkpoint
}  // namespace v0
}  // namespace reef
