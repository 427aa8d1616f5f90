// Writing and reading 128 MiB of tensors as safetensors. Files lie in TMPDIR.
//
//   write   roof: plain write() and fsync of as many bytes to a file of its own; buffered: std::ofstream
//           and no fsync, which a power cut undoes
//   read    roof: plain read() of the same file, in the page cache; buffered: std::ifstream

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include <reef/core/tensor_view.hpp>
#include <reef/io/safetensors.hpp>

#include "support/compare.hpp"
#include "support/files.hpp"

namespace {

using namespace reef;

constexpr std::size_t bytes = std::size_t{128} << 20;
constexpr std::size_t tensors = 64;
constexpr int rounds = 7;

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

void write(benchmark::State& state) {
  const reef_bench::Folder folder;
  std::vector<float> values(bytes / sizeof(float), 0.5F);
  const auto list = views(values);
  const auto raw = std::as_bytes(std::span(values));
  reef_bench::compare(
      state,
      [&] {
        return reef_bench::seconds_of(
            [&] { io::write_safetensors(folder.path / "ours.safetensors", list); });
      },
      {{"roof", [&] { return reef_bench::plain_write(folder.path / "roof", raw); }},
       {"buffered", [&] { return reef_bench::buffered_write(folder.path / "buffered", raw); }}},
      {.bytes = bytes});
}

void read(benchmark::State& state) {
  const reef_bench::Folder folder;
  std::vector<float> values(bytes / sizeof(float), 0.5F);
  const auto list = views(values);
  const auto raw = std::as_writable_bytes(std::span(values));
  const auto path = folder.path / "ours.safetensors";
  io::write_safetensors(path, list);
  reef_bench::compare(state,
                      [&] {
                        return reef_bench::seconds_of([&] {
                          const io::SafetensorsFile file(path);
                          for (const io::NamedView& tensor : list)
                            file.read(tensor.name, tensor.view);
                        });
                      },
                      {{"roof", [&] { return reef_bench::plain_read(path, raw); }},
                       {"buffered", [&] { return reef_bench::buffered_read(path, raw); }}},
                      {.bytes = bytes});
}

void register_all() {
  reef_bench::add("write_safetensors", rounds, write);
  reef_bench::add("read_safetensors", rounds, read);
}

}  // namespace

int main(int argc, char** argv) { return reef_bench::run(argc, argv, register_all); }
