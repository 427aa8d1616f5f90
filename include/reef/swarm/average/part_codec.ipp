#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <memory>

#include <reef/core/error.hpp>
#include <reef/core/finite.hpp>
#include <reef/core/inline.hpp>
#include <reef/core/text.hpp>
#include <reef/swarm/average/dense_parts.hpp>
#include <reef/swarm/average/part_codec.hpp>

namespace reef {
inline namespace v0 {
namespace swarm {

namespace detail {

inline bool all_finite(std::span<const float> numbers) {
  return std::all_of(numbers.begin(), numbers.end(), [](float number) { return is_finite(number); });
}

/// Returns numbers as they are, or encoded; a single byte, which is no message, if one is not finite.
inline Bulk message_of_numbers(const codec::Chosen& format, std::span<const float> numbers,
                               std::span<const float> state, std::span<float> next) {
  std::vector<std::byte> bytes(1);
  if (!format) {
    const std::span<const std::byte> raw = std::as_bytes(numbers);
    bytes.assign(raw.begin(), raw.end());
  } else if (all_finite(numbers)) {
    bytes.resize(static_cast<std::size_t>(format.encoded_bytes(static_cast<std::int64_t>(numbers.size()))));
    bytes.resize(static_cast<std::size_t>(format.encode(numbers, state, next, bytes)));
  } else {
    std::copy(state.begin(), state.end(), next.begin());
  }
  return std::make_shared<const std::vector<std::byte>>(std::move(bytes));
}

inline void read_message(const codec::Chosen& format, const Bulk& message, std::span<float> numbers) {
  if (format) {
    format.decode(*message, {}, {}, numbers);
  } else {
    read_dense_parts(std::span(&message, 1), numbers);
  }
}

inline codec::Chosen format_of(std::string_view text) {
  return text == "fp32" ? codec::Chosen{} : codec::Chosen::of(text);
}

/// Refuses a text of codecs.
[[noreturn]] inline void refuse_part_codec(std::string_view text, std::string_view why, std::string_view fix) {
  throw OptionError("reef::swarm: the codec ", in_quotes(text), " of a job: ", why, ".\n  fix: ", fix, ".");
}

}  // namespace detail

REEF_INLINE PartCodec::PartCodec(codec::Chosen contributions, codec::Chosen results, std::string_view text)
    : contributions_(std::move(contributions)), results_(std::move(results)) {
  const std::string name = text.empty() ? this->text() : std::string(text);
  if (contributions_ && contributions_.received_state(1) != 0) {
    detail::refuse_part_codec(name, "its receiver keeps a memory, and who receives a part changes with the members",
                              "a codec with a memory at the sender alone, as ef+CODEC");
  }
  if (results_ && results_.state(1) != 0) {
    detail::refuse_part_codec(name, "a codec of results has no memory, as who encodes them changes with the members",
                              "CODEC,CODEC, of which the second is without ef");
  }
}

REEF_INLINE PartCodec PartCodec::of(std::string_view text) {
  constexpr std::int64_t many = 4096;
  if (text.empty()) return {};
  if (text.find("random-k") != std::string_view::npos) {
    detail::refuse_part_codec(text, "it would select the same numbers in each round", "top-k or chunk-top-k");
  }
  const std::size_t comma = (std::min)(text.find(','), text.size());
  const auto refused = [&](std::string_view of) {
    const std::string_view own = of == "contributions" ? text.substr(0, comma) : text.substr(comma + 1);
    if (!own.empty() && own != "none") return;
    detail::refuse_part_codec(text, concat("it says none of ", of), "fp32, or a codec");
  };
  refused("contributions");
  const codec::Chosen contributions = detail::format_of(text.substr(0, comma));
  if (comma < text.size()) {
    refused("results");
    return {contributions, detail::format_of(text.substr(comma + 1)), text};
  }
  const bool is_of_both = contributions && contributions.state(1) == 0 && contributions.kept(many) == many;
  return {contributions, is_of_both ? contributions : codec::Chosen{}, text};
}

REEF_INLINE std::string PartCodec::text() const {
  const std::string contributions = contributions_ ? contributions_.text() : "fp32";
  const std::string results = results_ ? results_.text() : "fp32";
  return contributions == results ? contributions : concat(contributions, ",", results);
}

REEF_INLINE Bulk PartCodec::encode_part(std::span<const float> numbers, std::span<const float> state,
                                        std::span<float> next) const {
  return detail::message_of_numbers(contributions_, numbers, state, next);
}
REEF_INLINE Bulk PartCodec::encode_result(std::span<const float> numbers) const {
  return detail::message_of_numbers(results_, numbers, {}, {});
}
REEF_INLINE void PartCodec::decode_part(const Bulk& part, std::span<float> numbers) const {
  detail::read_message(contributions_, part, numbers);
}
REEF_INLINE void PartCodec::decode_result(const Bulk& result, std::span<float> numbers) const {
  detail::read_message(results_, result, numbers);
}

REEF_INLINE core::RoundFunctions part_functions(const PartCodec& codec, std::int64_t parameters, std::int64_t piece) {
  core::RoundFunctions functions = dense_functions(parameters, piece);
  if (codec.is_fp32()) return functions;
  const auto length_of = [parameters, piece](std::int64_t at) {
    return static_cast<std::size_t>((std::min)(piece, parameters - at * piece));
  };
  functions.fold = [codec, length_of](std::int64_t at, std::span<const Bulk> parts) {
    std::vector<float> sum(length_of(at));
    std::vector<float> decoded(sum.size());
    try {
      for (std::size_t k = 0; k < parts.size(); ++k) {
        codec.decode_part(parts[k], k == 0 ? sum : decoded);
        for (std::size_t i = 0; k > 0 && i < sum.size(); ++i) sum[i] += decoded[i];
      }
    } catch (const DecodeError&) {
      // Of all parts the reducer's own alone is not checked before: the one that says that it is not finite.
      std::fill(sum.begin(), sum.end(), NAN);
    }
    return codec.encode_result(sum);
  };
  functions.accepts = [codec, length_of](std::int64_t at, const Bulk& part) {
    std::vector<float> decoded(length_of(at));
    try {
      codec.decode_part(part, decoded);
    } catch (const DecodeError&) {
      return false;
    }
    return detail::all_finite(decoded);
  };
  functions.judge = [codec, length_of](std::span<const Bulk> results, double weight, double loss) {
    double squares = 0;
    for (std::size_t at = 0; at < results.size(); ++at) {
      std::vector<float> numbers(length_of(static_cast<std::int64_t>(at)));
      try {
        codec.decode_result(results[at], numbers);
      } catch (const DecodeError&) {
        return RoundVerdict{false, 0, 1, 0};
      }
      double of_piece = 0;
      for (const double number : numbers) of_piece += number * number;
      squares += of_piece;
    }
    return detail::verdict_of(squares, weight, loss);
  };
  return functions;
}

REEF_INLINE void read_results(const PartCodec& codec, std::span<const Bulk> results, std::int64_t piece,
                              std::span<float> numbers) {
  if (codec.is_fp32()) return read_dense_parts(results, numbers);
  for (const Bulk& result : results) {
    const std::span<float> own = numbers.first((std::min)(numbers.size(), static_cast<std::size_t>(piece)));
    codec.decode_result(result, own);
    numbers = numbers.subspan(own.size());
  }
  if (!numbers.empty()) {
    throw DecodeError("reef::swarm: the results of a round are ", numbers.size(),
                      " numbers short.\n  fix: the model of the job, on all peers.");
  }
}

REEF_INLINE ContributionEncoder::ContributionEncoder(PartCodec codec, std::int64_t parameters, std::int64_t piece)
    : codec_(std::move(codec)), piece_(piece) {
  std::int64_t state = 0;
  for (std::int64_t from = 0; from < parameters; from += piece) {
    state += codec_.state((std::min)(piece, parameters - from));
  }
  state_.resize(static_cast<std::size_t>(state));
  next_.resize(state_.size());
}

REEF_INLINE std::vector<Bulk> ContributionEncoder::encode(std::span<const float> numbers) {
  std::vector<Bulk> parts;
  std::span<const float> state = state_;
  std::span<float> next = next_;
  while (!numbers.empty()) {
    const auto own = numbers.first((std::min)(numbers.size(), static_cast<std::size_t>(piece_)));
    const auto kept = static_cast<std::size_t>(codec_.state(static_cast<std::int64_t>(own.size())));
    parts.push_back(codec_.encode_part(own, state.first(kept), next.first(kept)));
    numbers = numbers.subspan(own.size());
    state = state.subspan(kept);
    next = next.subspan(kept);
  }
  return parts;
}

REEF_INLINE void ContributionEncoder::advance() { state_ = next_; }

}  // namespace swarm
}  // namespace v0
}  // namespace reef
