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

#include <reef/comm/at_work.hpp>
#include <reef/comm/functions.hpp>
#include <reef/comm/gather.hpp>
#include <reef/comm/shared_counter.hpp>
#include <reef/core/hash.hpp>
#include <reef/core/text.hpp>
#include <reef/device/instruction_set.hpp>
#include <reef/graph/hash.hpp>
#include <reef/io/checkpoint_folders.hpp>
#include <reef/io/directory_lock.hpp>
#include <reef/io/manifest.hpp>
#include <reef/run/fragment.hpp>
#include <reef/trainer/detail/agreement.hpp>
#include <reef/trainer/detail/claim.hpp>
#include <reef/trainer/detail/loader.hpp>
#include <reef/trainer/trainer.hpp>

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

/// The same where what codecs remember of messages can be taken over: as many replicas, or a process that stands for as many;
/// of what is not remembered by elements, of a model that is cut alike.
template <class... Policies>
std::string text_of_memory(const Trainer<Policies...>& trainer) {
  const run::StepPlan& plan = trainer.plan();
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
  return {io::require<std::int64_t>(*found, "step", source), io::require<std::vector<double>>(*found, "by_edge", source)};
}

/// The rule's name; of several, with what stands for the parameters of each.
template <class TrainerType>
std::string text_of_rule(const TrainerType& trainer) {
  using Rule = typename TrainerType::Rule;
  if constexpr (optim::rule_count<Rule> == 1) {
    return std::string(Rule::name);
  } else {
    Hash of_parameters;
    for (std::size_t p = 0; p < trainer.model().dag().parameters.size(); ++p) of_parameters.add(trainer.plan().rule_of(p));
    return concat(Rule::name, " of parameters with the hash ", of_parameters.value());
  }
}

template <class TrainerType>
void require_same_run(const TrainerType& trainer, const io::Json& facts,
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
  expect("rule", text_of_rule(trainer));
  expect("element", std::string(name_of(element_of<typename TrainerType::T>)));
  expect("seed", trainer.progress_state().seed);
  expect("model", graph::hash_of(trainer.model().dag()));
}

