// Codecs on a GPU beside a copy of as many numbers over the link, which they stand for; top-k beside CUB's sort of all of
// them by magnitude. Bytes are those of the numbers, not of messages; `of_rival` is the rival's time over ours: 1 is equal,
// more is faster. cuda_top_k.py times torch.topk of as many.

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include <benchmark/benchmark.h>
#include <cub/device/device_radix_sort.cuh>

#include <reef/compress/cuda.cuh>
#include <reef/compress/cuda/top_k.cuh>
#include <reef/core/random.hpp>
#include <reef/core/text.hpp>

#include "support/cuda_measure.hpp"

namespace {

using namespace reef;
using device::Copy;
using device::Cuda;
using reef_bench::add_beside;
using reef_bench::Numbers;
using Lane = Cuda::Lane;

using Memory = std::shared_ptr<const Numbers>;
using Pinned = std::shared_ptr<Cuda::PinnedBuffer>;

/// Numbers of many magnitudes.
Memory drawn(Cuda& cuda, Lane& lane, std::int64_t n) {
  const Memory memory = std::make_shared<Numbers>(cuda, lane, n);
  std::vector<float> values(static_cast<std::size_t>(n));
  for (std::size_t i = 0; i < values.size(); ++i) {
    const auto at = static_cast<float>(static_cast<std::int32_t>(random_bits({1, 0, 0, 0}, i))) * 0x1p-31F;
    values[i] = at * at * at;
  }
  lane.submit([&](Lane& self) { self.copy(*memory, values.data(), values.size() * sizeof(float), Copy::to_device); });
  lane.synchronize();
  return memory;
}

template <class C>
void add_codec(Cuda& cuda, Lane& lane, const C& format, std::int64_t n) {
  const Memory values = drawn(cuda, lane, n);
  const Bytes bytes = static_cast<Bytes>(n) * sizeof(float);
  const Pinned message = std::make_shared<Cuda::PinnedBuffer>(cuda.allocate_pinned(format.encoded_bytes(n), "message"));
  const Pinned numbers = std::make_shared<Cuda::PinnedBuffer>(cuda.allocate_pinned(bytes, "numbers"));
  const auto room = [=] { return std::span(static_cast<std::byte*>(message->data()), message->bytes()); };
  lane.submit([&](Lane& self) { compress::cuda::encode(self, format, static_cast<const float*>(*values), n, room()); });
  lane.synchronize();
  const auto entry = [&](const char* what, auto function, bool out) {
    add_beside(
        lane, concat(C::name, "_", what, "/", n), function,
        [=](Lane& self) {
          if (out) {
            self.copy(numbers->data(), *values, bytes, Copy::to_host);
          } else {
            self.copy(*values, numbers->data(), bytes, Copy::to_device);
          }
        },
        out ? "a copy to the host" : "a copy to the device", static_cast<double>(bytes), "bytes");
  };
  entry("encode", [=](Lane& self) { compress::cuda::encode(self, format, static_cast<const float*>(*values), n, room()); },
        true);
  entry("payload", [=](Lane& self) {  // without the head and the checksum, for which the host waits
    compress::cuda::encode_payload(self, format, static_cast<const float*>(*values), n,
                                   room().subspan(codec::message_head_bytes).data());
  }, true);
  entry("decode", [=](Lane& self) {
    compress::cuda::decode(self, format, std::span<const std::byte>(room()), static_cast<float*>(*values), n);
  }, false);
}

struct Magnitude {
  const float* values;
  std::uint32_t* keys;
  std::uint32_t* indices;
  __device__ void operator()(std::int64_t i) const {
    keys[i] = compress::cuda::bits_of(values[i]) & 0x7fffffffU;
    indices[i] = static_cast<std::uint32_t>(i);
  }
};

void add_top_k(Cuda& cuda, Lane& lane, int ratio, std::int64_t n) {
  const codec::TopK format{static_cast<double>(ratio)};
  const Memory values = drawn(cuda, lane, n);
  const auto encoder = std::make_shared<compress::cuda::TopKEncoder>(cuda);
  const auto message = std::make_shared<std::vector<std::byte>>(format.encoded_bytes(n));
  const auto memory = [&](std::int64_t count) { return std::make_shared<const Numbers>(cuda, lane, count); };
  const Memory keys = memory(n), indices = memory(n), sorted_keys = memory(n), sorted = memory(n);
  const auto sort = [=](void* at, std::size_t& room, cudaStream_t stream) {
    cub::DeviceRadixSort::SortPairsDescending(at, room, static_cast<const std::uint32_t*>(*keys),
                                              static_cast<std::uint32_t*>(*sorted_keys),
                                              static_cast<const std::uint32_t*>(*indices),
                                              static_cast<std::uint32_t*>(*sorted), n, 0, 31, stream);
  };
  std::size_t room = 0;
  sort(nullptr, room, nullptr);
  const Memory scratch = memory(static_cast<std::int64_t>(room / sizeof(float)) + 1);
  add_beside(
      lane, concat("top_k_", ratio, "/", n),
      [=](Lane& self) { encoder->encode(self, format, static_cast<const float*>(*values), n, *message); },
      [=](Lane& self) {
        device::for_each_index(self, n, Magnitude{*values, *keys, *indices});
        std::size_t bytes = room;
        sort(*scratch, bytes, self.stream());
      },
      "cub::DeviceRadixSort of all", 4.0 * static_cast<double>(n), "bytes");
}

}  // namespace

int main(int argc, char** argv) {
  benchmark::Initialize(&argc, argv);
  std::string why;
  if (!device::cuda_available(&why)) {
    std::printf("skipped: %s\n", why.c_str());
    return 0;
  }
  Cuda cuda;
  Lane lane(cuda, "compute");
  std::printf("%s\n", cuda.properties().name);
  for (const std::int64_t n : {std::int64_t{1} << 20, std::int64_t{1} << 24}) {
    add_codec(cuda, lane, codec::Bf16(), n);
    add_codec(cuda, lane, codec::Blockwise8(), n);
    for (const int ratio : {10, 100}) add_top_k(cuda, lane, ratio, n);
  }
  benchmark::RunSpecifiedBenchmarks();
  benchmark::ClearRegisteredBenchmarks();  // what they hold is of the device
}
