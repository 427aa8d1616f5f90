#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <type_traits>
#include <utility>
#include <vector>

#include <reef/codec/concept.hpp>
#include <reef/compress/concept.hpp>
#include <reef/compress/detail/encoder.hpp>
#include <reef/compress/detail/encoding_code.hpp>
#include <reef/core/error.hpp>
#include <reef/core/hash.hpp>
#include <reef/core/policy_tag.hpp>

namespace reef::inline v0::compress {

/// The codec of what tensors between stages carry forward.
template <codec::any_codec C>
struct Activation {
  using Codec = C;
  static constexpr schedule::Traffic traffic = schedule::Traffic::activation;
};

/// The codec of their gradients, on the way back.
template <codec::any_codec C>
struct ActivationGradient {
  using Codec = C;
  static constexpr schedule::Traffic traffic = schedule::Traffic::activation_gradient;
};

/// The codec of gradients of parameters: on the way to their owners, and of their sums on the way back where an optimizer
/// brings those to all.
template <codec::any_codec C>
struct Gradient {
  using Codec = C;
  static constexpr schedule::Traffic traffic = schedule::Traffic::gradient;
};

/// The codec of weights on the way from their owners.
template <codec::any_codec C>
struct Parameter {
  using Codec = C;
  static constexpr schedule::Traffic traffic = schedule::Traffic::parameter;
};

namespace detail {

/// A channel that a compressor leaves as it is.
struct AsItIs {};

template <schedule::Traffic traffic, class... C>
struct CodecOf {
  using type = AsItIs;
};
template <schedule::Traffic traffic, class First, class... Rest>
struct CodecOf<traffic, First, Rest...> {
  using type = typename std::conditional_t<First::traffic == traffic, std::type_identity<typename First::Codec>,
                                           CodecOf<traffic, Rest...>>::type;
};

template <schedule::Traffic... traffic>
constexpr bool all_differ() {
  constexpr std::array<schedule::Traffic, sizeof...(traffic)> all{traffic...};
  for (std::size_t i = 0; i < all.size(); ++i) {
    for (std::size_t k = 0; k < i; ++k) {
      if (all[i] == all[k]) return false;
    }
  }
  return true;
}

}  // namespace detail

/// A codec for each sort of traffic: what goes over the wire, and what arrives, is what it makes of the numbers. Channels
/// without one stay as they are.
///
/// \code
/// using Compress = compress::Channels<compress::Activation<codec::Blockwise8>,
///                                     compress::Gradient<codec::ErrorFeedback<codec::TopK>>>;
/// Compress::Options options;
/// options.gradient.inner.ratio = 50;
/// static_assert(compress::compressor_policy<Compress>);
/// \endcode
///
/// | where      | Encode and Decode in the place of the copies beside a Send and a Receive; EncodeParts, ExchangeEncoded    |
/// |            | and DecodeFold in that of a reduce-scatter; EncodeShard, GatherEncoded and DecodeShards in that of an      |
/// |            | all-gather. Every message is a codec's, also a rank's own to itself: replicas never differ                 |
/// | order      | what arrived is folded in the order of ranks, decoded: P ranks have the bits of virtual_ranks = P          |
/// | wire       | at most encoded_bytes(n) of each message, exactly that where the codec is exact                            |
/// | memory     | of codecs that have one: of an edge on each end, of gradients on each rank for each owner's part, in units |
/// |            | of the summed gradient; of what owners send back, on each owner. It changes with steps that count alone;   |
/// |            | an evaluation leaves it. A checkpoint has it, and another number of ranks drops it                        |
/// | weights    | that travel by a codec which loses something are rounded from master weights, which owners keep            |
/// | errors     | OptionError: a type that is not fp32 or bf16, gradients that are rounded already (precision::Bf16Gradients)  |
/// |            | under a codec; DecodeError, with sender and name, for a message that is not as it was sent                   |
///
/// Source: FusionLLM, arXiv 2410.12707, section 5 (edges); Seide et al., Interspeech 2014 (gradients).
template <class... C>
struct Channels {
  static_assert(detail::all_differ<C::traffic...>(),
                "reef::compress::Channels: two codecs for one channel.\n  fix: one of each Activation, "
                "ActivationGradient, Gradient, Parameter.");

