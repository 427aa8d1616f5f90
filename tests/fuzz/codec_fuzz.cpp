// A message in a format of numbers that another rank sent: as it came, and with the head that it should have.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <vector>

#include <reef/codec.hpp>

#include "target.hpp"

namespace {

using namespace reef;
using Message = std::vector<std::byte>;

template <class Codec>
void decode(const Codec& format, std::span<const std::byte> message, std::size_t n) {
  constexpr float untouched = 7;
  std::vector<float> values(n, untouched);
  if (fuzz::reads([&] { format.decode(message, values); })) {
    const Bytes most = format.encoded_bytes(static_cast<std::int64_t>(n));
    fuzz::demand(Codec::exact ? message.size() == most : message.size() <= most,
                 "what is believed has the bytes that so many numbers take");
  } else {
    fuzz::demand(std::all_of(values.begin(), values.end(), [](float v) { return v == untouched; }),
                 "of what is not believed nothing is written");
  }
}

/// The head that would make a message of these bytes one of the format.
template <class Codec>
void decode_both(const Codec& format, codec::CodecId id, std::uint64_t parameter,
                 std::span<const std::byte> input, std::size_t n) {
  decode(format, input, n);
  if (input.size() < codec::message_head_bytes) return;
  Message sealed(input.begin(), input.end());
  codec::seal_message(sealed, {id, Codec::name, parameter, static_cast<std::int64_t>(n)},
                      sealed.size() - codec::message_head_bytes);
  decode(format, sealed, n);
}

}  // namespace

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  const auto input = std::as_bytes(std::span(data, size)).subspan(1);
  const std::size_t n = data[0];  // numbers that are awaited
  decode_both(codec::Blockwise8{16}, codec::CodecId::blockwise8, 16, input, n);
  decode_both(codec::Uniform8{}, codec::CodecId::uniform8, 0, input, n);
  decode_both(codec::NormalFloat4{}, codec::CodecId::normal_float4, 64 << 1, input, n);
  decode_both(codec::NormalFloat4{.block = 8, .nested = true}, codec::CodecId::normal_float4, 8 << 1 | 1, input, n);
  const codec::TopK top_k{.ratio = 5};
  decode_both(top_k, codec::CodecId::top_k,
              static_cast<std::uint64_t>(top_k.kept(static_cast<std::int64_t>(n))), input, n);
  return 0;
}
