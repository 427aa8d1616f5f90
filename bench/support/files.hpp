#pragma once

#include <fcntl.h>
#include <unistd.h>

#include <cstddef>
#include <filesystem>
#include <fstream>
#include <span>
#include <string>

#include <reef/core/error.hpp>

#include "support/measure.hpp"

/// Files of benchmarks, and what writing and reading them takes at least.
namespace reef_bench {

/// A folder of its own in TMPDIR that goes with this.
struct Folder {
  Folder() { std::filesystem::create_directories(path); }
  ~Folder() { std::filesystem::remove_all(path); }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;
  std::filesystem::path path =
      std::filesystem::temp_directory_path() / ("reef_bench_" + std::to_string(::getpid()));
};

namespace detail {

inline void require(bool done, const char* what) {
  if (!done) throw reef::Error("reef_bench: ", what, " failed.\n  fix: give TMPDIR more room.");
}

}  // namespace detail

/// The roof of writing: seconds of write() to a file of its own, and fsync.
inline double plain_write(const std::filesystem::path& path, std::span<const std::byte> bytes) {
  return seconds_of([&] {
    const int file = ::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0644);
    while (!bytes.empty()) {
      const ::ssize_t written = ::write(file, bytes.data(), bytes.size());
      detail::require(written > 0, "write");
      bytes = bytes.subspan(static_cast<std::size_t>(written));
    }
    detail::require(::fsync(file) == 0 && ::close(file) == 0, "fsync");
  });
}

/// What most programs do: a stream and no fsync, which a power cut undoes. What it leaves to the disk is
/// written before it returns, untimed: whoever calls fsync next would be charged with it.
inline double buffered_write(const std::filesystem::path& path, std::span<const std::byte> bytes) {
  const double took = seconds_of([&] {
    std::ofstream file(path, std::ios::binary);
    file.write(reinterpret_cast<const char*>(bytes.data()),
               static_cast<std::streamsize>(bytes.size()));
  });
  const int file = ::open(path.c_str(), O_WRONLY);
  detail::require(::fsync(file) == 0 && ::close(file) == 0, "fsync");
  return took;
}

/// The roof of reading: seconds of read() of the file's first bytes, which lie in the page cache.
inline double plain_read(const std::filesystem::path& path, std::span<std::byte> bytes) {
  return seconds_of([&] {
    const int file = ::open(path.c_str(), O_RDONLY);
    while (!bytes.empty()) {
      const ::ssize_t got = ::read(file, bytes.data(), bytes.size());
      detail::require(got > 0, "read");
      bytes = bytes.subspan(static_cast<std::size_t>(got));
    }
    ::close(file);
  });
}

inline double buffered_read(const std::filesystem::path& path, std::span<std::byte> bytes) {
  return seconds_of([&] {
    std::ifstream file(path, std::ios::binary);
    file.read(reinterpret_cast<char*>(bytes.data()), static_cast<std::streamsize>(bytes.size()));
  });
}

}  // namespace reef_bench
