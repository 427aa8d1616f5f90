#pragma once

#include <unistd.h>

#include <chrono>
#include <cstddef>
#include <exception>
#include <filesystem>
#include <memory>
#include <string>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include <reef/comm/detail/ranks.hpp>
#include <reef/comm/functions.hpp>
#include <reef/comm/gather.hpp>
#include <reef/core/error.hpp>
#include <reef/core/text.hpp>
#include <reef/io/atomic_file.hpp>
#include <reef/io/directory_lock.hpp>

namespace reef::inline v0::checkpoint {

/// The directory that a job writes its checkpoints to: its own for as long as this lives.
struct Claim {
  std::filesystem::path directory;          ///< as this rank names it
  std::unique_ptr<io::DirectoryLock> lock;  ///< of rank 0
  bool cleaned = false;                     ///< what earlier jobs left is removed, of rank 0
};

namespace detail {

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

/// A name in a directory, for a moment.
class Probe {
public:
  explicit Probe(std::filesystem::path path) : path_(std::move(path)) {
    io::AtomicFile file(path_);
    file.commit();
  }
  ~Probe() {
    std::error_code ignored;
    std::filesystem::remove(path_, ignored);
  }
  Probe(const Probe&) = delete;
  Probe& operator=(const Probe&) = delete;

private:
  std::filesystem::path path_;
};

inline constexpr const char* probe_stem = "reef.probe.";

/// Of jobs that ended meanwhile.
inline void remove_probes(const std::filesystem::path& directory) {
  std::vector<std::filesystem::path> probes;
  std::error_code code;
  for (std::filesystem::directory_iterator entry(directory, code), end; !code && entry != end;
       entry.increment(code)) {
    if (entry->path().filename().string().starts_with(probe_stem)) probes.push_back(entry->path());
  }
  for (const auto& probe : probes) std::filesystem::remove(probe, code);
}

/// Whether it is there, soon: of what another machine has just made, a network file system may remember for half
/// a minute that it is not there (NFS: acdirmin).
inline bool appears(const std::filesystem::path& path) {
  using Clock = std::chrono::steady_clock;
  std::error_code ignored;
  std::filesystem::path there = std::filesystem::absolute(path).parent_path();
  while (there.has_relative_path() && !std::filesystem::exists(there, ignored)) {
    there = there.parent_path();
  }
  const auto until = Clock::now() + std::chrono::seconds(io::is_shared_file_system(there) ? 35 : 1);
  while (!std::filesystem::exists(path, ignored)) {
    if (Clock::now() > until) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
  }
  return true;
}

/// FileError on all ranks, with those that do not see what rank 0 writes to the directory, or cannot write
/// there.
inline void require_shared(comm::Progress& progress, const std::filesystem::path& directory) {
  const bool first = progress.rank() == 0;
  std::unique_ptr<Probe> probe;
  std::string name = first ? concat(probe_stem, io::host_name(), ".", ::getpid(), ".",
                                    std::chrono::system_clock::now().time_since_epoch().count())
                           : std::string();
  together(progress, "writing to the checkpoint directory", [&] {
    if (first) probe = std::make_unique<Probe>(directory / name);
  });
  name = comm::broadcast_text(progress, "checkpoint directory's probe", std::move(name));
  const bool seen = first || appears(directory / name);
  const auto all = comm::gather_numbers(progress, "checkpoint directory seen", seen ? 1 : 0);
  const auto places = comm::gather_texts(
      progress, "checkpoint directory's places",
      concat("'", std::filesystem::absolute(directory).string(), "' on '", io::host_name(), "'"));
  probe.reset();
  std::vector<std::size_t> blind;
  for (std::size_t rank = 0; rank < all.size(); ++rank) {
    if (all[rank] == 0) blind.push_back(rank);
  }
  if (!blind.empty()) {
    std::string text;
    if (first) {
      text = concat("reef::checkpoint: ", comm::detail::name_ranks(blind),
                    blind.size() == 1 ? " does" : " do",
                    " not see what rank 0 writes to its checkpoint directory, ", places[0]);
      for (const std::size_t rank : blind) text += concat("; rank ", rank, " has ", places[rank]);
    }
    text = comm::broadcast_text(progress, "checkpoint directory is not shared", std::move(text));
    throw FileError(text,
                    ".\n  why: every rank writes its part of a checkpoint to one directory.\n"
                    "  fix: give all ranks the same directory, on a file system that they share.");
  }
  together(progress, "writing to the checkpoint directory, from every rank", [&] {
    if (!first) const Probe own(directory / concat(name, ".", progress.rank()));
  });
}

}  // namespace detail

}  // namespace reef::inline v0::checkpoint
