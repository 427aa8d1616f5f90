#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace reef::test {

/// What goes wrong at call number `call` (from 0) of open, write, fsync, rename, close, unlink,
/// remove, rmdir and mkdir below the watched folder.
struct Fault {
  enum class Kind : std::uint8_t {
    none,
    stops,       // this call and all later ones fail and do nothing
    tears,       // as stops, but if this call is a write, half of its bytes are written
    fails_once,  // this call alone fails
    shortens,    // every write writes half of its bytes, and says so; nothing fails
  };
  Kind kind = Kind::none;
  std::size_t call = 0;
};

/// What survives a power cut of that which was not made durable. What was, survives always.
struct PowerCut {
  enum class Data : std::uint8_t { none, half, zeros, whole };
  bool names = false;  // creations, renames and removals without a sync of their folder
  Data data = Data::none;
  bool drawn = false;  // each by itself, drawn with `seed`
  std::uint64_t seed = 0;
};

/// The files below a folder, by their names in it; a folder has no bytes.
using Disk = std::map<std::filesystem::path, std::optional<std::string>>;

/// Makes a folder of that content.
inline void write_disk(const Disk& disk, const std::filesystem::path& to) {
  std::filesystem::create_directories(to);
  for (const auto& [path, bytes] : disk) {  // a folder comes before what is in it
    if (bytes.has_value()) {
      std::ofstream(to / path, std::ios::binary) << *bytes;
    } else {
      std::filesystem::create_directory(to / path);
    }
  }
}

/// The system calls that change files, between the code under test and the system.
///
/// The program that links it has every such call of its own and of the C++ library looked at; those
/// below the watched folder are counted, logged, and let through or failed.
class FileLayer {
public:
  /// From now on, until the object dies, calls below `root` are watched. One at a time.
  explicit FileLayer(std::filesystem::path root, Fault fault = {});
  ~FileLayer();
  FileLayer(const FileLayer&) = delete;
  FileLayer& operator=(const FileLayer&) = delete;

  /// From now on everything is let through, and nothing is logged.
  void rest();
  [[nodiscard]] std::size_t calls() const;
  /// The names of the calls, in their order.
  [[nodiscard]] const std::vector<std::string>& names() const;
  /// What the disk holds after a power cut at the last call.
  [[nodiscard]] Disk disk_after(const PowerCut& cut) const;
};

}  // namespace reef::test