/// Every rank's shards, and then the manifest. A checkpoint of this step may be there already: it stays whole
/// until the new manifest takes the place of its own.
template <class... Policies>
void write_checkpoint(Trainer<Policies...>& trainer, const std::filesystem::path& folder,
                      const io::Json& facts, const comm::CounterState& micro_batches) {
  using T = typename Trainer<Policies...>::T;
  const run::StepState& state = trainer.progress_state();
  const bool first = trainer.rank() == 0;
  const run::Topology& topology = trainer.plan().topology;
  const bool whole = topology.stages == 1;
  // What holders of a stage have alike is written by those of one replica.
  const bool first_replica = topology.replica_of(trainer.rank()) == 0;
  together(trainer.progress(), "making a checkpoint's folder", [&] {
    if (first) io::create_folders(folder);
  });
  io::Json shards = io::Json::array();
  together(trainer.progress(), "writing a checkpoint", [&] {
    const auto write = [&](const std::string& stem, const std::vector<io::NamedSource>& tensors) {
      shards.push_back(
          io::to_json(io::stream_safetensors(folder / io::free_shard_name(folder, stem), tensors)));
    };
    if (first_replica) {
      std::vector<io::NamedSource> model;
      for (const graph::Parameter& parameter : trainer.model().dag().parameters) {
        if (!trainer.owns(parameter.name)) continue;
        model.push_back({parameter.name, parameter.spec.shape, element_of<T>,
                         [&](Bytes offset, std::span<std::byte> room) {
                           return trainer.parameter_bytes(parameter.name, offset, room);
                         }});
      }
      write(whole ? std::string(io::model_stem) : io::model_stem_of(trainer.rank()), model);
    }
    std::vector<io::NamedSource> optimizer;
    for (const auto& range : trainer.state_ranges()) {
      using Kept = optim::StateRange::Kept;
      const bool equal = range.kept == Kept::whole || (range.kept == Kept::ahead && !range.own);
      if (range.copy || (!first_replica && equal)) continue;
      optimizer.push_back({concat(stem_of(range), range.begin), Shape{range.elements},
                           range.element,
                           [&trainer, range](Bytes offset, std::span<std::byte> room) {
                             return trainer.state_bytes(range, offset, room);
                           }});
    }
    if (first_replica || !optimizer.empty()) write(io::optimizer_stem(trainer.rank()), optimizer);
  });

  const auto texts = comm::gather_texts(trainer.progress(), "checkpoint shards", shards.dump());
  together(trainer.progress(), "writing a checkpoint's manifest", [&] {
    if (!first) return;
    io::Manifest manifest;
    manifest.facts = {{"user", facts},
                      {"committed", state.committed},
                      {"updates", state.updates},
                      {"micro_batches", micro_batches.next},
                      {"unused", micro_batches.unused},
                      {"pending", trainer.pending()},
                      {"began", state.began},
                      {"counts", trainer.plan().micro_batches},
                      {"adapts", trainer.plan().adapts},
                      {"exchange", trainer.plan().outer_schedule.text()},
                      {"seed", state.seed},
                      {"model", graph::hash_of(trainer.model().dag())},
                      {"ranks", trainer.ranks()},
                      {"memory", text_of_memory(trainer)},
                      {"optimizer", std::string(Trainer<Policies...>::Optim::name)},
                      {"rule", text_of_rule(trainer)},
                      {"element", std::string(name_of(element_of<T>))},
                      {"gradient", std::string(name_of(trainer.plan().gradient))},
                      {"instruction_set", std::string(device::name_of(device::instruction_set()))}};
    if (state.ratios.step >= 0) {
      manifest.facts["ratios"] = {{"edges", hash_of_edges(trainer.plan())},
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

/// Makes the directory this job's own to write checkpoints to, until the trainer is destroyed or claims another;
/// nothing if it is already. save() does it too: before the first step it costs less to be refused.
///
/// | who     | all ranks, between steps                                                                 |
/// | others  | another job that claims it, or saves to it, is refused with the name of this one; one that |
/// |         | ended without a word leaves no trace (io::DirectoryLock). Who only resumes claims nothing  |
/// | removes | nothing that was there: the first save() does, of what jobs that were ended have left     |
/// | errors  | FileError on every rank, if another job has it, or for a directory that some rank does not |
/// |         | share or cannot write to: with their numbers                                              |
template <class... Policies>
void claim(Trainer<Policies...>& trainer, const std::filesystem::path& directory) {
  auto& mine = trainer.claimed_directory();
  if (mine == nullptr) mine = std::make_shared<Claim>();
  Claim& claimed = *mine;
  comm::Progress& progress = trainer.progress();
  const int is_new = claimed.directory == directory ? 0 : 1;
  const auto all = comm::gather_numbers(progress, "checkpoint directory is new", is_new);
  const bool first = trainer.rank() == 0;
  if (std::all_of(all.begin(), all.end(), [](int one) { return one == 0; })) {
    detail::together(progress, "claiming the checkpoint directory again", [&] {
      if (first) io::create_folders(directory);
      if (first) claimed.lock->renew();
    });
    return;
  }
  claimed = {};
  constexpr Seconds patience = 3;
  bool made = false;
  try {
    detail::together(progress, "claiming the checkpoint directory", [&] {
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

/// Writes what a resume needs to DIRECTORY/step-N: rank 0 the parameters by their names, every rank
/// its optimizer state, with the gradient that is pending if rounds overlap, and last, when all are on
/// the disk, rank 0 the manifest. The trainer's committed weights are on all ranks.
///
/// | who    | all ranks, between steps, with the same directory on a file system that they share: it is   |
/// |        | claimed, so that no other job writes there                                                 |
/// | files  | model.safetensors, or of stages model-R.safetensors with what rank R owns,                 |
/// |        | optimizer-R.safetensors, manifest.json with a checksum per tensor                          |
/// | others | shards of this step that were there are replaced; of other steps only the temporary files  |
/// |        | of jobs that were ended are removed, by a job's first save                                 |
/// | facts  | what the caller wants back from resume, of rank 0: any JSON value, which comes back equal  |
/// |        | to what it was; one that JSON's text cannot hold (NaN, bytes, no UTF-8) is an error         |
/// | errors | FileError on every rank: what was written of this checkpoint is removed, and older ones,   |
/// |        | also one of this step, are unchanged                                                       |
///
/// \code
/// // given: Trainer<optim::Ddp<optim::AdamW>>& trainer
/// const std::optional<io::Json> facts = checkpoint::resume(trainer, "run");  // nothing: a new run
/// for (int step = 0; step < 1000; ++step) trainer.step();
/// checkpoint::save(trainer, "run", {{"note", "after 1000 steps more"}});
/// \endcode
template <class... Policies>
std::filesystem::path save(Trainer<Policies...>& trainer, const std::filesystem::path& directory,
                           const io::Json& facts = io::Json::object()) {
  const auto entry = trainer.one_thread("reef::checkpoint", "save");
  const comm::AtWork at_work(trainer.progress(), "a checkpoint");
  const auto folder = io::checkpoint_folder(
      directory, static_cast<std::uint64_t>(trainer.progress_state().committed));
  const bool first = trainer.rank() == 0;
  detail::together(trainer.progress(), "looking at a checkpoint's facts", [&] {
    if (first) io::require_text(facts, "facts", 2);
  });
  claim(trainer, directory);
  Claim& claimed = *trainer.claimed_directory();
  if (first && !std::exchange(claimed.cleaned, true)) {
    detail::remove_probes(directory);
    io::remove_temporaries(directory);
  }
  trainer.gather_committed_weights();
  const comm::CounterState micro_batches = trainer.new_micro_batches();
  try {
    detail::write_checkpoint(trainer, folder, facts, micro_batches);
  } catch (const FileError&) {  // of all ranks, none of which writes any more
    if (first) io::remove_failed_save(folder);
    comm::barrier(trainer.progress(), "what a checkpoint left is removed");
    throw;
  }
  return folder;
}

/// Reads the latest complete checkpoint of the directory into the trainer; returns the caller's facts,
/// or nothing if there is none.
///
/// Training then goes on with the bits of the undisturbed run, if ranks, counts, model, policies, options
/// and instruction set are the same.
///
/// With another number of ranks, or other counts, each rank reads its shards out of the shards of before. A step
/// of overlapping rounds then begins by taking its own gradient, of the micro-batches whose gradient was pending
/// (where counts adapt: of new ones). Ranks that step on their own (DiLoCo) then begin at the outer weights with
/// inner states of zero; so they do where fragments, H or the overlap are others.
///
/// Another optimizer policy of the same rule takes over the state that it needs: Ddp and Zero1 from each other, and
/// from policies whose rounds overlap, which keep master weights besides; policies whose rounds overlap from each
/// other, with a new prologue. State that is needed and not there is a FileError.
///
/// | who    | all ranks, before the first step                                                     |
/// | cost   | a rank reads its files twice: everything is checked before the trainer changes       |
/// | memory | a piece of a tensor, whatever the model's size                                       |
/// | errors | FileError on every rank for a damaged file, or a checkpoint of another model, rule,  |
/// |        | seed or element: the trainer is unchanged. Only if the second reading fails, its     |
/// |        | weights and state are unspecified                                                    |
///
/// `called` is what errors call a run of this kind, as the name of its recipe, in place of its optimizer; so is the text
/// "called" of a checkpoint's facts for the run that wrote it.
template <class... Policies>
std::optional<io::Json> resume(Trainer<Policies...>& trainer,
                               const std::filesystem::path& directory, std::string_view called = {}) {
  const auto entry = trainer.one_thread("reef::checkpoint", "resume");
  const comm::AtWork at_work(trainer.progress(), "a resume");
  const std::vector<std::uint64_t> steps = io::complete_checkpoints(directory);
  const std::string latest =
      steps.empty() ? std::string("none") : concat("after step ", steps.back());
  comm::require_alike(
      trainer.progress(), "reef::checkpoint::resume", "latest checkpoint",
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
  std::optional<detail::Loader<Trainer<Policies...>>> loader;
  detail::together(trainer.progress(), "reading a checkpoint", [&] {
    manifest = io::read_manifest(folder);
    detail::require_same_run(trainer, manifest.facts, source);
    const io::JsonSource written(source, io::checkpoint_fix);
    const auto counts = io::value_or<std::vector<int>>(manifest.facts, "counts", {}, written);
    const bool adapts = io::value_or<bool>(manifest.facts, "adapts", false, written);
    const auto was = [&](const char* fact, const std::string& now) {
      return io::value_or<std::string>(manifest.facts, fact, now, written);
    };
    const std::string optimizer(Trainer<Policies...>::Optim::name);
    const std::string gradient(name_of(trainer.plan().gradient));
    const std::string outer = trainer.plan().outer_schedule.text();
    pending = io::value_or<bool>(manifest.facts, "pending", false, written) &&
              was("optimizer", optimizer) == optimizer && was("gradient", gradient) == gradient &&
              was("exchange", outer) == outer && counts == trainer.plan().micro_batches &&
              adapts == trainer.plan().adapts;
    auto ranges = trainer.state_ranges(pending);
    const std::string memory = detail::text_of_memory(trainer);
    const auto kept = io::value_or<std::string>(manifest.facts, "memory", "none", written);
    if (kept != memory) {
      std::erase_if(ranges, [](const auto& range) { return range.memory; });
      if (memory != "none" && trainer.rank() == 0) {
        std::fprintf(stderr, "reef: %s is of other ranks, cuts or codecs (%s): what codecs remember of messages begins anew.\n",
                     source.c_str(), kept.c_str());
      }
    }
    loader.emplace(trainer, std::move(ranges));
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
    if (!micro_batches.possible()) {
      throw DecodeError("reef::checkpoint::resume: ", source, " has unused micro-batches that do ",
                        "not rise, or reach the next one.\n  fix: ", io::checkpoint_fix);
    }
    ratios = detail::ratios_of(manifest.facts, trainer.plan(), written);
    user = io::require<io::Json>(manifest.facts, "user", written);
  });
  trainer.set_pending(pending);
  detail::together(trainer.progress(), "reading a checkpoint again",
                   [&] { loader->fill(folder, manifest.shards); });
  trainer.set_progress(committed, micro_batches, began, updates);
  trainer.set_ratios(std::move(ratios));
  return user;
}

}  // namespace checkpoint
}  // namespace v0
}  // namespace reef
