#pragma once

#include <sys/mman.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <span>
#include <string>
#include <string_view>

#include <reef/core/error.hpp>

// What the fuzz targets share. A target is one function, LLVMFuzzerTestOneInput: it reads hostile
// bytes, and returns. Reading them, and refusing them by a reef::Error that says whose it is and what
// to do, are both right; everything else (another exception, a crash, a hang, much memory) ends the
// program.

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);

namespace reef::fuzz {

/// Ends the program unless it is so.
inline void demand(bool so, const char* what) {
  if (so) return;
  std::fprintf(stderr, "reef::fuzz: not so: %s\n", what);
  std::abort();
}

/// Whether `read` came to its end; false if it threw what a reader of Reef may throw.
template <class F>
bool reads(const F& read) {
  try {
    read();
    return true;
  } catch (const Error& error) {
    const std::string_view text = error.what();
    demand(text.starts_with("reef::"), "an error's text says whose it is");
    demand(text.find("\n  fix: ") != std::string_view::npos, "an error's text says what to do");
    return false;
  }
}

/// A regular file in memory: its bytes change as often as a fuzzer wishes, its path stays.
class MemoryFile {
public:
  MemoryFile() : file_(::memfd_create("reef-fuzz", MFD_CLOEXEC)) {
    demand(file_ >= 0, "memfd_create works");
    path_ = "/proc/self/fd/" + std::to_string(file_);
  }
  ~MemoryFile() { ::close(file_); }
  MemoryFile(const MemoryFile&) = delete;
  MemoryFile& operator=(const MemoryFile&) = delete;

  [[nodiscard]] const std::string& path() const { return path_; }

  void set(std::string_view bytes) {
    demand(::ftruncate(file_, 0) == 0 && ::pwrite(file_, bytes.data(), bytes.size(), 0) ==
                                             static_cast<::ssize_t>(bytes.size()),
           "a file in memory can be written");
  }

private:
  int file_;
  std::string path_;
};

inline std::string_view text_of(const std::uint8_t* data, std::size_t size) {
  return {reinterpret_cast<const char*>(data), size};
}

}  // namespace reef::fuzz
