#pragma once

#include <unistd.h>

#include <cstddef>
#include <exception>
#include <filesystem>
#include <memory>
#include <string>
#include <system_error>
#include <utility>

#include <reef/comm/detail/ranks.hpp>
#include <reef/comm/functions.hpp>
#include <reef/comm/gather.hpp>
#include <reef/core/error.hpp>
#include <reef/core/text.hpp>
#include <reef/io/atomic_file.hpp>
#include <reef/io/directory_lock.hpp>

namespace reef {
inline namespace v0 {
namespace checkpoint {

/// The directory that a job writes its checkpoints to: its own for as long as this lives.
struct Claim {
  std::filesystem::path directory;          ///< as this rank names it
  std::unique_ptr<io::DirectoryLock> lock;  ///< of rank 0
  bool cleaned = false;                     ///< what earlier jobs left is removed, of rank 0
};

namespace detail {

/// Runs `work` on every rank and throws on all what it failed of on any: nobody goes on alone.
template <class F>
void on_all_ranks(comm::Progress& progress, const std::string& what, const F& work) {
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
void remove_probes(const std::filesystem::path& directory);

/// Whether it is there, soon: of what another machine has just made, a network file system may remember for half
/// a minute that it is not there (NFS: acdirmin).
bool appears(const std::filesystem::path& path);

/// FileError on all ranks, with those that do not see what rank 0 writes to the directory, or cannot write
/// there.
void require_shared(comm::Progress& progress, const std::filesystem::path& directory);

}  // namespace detail

}  // namespace checkpoint
}  // namespace v0
}  // namespace reef

#ifndef REEF_COMPILED
#include <reef/trainer/detail/claim.ipp>
#endif
