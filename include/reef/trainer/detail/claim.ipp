#pragma once

#include <chrono>
#include <cstddef>
#include <filesystem>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <reef/core/error.hpp>
#include <reef/core/inline.hpp>
#include <reef/core/text.hpp>
#include <reef/trainer/detail/claim.hpp>

namespace reef {
inline namespace v0 {
namespace checkpoint {

namespace detail {

REEF_INLINE void remove_probes(const std::filesystem::path& directory) {
  std::vector<std::filesystem::path> probes;
  std::error_code code;
  for (std::filesystem::directory_iterator entry(directory, code), end; !code && entry != end;
       entry.increment(code)) {
    if (entry->path().filename().string().starts_with(probe_stem)) probes.push_back(entry->path());
  }
  for (const auto& probe : probes) std::filesystem::remove(probe, code);
}

REEF_INLINE bool appears(const std::filesystem::path& path) {
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

REEF_INLINE void require_shared(comm::Progress& progress, const std::filesystem::path& directory) {
  const bool first = progress.rank() == 0;
  std::unique_ptr<Probe> probe;
  std::string name = first ? concat(probe_stem, io::host_name(), ".", ::getpid(), ".",
                                    std::chrono::system_clock::now().time_since_epoch().count())
                           : std::string();
  on_all_ranks(progress, "writing to the checkpoint directory", [&] {
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
  on_all_ranks(progress, "writing to the checkpoint directory, from every rank", [&] {
    if (!first) const Probe own(directory / concat(name, ".", progress.rank()));
  });
}

}  // namespace detail

}  // namespace checkpoint
}  // namespace v0
}  // namespace reef
