#pragma once

#include <mpi.h>
#include <unistd.h>

#include <filesystem>
#include <string>
#include <vector>

namespace reef::test {

inline int world_rank() {
  int rank = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  return rank;
}

inline int world_size() {
  int size = 1;
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  return size;
}

/// Rank r gives 1, 2 or 3 micro-batches a step.
inline int uneven_count(int rank) { return 1 + (2 * rank + 1) % 3; }

inline std::vector<int> uneven_counts(int ranks) {
  std::vector<int> counts;
  for (int rank = 0; rank < ranks; ++rank) counts.push_back(uneven_count(rank));
  return counts;
}

/// The first ranks of the world, among themselves. All ranks make and destroy it.
class FirstRanks {
public:
  explicit FirstRanks(int count) {
    const int color = world_rank() < count ? 0 : MPI_UNDEFINED;
    MPI_Comm_split(MPI_COMM_WORLD, color, world_rank(), &handle_);
  }
  ~FirstRanks() {
    if (handle_ != MPI_COMM_NULL) MPI_Comm_free(&handle_);
  }
  FirstRanks(const FirstRanks&) = delete;
  FirstRanks& operator=(const FirstRanks&) = delete;

  /// This rank is one of them.
  [[nodiscard]] bool here() const { return handle_ != MPI_COMM_NULL; }
  [[nodiscard]] MPI_Comm handle() const { return handle_; }

private:
  MPI_Comm handle_ = MPI_COMM_NULL;
};

/// A folder that all ranks share, empty, gone at the end. All ranks make and destroy it.
class SharedFolder {
public:
  explicit SharedFolder(const std::string& name)
      : path_(std::filesystem::temp_directory_path() /
              ("reef-" + name + "-" + std::to_string(world_size()) + "-" + launcher())) {
    if (world_rank() == 0) std::filesystem::remove_all(path_);
    MPI_Barrier(MPI_COMM_WORLD);
  }
  ~SharedFolder() {
    MPI_Barrier(MPI_COMM_WORLD);
    if (world_rank() == 0) std::filesystem::remove_all(path_);
  }
  SharedFolder(const SharedFolder&) = delete;
  SharedFolder& operator=(const SharedFolder&) = delete;

  [[nodiscard]] const std::filesystem::path& path() const { return path_; }

private:
  /// The process number of rank 0, the same on every rank.
  static std::string launcher() {
    int id = static_cast<int>(getpid());
    MPI_Bcast(&id, 1, MPI_INT, 0, MPI_COMM_WORLD);
    return std::to_string(id);
  }
  std::filesystem::path path_;
};

}  // namespace reef::test
