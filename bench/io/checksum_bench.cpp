// CRC-32C of a tensor.
//
//   roof       reading the bytes
//   portable   ours without the processor's instruction
//   zlib       its crc32, where there is a libz

#include <dlfcn.h>

#include <cstddef>
#include <cstdint>
#include <numeric>
#include <vector>

#include <reef/io/checksum.hpp>

#include "support/compare.hpp"

namespace {

using namespace reef;

void checksum(benchmark::State& state, std::size_t size) {
  const std::vector<std::byte> data(size, std::byte{3});
  using Crc = unsigned long (*)(unsigned long, const unsigned char*, unsigned);
  void* const zlib = ::dlopen("libz.so.1", RTLD_NOW);
  const auto crc32 = zlib != nullptr ? reinterpret_cast<Crc>(::dlsym(zlib, "crc32")) : nullptr;
  std::vector<reef_bench::Contender> contenders{
      {"roof", [&] {
         return reef_bench::seconds_of([&] {
           const auto* const words = reinterpret_cast<const std::uint64_t*>(data.data());
           benchmark::DoNotOptimize(
               std::accumulate(words, words + data.size() / 8, std::uint64_t{0}));
         });
       }}};
  contenders.push_back({"portable", [&] {
                          return reef_bench::seconds_of([&] {
                            benchmark::DoNotOptimize(
                                io::detail::crc32c_portable(1, data.data(), data.size()));
                          });
                        }});
  if (crc32 != nullptr) {
    contenders.push_back({"zlib", [&] {
                            return reef_bench::seconds_of([&] {
                              benchmark::DoNotOptimize(
                                  crc32(0, reinterpret_cast<const unsigned char*>(data.data()),
                                        static_cast<unsigned>(data.size())));
                            });
                          }});
  }
  reef_bench::compare(
      state,
      [&] { return reef_bench::seconds_of([&] { benchmark::DoNotOptimize(io::crc32c(data)); }); },
      contenders, {.bytes = static_cast<double>(data.size())});
}

void register_all() {
  reef_bench::add("crc32c/1MiB", 101, [](auto& state) { checksum(state, std::size_t{1} << 20); });
  reef_bench::add("crc32c/64MiB", 11, [](auto& state) { checksum(state, std::size_t{64} << 20); });
}

}  // namespace

int main(int argc, char** argv) { return reef_bench::run(argc, argv, register_all); }
