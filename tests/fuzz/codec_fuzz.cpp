// A message in a format of numbers that another rank sent: as it came, with the head that it should have, and of as many
// bytes as it should have too.

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

/// The payload under the head that would make it one of the format.
template <class Codec>
void decode_sealed(const Codec& format, const codec::MessageHead& head, std::span<const std::byte> payload) {
  Message sealed(codec::message_head_bytes + payload.size());
  std::copy(payload.begin(), payload.end(), sealed.begin() + static_cast<std::ptrdiff_t>(codec::message_head_bytes));
  codec::seal_message(sealed, head, payload.size());
  decode(format, sealed, static_cast<std::size_t>(head.elements));
}

template <class Codec>
void decode_both(const Codec& format, codec::CodecId id, std::uint64_t parameter,
                 std::span<const std::byte> input, std::size_t n) {
  decode(format, input, n);
  if (input.size() < codec::message_head_bytes) return;
  const auto count = static_cast<std::int64_t>(n);
  const codec::MessageHead head{id, Codec::name, parameter, count};
  decode_sealed(format, head, input.subspan(codec::message_head_bytes));
  if (!Codec::exact) return;
  Message payload(input.begin() + static_cast<std::ptrdiff_t>(codec::message_head_bytes), input.end());
  payload.resize(static_cast<std::size_t>(format.encoded_bytes(count)) - codec::message_head_bytes);
  decode_sealed(format, head, payload);
}

template <codec::selecting_codec Codec>
void decode_both(const Codec& format, std::span<const std::byte> input, std::size_t n) {
  decode_both(format, Codec::id, format.parameter(static_cast<std::int64_t>(n)), input, n);
}

/// In a chain of one that selects and of Uniform8: the message inside sealed too, of as many bytes as it has to have.
template <codec::selecting_codec Selection>
void decode_chain(const Selection& selection, std::span<const std::byte> input, std::size_t n) {
  const codec::Chain<Selection, codec::Uniform8> format{selection, {}};
  decode(format, input, n);
  const auto count = static_cast<std::int64_t>(n);
  const std::int64_t kept = selection.kept(count);
  const auto inner = static_cast<std::size_t>(codec::Uniform8{}.encoded_bytes(kept));
  if (input.size() < codec::message_head_bytes) return;
  Message payload(input.begin() + static_cast<std::ptrdiff_t>(codec::message_head_bytes), input.end());
  decode_sealed(format, format.head(count), payload);
  if (payload.size() < inner) return;
  codec::seal_message(std::span(payload).first(inner), {codec::CodecId::uniform8, codec::Uniform8::name, 0, kept},
                      inner - codec::message_head_bytes);
  decode_sealed(format, format.head(count), payload);
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
  decode_both(codec::Dense{}, codec::CodecId::dense, 0, input, n);
  decode_both(codec::Bf16{}, codec::CodecId::bf16, 0, input, n);
  decode_both(codec::TwoBit{}, codec::CodecId::two_bit, 0, input, n);
  decode_both(codec::TwoBit{.block = 9}, codec::CodecId::two_bit, 9, input, n);
  decode_both(codec::Sign{.block = 16}, codec::CodecId::sign, 16, input, n);
  decode_both(codec::Fp8{.block = 16}, codec::CodecId::fp8, 16, input, n);
  decode_both(codec::PowerSgd{.columns = 6, .rank = 2}, codec::CodecId::power_sgd,
              std::uint64_t{6} << 32 | static_cast<std::uint64_t>(codec::PowerSgd{6, 2}.rank_of(static_cast<std::int64_t>(n))), input, n);
  const std::int64_t wide = codec::max_elements;  // columns that no number of a message fills
  decode_both(codec::PowerSgd{.columns = wide, .rank = wide}, codec::CodecId::power_sgd,
              static_cast<std::uint64_t>(wide) << 32 | (n > 0 ? 1U : 0U), input, n);
  decode_both(codec::TopK{.ratio = 5}, input, n);
  decode_both(codec::TopK{.ratio = 1.02}, input, n);
  decode_both(codec::RandomK{.ratio = 3, .unbiased = true}, input, n);
  decode_both(codec::ChunkTopK{.chunk = 16, .keep = 3}, input, n);
  decode_both(codec::ChunkTopK{.chunk = 100, .keep = 1}, input, n);
  decode_chain(codec::TopK{.ratio = 5}, input, n);
  decode_chain(codec::ChunkTopK{.chunk = 16, .keep = 3}, input, n);
  return 0;
}
