// Writing and reading 128 MiB of tensors as safetensors. Files lie in TMPDIR.
//
//   write   roof: plain write() and fsync of as many bytes to a file of its own; buffered: std::ofstream
//           and no fsync, which a power cut undoes
//   read    roof: plain read() of the same file, in the page cache; buffered: std::ifstream

#include <fcntl.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include <reef/core/tensor_view.hpp>
#include <reef/io/safetensors.hpp>

#include "support/compare.hpp"

namespace {

using namespace reef;

constexpr std::size_t bytes = std::size_t{128} << 20;
constexpr std::size_t tensors = 64;
constexpr int rounds = 7;

struct Folder {
  Folder() { std::filesystem::create_directories(path); }
  ~Folder() { std::filesystem::remove_all(path); }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;
  std::filesystem::path path =
      std::filesystem::temp_directory_path() / ("reef_bench_" + std::to_string(::getpid()));
};

std::vector<io::NamedView> views(std::vector<float>& values) {
  std::vector<io::NamedView> list;
  const std::size_t size = values.size() / tensors;
  for (std::size_t i = 0; i < tensors; ++i) {
    list.push_back(
        {"h." + std::to_string(i),
         {values.data() + i * size, Shape{static_cast<std::int64_t>(size)}, Element::float32}});
  }
  return list;
}

void require(bool done, const char* what) {
  if (!done) throw Error("safetensors_bench: ", what, " failed.\n  fix: give TMPDIR more room.");
}

void plain_write(const std::filesystem::path& path, const std::vector<float>& values) {
  const int file = ::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0644);
  const auto* at = reinterpret_cast<const std::byte*>(values.data());
  for (std::size_t left = bytes; left > 0;) {
    const ::ssize_t written = ::write(file, at, left);
    require(written > 0, "write");
    at += written;
    left -= static_cast<std::size_t>(written);
  }
  require(::fsync(file) == 0 && ::close(file) == 0, "fsync");
}

void plain_read(const std::filesystem::path& path, std::vector<float>& to) {
  const int file = ::open(path.c_str(), O_RDONLY);
  auto* at = reinterpret_cast<std::byte*>(to.data());
  for (std::size_t left = bytes; left > 0;) {
    const ::ssize_t got = ::read(file, at, left);
    require(got > 0, "read");
    at += got;
    left -= static_cast<std::size_t>(got);
  }
  ::close(file);
}

void write(benchmark::State& state) {
  const Folder folder;
  std::vector<float> values(bytes / sizeof(float), 0.5F);
  const auto list = views(values);
  reef_bench::compare(
      state,
      [&] {
        return reef_bench::seconds_of(
            [&] { io::write_safetensors(folder.path / "ours.safetensors", list); });
      },
      {{"roof",
        [&] { return reef_bench::seconds_of([&] { plain_write(folder.path / "roof", values); }); }},
       {"buffered",
        [&] {
          return reef_bench::seconds_of([&] {
            std::ofstream file(folder.path / "buffered", std::ios::binary);
            file.write(reinterpret_cast<const char*>(values.data()), bytes);
          });
        }}},
      {.bytes = bytes});
}

void read(benchmark::State& state) {
  const Folder folder;
  std::vector<float> values(bytes / sizeof(float), 0.5F);
  const auto list = views(values);
  const auto path = folder.path / "ours.safetensors";
  io::write_safetensors(path, list);
  reef_bench::compare(
      state,
      [&] {
        return reef_bench::seconds_of([&] {
          const io::SafetensorsFile file(path);
          for (const io::NamedView& tensor : list) file.read(tensor.name, tensor.view);
        });
      },
      {{"roof", [&] { return reef_bench::seconds_of([&] { plain_read(path, values); }); }},
       {"buffered",
        [&] {
          return reef_bench::seconds_of([&] {
            std::ifstream file(path, std::ios::binary);
            file.read(reinterpret_cast<char*>(values.data()), bytes);
          });
        }}},
      {.bytes = bytes});
}

void register_all() {
  reef_bench::add("write_safetensors", rounds, write);
  reef_bench::add("read_safetensors", rounds, read);
}

}  // namespace

int main(int argc, char** argv) { return reef_bench::run(argc, argv, register_all); }
