#pragma once

#include <array>
#include <optional>

#include <reef/codec/bf16.hpp>
#include <reef/codec/blockwise8.hpp>
#include <reef/codec/chain.hpp>
#include <reef/codec/chosen.hpp>
#include <reef/codec/chunk_top_k.hpp>
#include <reef/codec/dense.hpp>
#include <reef/codec/error_feedback.hpp>
#include <reef/codec/fp8.hpp>
#include <reef/codec/normal_float4.hpp>
#include <reef/codec/random_k.hpp>
#include <reef/codec/sign.hpp>
#include <reef/codec/top_k.hpp>
#include <reef/codec/two_bit.hpp>
#include <reef/codec/uniform8.hpp>
#include <reef/core/numbers.hpp>
#include <reef/core/text.hpp>

namespace reef {
inline namespace v0 {
namespace codec {

namespace detail {

/// "NAME:NUMBERS", between plus signs.
struct CodecText {
  std::string_view whole;
  std::string_view name;
  std::optional<std::string_view> numbers;
};

inline std::vector<CodecText> codec_texts(std::string_view text) {
  std::vector<CodecText> parts;
  while (true) {
    const std::size_t plus = (std::min)(text.find('+'), text.size());
    const std::string_view part = text.substr(0, plus);
    const std::size_t colon = (std::min)(part.find(':'), part.size());
    CodecText own{part, part.substr(0, colon), {}};
    if (colon < part.size()) own.numbers = part.substr(colon + 1);
    parts.push_back(own);
    if (plus == text.size()) return parts;
    text.remove_prefix(plus + 1);
  }
}

[[noreturn]] inline void refuse_codec(std::string_view whole, std::string_view why) {
  throw OptionError(
      "reef::codec: ", in_quotes(whole), " is no codec: ", why,
      ".\n  fix: [ef[:DECAY]+ | ef21+] top-k:RATIO, random-k:RATIO or chunk-top-k:KEEP/CHUNK, each also "
      "with +CODEC of what is selected; dense, bf16, fp8[:BLOCK], blockwise8[:BLOCK], uniform8, nf4[:BLOCK], two-bit, "
      "sign[:BLOCK]; or none.");
}

template <class T>
T number_in(std::string_view whole, std::string_view text) {
  const auto number = parse_number<T>(text);
  if (!number) refuse_codec(whole, concat(in_quotes(text), " is no number"));
  return *number;
}

/// What a codec of the second half of a chain may be, in one type: those that code.
template <class F>
bool with_coding(const CodecText& part, const F& f) {
  const auto none = [&] {
    if (part.numbers) refuse_codec(part.whole, concat(part.name, " takes no number"));
  };
  const auto block = [&](auto format) {
    if (part.numbers) format.block = number_in<std::int64_t>(part.whole, *part.numbers);
    static_cast<void>(format.encoded_bytes(1));  // throws for a block that cannot be
    f(format);
  };
  if (part.name == "dense") return none(), f(Dense{}), true;
  if (part.name == "bf16") return none(), f(Bf16{}), true;
  if (part.name == "uniform8") return none(), f(Uniform8{}), true;
  if (part.name == "two-bit") return none(), f(TwoBit{}), true;
  if (part.name == "fp8") return block(Fp8{}), true;
  if (part.name == "blockwise8") return block(Blockwise8{}), true;
  if (part.name == "nf4") return block(NormalFloat4{}), true;
  if (part.name == "sign") return block(Sign{}), true;
  return false;
}

template <class F>
bool with_selecting(const CodecText& part, const F& f) {
  const auto numbers = [&] {
    if (!part.numbers) refuse_codec(part.whole, concat(part.name, " takes how many it keeps, as ", part.name, ":100"));
    return *part.numbers;
  };
  if (part.name == "top-k") {
    TopK format;
    format.ratio = number_in<double>(part.whole, numbers());
    static_cast<void>(format.kept(1));
    return f(format), true;
  }
  if (part.name == "random-k") {
    RandomK format;
    format.ratio = number_in<double>(part.whole, numbers());
    static_cast<void>(format.kept(1));
    return f(format), true;
  }
  if (part.name == "chunk-top-k") {
    const std::string_view both = numbers();
    const std::size_t slash = both.find('/');
    if (slash == std::string_view::npos) refuse_codec(part.whole, "chunk-top-k takes KEEP/CHUNK, as 64/4096");
    ChunkTopK format;
    format.keep = number_in<std::int64_t>(part.whole, both.substr(0, slash));
    format.chunk = number_in<std::int64_t>(part.whole, both.substr(slash + 1));
    static_cast<void>(format.kept(1));
    return f(format), true;
  }
  return false;
}

}  // namespace detail

REEF_INLINE Chosen Chosen::of(std::string_view text) {
  using detail::refuse_codec;
  if (text == "none") return {};
  std::vector<detail::CodecText> parts = detail::codec_texts(text);
  std::optional<float> decay;
  bool ef21 = false;
  if (parts.front().name == "ef" || parts.front().name == "ef21") {
    const detail::CodecText& feedback = parts.front();
    ef21 = feedback.name == "ef21";
    if (ef21 && feedback.numbers) refuse_codec(text, "ef21 takes no number");
    if (!ef21) decay = feedback.numbers ? detail::number_in<float>(text, *feedback.numbers) : 1.0F;
    if (decay && !(*decay >= 0 && *decay <= 1)) refuse_codec(text, "a decay is from 0 to 1");
    parts.erase(parts.begin());
  }
  if (parts.empty() || parts.size() > 2) refuse_codec(text, parts.empty() ? "it only says how errors are fed back"
                                                                          : "there are more than two codecs");
  Chosen chosen;
  const auto choose = [&](const auto& format) {
    using Format = std::remove_cvref_t<decltype(format)>;
    if (ef21) {
      chosen = Chosen(Ef21<Format>{format}, std::string(text));
    } else if (decay) {
      chosen = Chosen(ErrorFeedback<Format>{format, *decay}, std::string(text));
    } else {
      chosen = Chosen(format, std::string(text));
    }
  };
  bool known = false;
  if (parts.size() == 2) {
    known = detail::with_selecting(parts[0], [&](const auto& selection) {
      const bool codes = detail::with_coding(parts[1], [&](const auto& numbers) { choose(Chain{selection, numbers}); });
      if (!codes) refuse_codec(text, concat(in_quotes(parts[1].whole), " does not code what another selects"));
    });
    if (!known) refuse_codec(text, concat(in_quotes(parts[0].whole), " selects nothing"));
  } else {
    known = detail::with_selecting(parts[0], choose) || detail::with_coding(parts[0], choose);
  }
  if (!known) refuse_codec(text, concat("there is no ", in_quotes(parts[0].name)));
  return chosen;
}

}  // namespace codec
}  // namespace v0
}  // namespace reef
