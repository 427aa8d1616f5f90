#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include <reef/codec/adjust.hpp>
#include <reef/codec/concept.hpp>
#include <reef/codec/delta.hpp>
#include <reef/codec/message.hpp>
#include <reef/codec/top_k.hpp>
#include <reef/compress/concept.hpp>
#include <reef/compress/detail/adapted_ratios.hpp>
#include <reef/compress/detail/encoder.hpp>
#include <reef/compress/detail/encoding_code.hpp>
#include <reef/core/error.hpp>
#include <reef/core/hash.hpp>
#include <reef/core/policy_tag.hpp>
#include <reef/core/units.hpp>
#include <reef/schedule/world.hpp>

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

/// The codec of how far ranks have gone on their own: of optim::DiLoCo.
template <codec::any_codec C>
struct PseudoGradient {
  using Codec = C;
  static constexpr schedule::Traffic traffic = schedule::Traffic::pseudo_gradient;
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

/// What an edge or a bucket carries.
struct Carried {
  schedule::Traffic traffic{};
  int index = 0;  ///< of the remote edge, or the bucket
  std::int64_t numbers = 0;
  std::vector<std::string_view> names{};  ///< of the tensor, or of parameters
  int from_segment = 0;  ///< of a bucket, the segment that has it
  int to_segment = 0;
  int from_stage = 0;
  int to_stage = 0;
};

namespace detail {

inline std::vector<Carried> carried_by(const run::StepPlan& plan, schedule::Traffic traffic) {
  std::vector<Carried> all;
  const auto stage_of = [&](int segment) { return plan.stage_of_segment[static_cast<std::size_t>(segment)]; };
  if (schedule::is_between_stages(traffic)) {
    for (std::size_t e = 0; e < plan.remote_edges.size(); ++e) {
      const graph::RemoteEdge& edge = plan.remote_edges[e];
      if (edge.gradient != (traffic == schedule::Traffic::activation_gradient)) continue;
      const graph::Tensor& tensor = plan.dag->tensor_at(edge.tensor);
      all.push_back({traffic, static_cast<int>(e), tensor.spec.shape.size(), {tensor.name}, edge.from, edge.to,
                     stage_of(edge.from), stage_of(edge.to)});
    }
    return all;
  }
  for (std::size_t b = 0; b < plan.buckets.size(); ++b) {
    const run::Bucket& bucket = plan.buckets[b];
    all.push_back({traffic, static_cast<int>(b), bucket.size(), {}, bucket.segment, bucket.segment, bucket.stage, bucket.stage});
    for (std::size_t p = 0; p < plan.dag->parameters.size(); ++p) {
      if (plan.bucket_of_parameter[p] == static_cast<int>(b)) all.back().names.push_back(plan.dag->parameters[p].name);
    }
  }
  return all;
}

/// Throws OptionError where no optimizer sends what is to be encoded.
inline void require_traffic(const run::StepPlan& plan, schedule::Traffic traffic, const std::string& codec) {
  using schedule::Traffic;
  const bool weights = plan.gathers_of(Traffic::parameter);
  const bool sums = weights || plan.gathers_of(Traffic::gradient);
  const bool outer = plan.gathers_of(Traffic::pseudo_gradient);
  if ((traffic != Traffic::gradient || sums) && (traffic != Traffic::parameter || weights) &&
      (traffic != Traffic::pseudo_gradient || outer)) {
    return;
  }
  throw OptionError("reef::compress::Channels: the channel ", schedule::name_of(traffic), " is to have the codec ", codec,
                    ".\n  why: this optimizer sends none of that.\n  fix: leave the channel as it is, or ",
                    traffic == Traffic::parameter  ? "an optimizer whose weights are sharded, as optim::Zero1."
                    : traffic == Traffic::gradient ? "an optimizer that sums gradients over ranks, as optim::Ddp."
                                                   : "an optimizer with outer steps, optim::DiLoCo.");
}

/// What a codec makes of some numbers stands for its members.
template <codec::any_codec C>
void add_message(Hash& hash, const C& format) {
  if (const std::int64_t period = codec::period_of(format); period > 0) hash.add(period);
  constexpr std::size_t n = 10'000;
  std::vector<float> values(n);
  for (std::size_t i = 0; i < n; ++i) values[i] = static_cast<float>(i * 7919 % 10'007) / 5000 - 1;
  std::vector<float> next(static_cast<std::size_t>(codec::state_of(format, n)));
  const std::vector<float> state(next.size(), 0.25F);
  std::vector<std::byte> message(static_cast<std::size_t>(format.encoded_bytes(n)));
  codec::encode(format, std::span<const float>(values), state, next, message);
  const std::span<const std::byte> used = codec::message_in(message);
  hash.add(std::string_view(reinterpret_cast<const char*>(used.data()), used.size()));
}

/// Throws OptionError for a codec that sends some of many numbers, or what they changed by.
template <codec::any_codec C>
void require_all_numbers(const C& format) {
  constexpr std::int64_t n = 256;
  bool whole = codec::state_of(format, n) == 0 && codec::received_state_of(format, n) == 0;
  if (whole) {
    const std::vector<float> ones(n, 1.0F);
    std::vector<float> decoded(n);
    std::vector<std::byte> message(static_cast<std::size_t>(format.encoded_bytes(n)));
    codec::encode(format, std::span<const float>(ones), {}, {}, message);
    codec::decode(format, codec::message_in(message), {}, {}, decoded);
    whole = std::find(decoded.begin(), decoded.end(), 0.0F) == decoded.end();
  }
  if (whole) return;
  throw OptionError("reef::compress::Channels: weights are to go by ", codec::text_of(format),
                    ".\n  why: ranks get weights, not what they changed by: one that is not sent would be 0.\n"
                    "  fix: a codec that sends every number and remembers nothing, as Bf16 or Blockwise8.");
}

/// Throws OptionError where numbers are none that codecs have, or are rounded already.
inline void require_floats(const run::StepPlan& plan) {
  const bool encodes =
      std::any_of(plan.wire.begin(), plan.wire.end(), [](const run::WireForm& form) { return form.encodes(); });
  if (encodes && plan.sum_bytes() != sizeof(float)) {
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

}  // namespace detail

/// A codec for each sort of traffic: what goes over the wire, and what arrives, is what it makes of the numbers. Channels
/// without one stay as they are.
///
/// \code
/// #include <reef/codec/blockwise8.hpp>
/// #include <reef/codec/error_feedback.hpp>
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
/// | differences | of ranks that step on their own: EncodeShard, GatherEncoded, DecodeShards; a message for each parameter  |
/// | memory     | of codecs that have one: of an edge on each end, of gradients on each rank for each owner's part, in units |
/// |            | of the summed gradient; of what owners send back, on each owner. It changes with steps that count alone;   |
/// |            | an evaluation leaves it. That of differences changes with each outer step. A checkpoint has it, and another number of ranks drops it                        |
/// | samples    | that come again, of a codec with a period (Delta): a memory on each end of an edge for each micro-batch of  |
/// |            | these steps. Evaluations, whose samples are others, send as it is                                         |
/// | weights    | that travel by a codec which loses something are rounded from master weights, which owners keep. It sends   |
/// |            | every number and remembers nothing: OptionError for others                                                  |
/// | errors     | OptionError: a type that is not fp32 or bf16, gradients that are rounded already (precision::Bf16Gradients)  |
/// |            | under a codec; DecodeError, with sender and name, for a message that is not as it was sent                   |
///
/// Source: FusionLLM, arXiv 2410.12707, section 5 (edges); Seide et al., Interspeech 2014 (gradients).
template <class... C>
struct Channels {
  static_assert(detail::all_differ<C::traffic...>(),
                "reef::compress::Channels: two codecs for one channel.\n  fix: one of each Activation, "
                "ActivationGradient, Gradient, Parameter, PseudoGradient.");

  using policy_tag = CompressTag;
  static constexpr bool lossless = (C::Codec::lossless && ...);
  /// A codec of that channel is known before a program runs.
  static constexpr bool carries(schedule::Traffic traffic) {
    return ((C::traffic == traffic && !requires { C::Codec::known_later; }) || ...);
  }
  static constexpr Payload payload =
      (carries(schedule::Traffic::gradient) ? Payload::encoded : Payload::dense) |
      (carries(schedule::Traffic::pseudo_gradient) ? Payload::differences : Payload::none);

  template <schedule::Traffic traffic>
  using Codec = typename detail::CodecOf<traffic, C...>::type;

  /// By channel its codec, with the codec's members.
  struct Options {
    Codec<schedule::Traffic::activation> activation{};
    Codec<schedule::Traffic::activation_gradient> activation_gradient{};
    Codec<schedule::Traffic::gradient> gradient{};
    Codec<schedule::Traffic::parameter> parameter{};
    Codec<schedule::Traffic::pseudo_gradient> pseudo_gradient{};

    /// AdaTopK: the links between all ranks, by which codecs with a ratio get one for each edge; their own is that of the
    /// slowest link. Not given: every edge has the codec's own.
    std::optional<schedule::World> network{};
    /// What the slowest stage computes of a micro-batch: no link is made faster than that. 0: it is not asked for.
    Seconds stage_compute = 0;
    /// The ratio of what an edge or a bucket carries; 1: it stays as it is; nothing: what it has else. Every rank says the same.
    /// It is not asked of pseudo-gradients, whose messages are pieces of fragments.
    std::function<std::optional<double>(const Carried&)> choose{};
  };

  static void plan(run::StepPlan& plan, const Options& options) {
    each_codec(options, [&]<class Own>(schedule::Traffic traffic, const Own& own) {
      detail::require_traffic(plan, traffic, codec::text_of(own));
      run::WireForm& form = plan.wire[static_cast<std::size_t>(traffic)];
      static_cast<void>(own.encoded_bytes(1));  // throws what its members are not to be
      if (traffic == schedule::Traffic::parameter) detail::require_all_numbers(own);
      form.codec = codec::text_of(own);
      form.period = codec::period_of(own);
      detail::require_period(plan, traffic, form.period, form.codec);
      form.exact = codec::is_exact(own);
      form.lossless = codec::is_lossless(own);
      form.ratios = ratios_of(plan, options, traffic, own);
      form.bytes = [own, ratios = form.ratios](int index, std::int64_t n) {
        return with_ratio_of(own, ratios, index).encoded_bytes(n);
      };
      if (codec::state_of(own, 1) > 0) form.state = [own](int, std::int64_t n) { return codec::state_of(own, n); };
      if (codec::received_state_of(own, 1) > 0) {
        form.received_state = [own](int, std::int64_t n) { return codec::received_state_of(own, n); };
      }
      if (traffic == schedule::Traffic::parameter && !form.lossless) plan.own_master = true;
    });
    detail::require_floats(plan);
  }

  static void reserve(run::StepBuilder& builder) { detail::reserve_memories(builder); }
  static void add(run::StepBuilder& builder) { detail::Encoder(builder).run(); }
  static std::vector<run::StateRange> state(const run::StepBuilder& builder) {
    return detail::memory_ranges(builder);
  }

  template <class Handlers, class RankContext>
  static void add_code(Handlers& handlers, const RankContext& context, const Options& options) {
    const auto with_codec = [options, &plan = context.plan()](schedule::Traffic wanted, int index, const auto& f) {
      each_codec(options, [&](schedule::Traffic traffic, const auto& own) {
        if (traffic == wanted) f(with_ratio_of(own, plan.wire_of(traffic).ratios, index));
      });
    };
    detail::EncodingCode<Handlers, RankContext, decltype(with_codec)>::add(handlers, context, with_codec);
  }

  static void hash(Hash& hash, const Options& options) {
    each_codec(options, [&]<class Own>(schedule::Traffic traffic, const Own& own) {
      hash.add(schedule::name_of(traffic)).add(codec::text_of(own));
      detail::add_message(hash, own);
    });
  }

private:
  /// f(traffic, codec) for each channel that has one.
  template <class F>
  static void each_codec(const Options& options, const F& f) {
    const auto call = [&]<class Own>(schedule::Traffic traffic, const Own& own) {
      if constexpr (!std::is_same_v<Own, detail::AsItIs>) {
        if (codec::is_chosen(own)) f(traffic, own);
      }
    };
    call(schedule::Traffic::activation, options.activation);
    call(schedule::Traffic::activation_gradient, options.activation_gradient);
    call(schedule::Traffic::gradient, options.gradient);
    call(schedule::Traffic::parameter, options.parameter);
    call(schedule::Traffic::pseudo_gradient, options.pseudo_gradient);
  }

  template <class Own>
  static Own with_ratio_of(const Own& own, const std::vector<double>& ratios, int index) {
    const auto at = static_cast<std::size_t>(index);
    if constexpr (codec::has_ratio<Own>) {
      if (at < ratios.size() && ratios[at] > 1) return codec::with_ratio(own, ratios[at]);
    }
    return own;
  }

  template <class Own>
  static std::vector<double> ratios_of(const run::StepPlan& plan, const Options& options, schedule::Traffic traffic,
                                       const Own& own) {
    std::vector<double> ratios;
    if constexpr (codec::has_ratio<Own>) {
      if (options.network && schedule::is_between_stages(traffic) && codec::takes_ratio(own)) {
        ratios = detail::adapted_ratios(plan, *options.network, traffic, codec::ratio_of(own), options.stage_compute);
      }
    }
    if (!options.choose || traffic == schedule::Traffic::pseudo_gradient) return ratios;
    for (const Carried& carried : detail::carried_by(plan, traffic)) {
      const std::optional<double> chosen = options.choose(carried);
      if (!chosen) continue;
      if (!(*chosen >= 1) || (*chosen > 1 && !codec::has_ratio<Own>)) {
        throw OptionError("reef::compress::Channels: ", schedule::name_of(traffic), " ", carried.index, " is to have the ratio ",
                          *chosen, ", under ", codec::text_of(own), ".\n  fix: from 1, at which it stays as it is; more "
                          "for a codec with a ratio alone, as TopK.");
      }
      if constexpr (codec::has_ratio<Own>) {
        if (*chosen > 1) static_cast<void>(codec::with_ratio(own, *chosen).encoded_bytes(1));
      }
      ratios.resize(std::max(ratios.size(), static_cast<std::size_t>(carried.index) + 1), 0);
      ratios[static_cast<std::size_t>(carried.index)] = *chosen;
    }
    return ratios;
  }
};

/// Top-k of tensors between stages, of each link as much as it needs: no link takes longer than the slowest does at the
/// codec's ratio, and none loses more than it must for that.
///
/// \code
/// compress::AdaTopK::Options options;
/// options.network = schedule::World::uniform(4, {}, {.latency = 0.01, .bytes_per_second = 1e7});
/// options.activation.ratio = options.activation_gradient.ratio = 10;
/// using MyTrainer = Trainer<pipeline::OneFOneB<>, compress::AdaTopK>;
/// \endcode
///
/// | ratios | plan::adatopk, of what a link carries of a micro-batch; an index counted as 2 bytes |
/// | errors | OptionError without a network, or for one of another number of ranks                  |
///
/// Source: Tang et al., FusionLLM, arXiv 2410.12707, section 5.
struct AdaTopK : Channels<Activation<codec::TopK>, ActivationGradient<codec::TopK>> {
  static void plan(run::StepPlan& plan, const Options& options) {
    if (!options.network) {
      throw OptionError("reef::compress::AdaTopK: there is no network.\n  why: ratios follow what links take.\n"
                        "  fix: options.compress.network, measured or as a schedule::World; or Channels with TopK, whose "
                        "ratio is one for all.");
    }
    Channels::plan(plan, options);
  }
};

static_assert(compressor_policy<Channels<Gradient<codec::TopK>>> && compressor_policy<AdaTopK>);

}  // namespace reef::inline v0::compress