  using policy_tag = CompressTag;
  static constexpr bool lossless = (C::Codec::lossless && ...);
  static constexpr Payload payload = ((C::traffic == schedule::Traffic::gradient) || ...) ? Payload::encoded
                                                                                          : Payload::dense;

  template <schedule::Traffic traffic>
  using Codec = typename detail::CodecOf<traffic, C...>::type;

  /// By channel its codec, with the codec's members.
  struct Options {
    Codec<schedule::Traffic::activation> activation{};
    Codec<schedule::Traffic::activation_gradient> activation_gradient{};
    Codec<schedule::Traffic::gradient> gradient{};
    Codec<schedule::Traffic::parameter> parameter{};
  };

  static void plan(run::StepPlan& plan, const Options& options) {
    each_codec(options, [&]<class Own>(schedule::Traffic traffic, const Own& own) {
      run::WireForm& form = plan.wire[static_cast<std::size_t>(traffic)];
      form.bytes = [own](int, std::int64_t n) { return own.encoded_bytes(n); };
      form.exact = Own::exact;
      form.lossless = Own::lossless;
      static_cast<void>(own.encoded_bytes(1));  // throws what its members are not to be
      if (codec::state_of(own, 1) > 0) form.state = [own](int, std::int64_t n) { return codec::state_of(own, n); };
      if (codec::received_state_of(own, 1) > 0) {
        form.received_state = [own](int, std::int64_t n) { return codec::received_state_of(own, n); };
      }
      if (traffic == schedule::Traffic::parameter && !Own::lossless) plan.own_master = true;
    });
    if (sizeof...(C) > 0 && plan.sum_bytes() != sizeof(float)) {
      throw OptionError("reef::compress::Channels: the model is of ", name_of(plan.dag->element),
                        ".\n  why: codecs are of fp32, and of bf16 widened to it.\n"
                        "  fix: precision::Fp32 or precision::Bf16, or compress::Dense.");
    }
    if (plan.rounds_gradients() && plan.wire_of(schedule::Traffic::gradient).encodes()) {
      throw OptionError("reef::compress::Channels: gradients are rounded to ", name_of(plan.gradient),
                        " and encoded.\n  why: what the one has lost the other does not know.\n"
                        "  fix: precision::Bf16, whose gradients are fp32, or no Gradient channel.");
    }
  }

  static void reserve(run::StepBuilder& builder) { detail::reserve_memories(builder); }
  static void add(run::StepBuilder& builder) { detail::Encoder(builder).run(); }
  static std::vector<run::StateRange> state(const run::StepBuilder& builder) {
    return detail::memory_ranges(builder);
  }

  template <class Handlers, class RankContext>
  static void add_code(Handlers& handlers, const RankContext& context, const Options& options) {
    const auto with_codec = [options](schedule::Traffic wanted, int /*index*/, const auto& f) {
      each_codec(options, [&](schedule::Traffic traffic, const auto& own) {
        if (traffic == wanted) f(own);
      });
    };
    detail::EncodingCode<Handlers, RankContext, decltype(with_codec)>::add(handlers, context, with_codec);
  }

  static void hash(Hash& hash, const Options& options) {
    each_codec(options, [&]<class Own>(schedule::Traffic traffic, const Own& own) {
      hash.add(schedule::name_of(traffic)).add(Own::name);
      for (const std::int64_t n : {1, 1000, 1 << 20}) hash.add(own.encoded_bytes(n));
    });
  }

private:
  /// f(traffic, codec) for each channel that has one.
  template <class F>
  static void each_codec(const Options& options, const F& f) {
    const auto call = [&]<class Own>(schedule::Traffic traffic, const Own& own) {
      if constexpr (!std::is_same_v<Own, detail::AsItIs>) f(traffic, own);
    };
    call(schedule::Traffic::activation, options.activation);
    call(schedule::Traffic::activation_gradient, options.activation_gradient);
    call(schedule::Traffic::gradient, options.gradient);
    call(schedule::Traffic::parameter, options.parameter);
  }
};

}  // namespace reef::inline v0::compress
