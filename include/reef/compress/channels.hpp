#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include <reef/codec/adjust.hpp>
#include <reef/codec/concept.hpp>
#include <reef/codec/delta.hpp>
#include <reef/codec/dense.hpp>
#include <reef/codec/message.hpp>
#include <reef/codec/top_k.hpp>
#include <reef/compress/channel.hpp>
#include <reef/compress/coded_messages.hpp>
#include <reef/compress/concept.hpp>
#include <reef/compress/detail/adapted_ratios.hpp>
#include <reef/compress/detail/channel_ratios.hpp>
#include <reef/compress/detail/channel_rules.hpp>
#include <reef/compress/detail/encoder.hpp>
#include <reef/compress/detail/encoding_code.hpp>
#include <reef/compress/detail/masks.hpp>
#include <reef/compress/detail/replanning.hpp>
#include <reef/compress/detail/replanning_by_probes.hpp>
#include <reef/compress/ratio_function.hpp>
#include <reef/compress/ratio_ramp.hpp>
#include <reef/compress/replan.hpp>
#include <reef/compress/watch.hpp>
#include <reef/core/error.hpp>
#include <reef/core/hash.hpp>
#include <reef/core/policy_tag.hpp>
#include <reef/core/units.hpp>
#include <reef/schedule/world.hpp>

namespace reef {
inline namespace v0 {
namespace compress {

namespace detail {

/// The codec of a sort of message that a compressor leaves unencoded.
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

/// Encodes each sort of message (activations, gradients, ...) by a codec of its own: messages have the codec's form,
/// and the numbers that arrive are those that it decodes. Sorts without a codec stay as they are.
///
/// \code
/// #include <reef/codec/blockwise8.hpp>
/// #include <reef/codec/error_feedback.hpp>
/// using Compress = compress::Channels<compress::Activation<codec::Blockwise8>,
///                                     compress::Gradient<codec::ErrorFeedback<codec::TopK>>>;
/// Compress::Options options;
/// options.gradient.inner.ratio = 50;
/// static_assert(compress::CompressorPolicy<Compress>);
/// \endcode
///
/// | where       | Encode and Decode in the place of the copies beside a Send and a Receive; EncodeParts,             |
/// |             | ExchangeEncoded and DecodeFold in that of a reduce-scatter; EncodeShard, GatherEncoded and         |
/// |             | DecodeShards in that of an all-gather. Every message is a codec's, also a rank's own to itself:    |
/// |             | replicas never differ                                                                              |
/// | order       | messages are decoded and folded in the order of ranks: P ranks have the bits of virtual_ranks = P  |
/// | wire        | at most encoded_bytes(n) of each message, exactly that where the codec is exact                    |
/// | differences | pseudo-gradients of DiLoCo: EncodeShard, GatherEncoded, DecodeShards; a message for each parameter |
/// | memory      | a codec with memory has it on each end of an edge; for gradients on each rank for each owner's     |
/// |             | part, in units of the summed gradient; for sums that owners send back, on each owner. It changes   |
/// |             | only with steps that count, and an evaluation leaves it; that of differences changes with each     |
/// |             | outer step. A checkpoint has it, and another number of ranks drops it                              |
/// | device      | Bf16 and Blockwise8 code numbers of a GPU there (compress/cuda.cuh, which a Trainer on             |
/// |             | device::Cuda asks for); for all other codecs, and codec::Chosen, numbers are copied to the host    |
/// |             | and back                                                                                           |
/// | samples     | a codec with a period (Delta) has, on each end of an edge, a memory for each micro-batch of so     |
/// |             | many steps, after which samples come again. Evaluations, whose samples are others, send tensors as |
/// |             | they are                                                                                           |
/// | weights     | weights that travel by a lossy codec are rounded from master weights, which owners keep. The codec |
/// |             | must send every number and remember nothing: OptionError for other codecs                          |
/// | one mask    | `options.one_mask`: where a codec that selects made a number of a tensor 0, its gradient is 0 and  |
/// |             | not sent, as of the function that was computed; the other gradients go by the gradient's codec. A  |
/// |             | tensor that goes to more than one other stage has no mask. Where all numbers are sent, so are all  |
/// |             | gradients                                                                                          |
/// | ratios      | ratios of edges follow the links while training with `options.replan`; ratios of all messages are  |
/// |             | those that `options.choose` gives, for good or step by step                                        |
/// | errors      | OptionError: a type that is not fp32 or bf16, gradients that are rounded already                   |
/// |             | (precision::Bf16Gradients) under a codec; DecodeError, with sender and name, for a message that is |
/// |             | not as it was sent                                                                                 |
///
/// Source: FusionLLM, arXiv 2410.12707, section 5 (edges); Seide et al., Interspeech 2014 (gradients).
template <class... C>
struct Channels {
  static_assert(detail::all_differ<C::traffic...>(),
                "reef::compress::Channels: two codecs for one channel.\n  fix: one of each Activation, "
                "ActivationGradient, Gradient, Parameter, PseudoGradient.");

  using policy_tag = CompressTag;
  static constexpr bool lossless = (C::Codec::lossless && ...);
  /// True if the codec of that sort of message is known before a program runs.
  static constexpr bool carries(schedule::Traffic traffic) {
    return ((C::traffic == traffic && !requires { C::Codec::known_later; }) || ...);
  }
  static constexpr Payload payload =
      (carries(schedule::Traffic::gradient) ? Payload::encoded : Payload::dense) |
      (carries(schedule::Traffic::pseudo_gradient) ? Payload::differences : Payload::none);

  template <schedule::Traffic traffic>
  using Codec = typename detail::CodecOf<traffic, C...>::type;

  /// The codec of each sort of message, with the codec's members.
  struct Options {
    Codec<schedule::Traffic::activation> activation{};
    Codec<schedule::Traffic::activation_gradient> activation_gradient{};
    Codec<schedule::Traffic::gradient> gradient{};
    Codec<schedule::Traffic::parameter> parameter{};
    Codec<schedule::Traffic::pseudo_gradient> pseudo_gradient{};

    /// True gives gradients on the way back between stages the zeros of the tensors on the way forward: the gradient is
    /// that of the tensor that arrived, and none of its indices travels. With masks of their own, codecs that select by
    /// size favour some tokens.
    bool one_mask = false;
    /// True gives each edge between stages a ratio of its own, by the links of TrainerOptions::network, as AdaTopK
    /// always does; the codec's own ratio is that of the slowest link. False: every edge has the codec's own ratio.
    bool adapt = false;
    /// The seconds that the slowest stage computes for a micro-batch: no link is made faster than that. 0: ratios do
    /// not depend on it.
    Seconds stage_compute = 0;
    /// Compression ratios between stages that follow links as they change.
    Replan replan{};
    /// The gradual increase of compression ratios at the beginning of a training.
    RatioRamp ramp{};
    /// A function that chooses the compression ratio of each edge between stages, bucket or piece of a fragment, for
    /// good or in a step: it precedes all other options here.
    RatioFunction choose{};
    /// Measurements and recordings of messages that are encoded.
    Watch watch{};
  };

  static void plan(run::StepPlan& plan, const Options& options) {
    plan_if(plan, options, [](schedule::Traffic, const auto&) { return true; });
  }

protected:
  /// Writes into the plan the codec of each sort of message for which `wanted(traffic, codec)` is true; other sorts
  /// stay unencoded.
  template <class Wanted>
  static void plan_if(run::StepPlan& plan, const Options& options, const Wanted& wanted) {
    options.ramp.validate();
    options.choose.validate();
    detail::require_possible(plan, options.replan);
    if (options.adapt) detail::require_links(plan, options, "Channels");
    bool replans = false;
    bool chooses = false;
    each_codec(options, [&]<class Own>(schedule::Traffic traffic, const Own& own) {
      if (!wanted(traffic, own)) return;
      detail::require_traffic(plan, traffic, codec::text_of(own));
      run::WireForm& form = plan.wire[static_cast<std::size_t>(traffic)];
      static_cast<void>(own.encoded_bytes(1));  // throws for impossible members
      if (traffic == schedule::Traffic::parameter) detail::require_all_numbers(own);
      form.codec = codec::text_of(own);
      form.period = codec::period_of(own);
      detail::require_period(plan, traffic, form.period, form.codec);
      form.exact = codec::is_exact(own);
      form.lossless = codec::is_lossless(own);
      form.ratios = detail::ratios_of(plan, options, traffic, own);
      const RatioRamp ramp = traffic == schedule::Traffic::pseudo_gradient ? RatioRamp{} : options.ramp;
      const bool planned = detail::is_replanned(options, traffic, own);
      const bool chosen = detail::is_chosen_by_step(options, own);
      replans = replans || planned;
      chooses = chooses || chosen;
      form.bytes = [own, ratios = form.ratios, ramp, planned, chosen, least = options.choose.least](int index,
                                                                                                    std::int64_t n) {
        const auto at = static_cast<std::size_t>(index);
        const bool undecided = planned && (at >= ratios.size() || ratios[at] == 0);
        [[maybe_unused]] const double from = undecided ? 1 : chosen ? least : 0;
        const auto most = [&](const auto& as_it_is) {
          if constexpr (codec::has_ratio<Own>) {
            if (from > 0) return detail::max_bytes_from(from, ramp, as_it_is, n);
          }
          return ramp.max_bytes(as_it_is, n);
        };
        return codec::bounded_bytes(codec::text_of(own), n, most(detail::with_ratio_of(own, ratios, index)));
      };
      if (ramp.steps > 0 || planned || chosen) form.exact = false;
      if (codec::state_of(own, 1) > 0) form.state = [own](int, std::int64_t n) { return codec::state_of(own, n); };
      if (codec::received_state_of(own, 1) > 0) {
        form.received_state = [own](int, std::int64_t n) { return codec::received_state_of(own, n); };
      }
      form.by_element = detail::remembers_elements(form, traffic);
      if (options.one_mask && traffic == schedule::Traffic::activation_gradient) mask(plan, form, options, own);
      if (traffic == schedule::Traffic::parameter && !form.lossless) plan.keep_own_master();
    });
    if (options.one_mask && (!plan.wire_of(schedule::Traffic::activation).encodes() ||
                             !plan.wire_of(schedule::Traffic::activation_gradient).encodes())) {
      throw OptionError(
          "reef::compress::Channels: one mask, and tensors between stages, or their gradients, stay as they are.\n"
          "  fix: codecs for both, as Activation<codec::TopK> and ActivationGradient<codec::Dense>.");
    }
    if (options.replan.is_on() && !replans) {
      throw OptionError(
          "reef::compress::Channels: ratios are to be planned again, and no codec between stages has one.\n"
          "  fix: Activation<codec::TopK>, or no replan.");
    }
    if (options.choose.is_by_step() && !chooses) {
      throw OptionError("reef::compress::Channels: ratios are to be chosen for each step, and no codec has one.\n"
                        "  fix: a codec with a ratio, as Gradient<codec::TopK>, or no choose.");
    }
    detail::require_floats(plan);
  }

public:
  static void reserve(run::StepBuilder& builder) { detail::reserve_memories(builder); }
  static void add(run::StepBuilder& builder) { detail::Encoder(builder).run(); }
  static std::vector<run::StateRange> state(const run::StepBuilder& builder) {
    return detail::memory_ranges(builder);
  }

  template <class Handlers, class RankContext>
  static void add_code(Handlers& handlers, const RankContext& context, const Options& options) {
    const auto with_codec = [options, &plan = context.plan()](schedule::Traffic wanted, int index, const auto& f) {
      each_codec(options, [&](schedule::Traffic traffic, const auto& own) {
        if (traffic == wanted) f(detail::with_ratio_of(own, plan.wire_of(traffic).ratios, index));
      });
    };
    detail::EncodingCode<Handlers, RankContext, decltype(with_codec)>::add(
        handlers, context, options.watch, options.ramp, options.replan.is_on(), with_codec);
  }

  static void before_step(comm::Progress& progress, const run::StepPlan& plan, const Options& options,
                          run::StepState& state) {
    if (options.choose.is_by_step()) {
      detail::choose_ratios(plan, progress.rank(), options.choose, [&](schedule::Traffic wanted) {
        bool asks = false;
        each_codec(options, [&](schedule::Traffic traffic, const auto& own) {
          asks = asks || (traffic == wanted && codec::takes_ratio(own));
        });
        return asks;
      }, state);
    }
    if (!options.replan.is_on()) return;
    detail::replan(progress, plan, options.replan, plan.world ? &*plan.world : nullptr, state,
                   [&](const schedule::World& world) { return planned_ratios(plan, options, world); });
  }

  static void hash(Hash& hash, const Options& options) {
    each_codec(options, [&]<class Own>(schedule::Traffic traffic, const Own& own) {
      hash.add(schedule::name_of(traffic)).add(codec::text_of(own));
      detail::add_message(hash, own);
    });
    if (options.one_mask) hash.add("one mask");
    if (options.ramp.steps > 0) hash.add(options.ramp.steps).add(options.ramp.from);
    if (options.replan.is_on()) options.replan.add_to(hash);
    options.choose.add_to(hash);
  }

private:
  /// Makes gradients on the way back between stages leave out the numbers that were zero in the tensors on the way
  /// forward.
  template <class Own>
  static void mask(const run::StepPlan& plan, run::WireForm& form, const Options& options, const Own& gradient) {
    const run::WireForm& forward = plan.wire_of(schedule::Traffic::activation);
    constexpr std::int64_t many = 1 << 16;
    if (codec::kept_of(gradient, many) < many) {
      throw OptionError("reef::compress::Channels: one mask, and ", form.codec, " for gradients between stages.\n"
                        "  why: what is sent of them is what the mask says.\n"
                        "  fix: a codec for them that sends every number, as codec::Dense or codec::Blockwise8.");
    }
    if (form.state || form.received_state || forward.received_state) {
      throw OptionError("reef::compress::Channels: one mask for ", forward.codec, " and ", form.codec,
                        ".\n  why: what a codec remembers of numbers is not of those that the next mask names.\n"
                        "  fix: codecs without a memory, as codec::TopK and codec::Dense.");
    }
    form.masks = detail::edges_forward_of(plan);
    for (std::size_t g = 0; g < form.masks.size(); ++g) {
      int& edge = form.masks[g];
      if (edge >= 0 && (!forward.encodes(edge) || !form.encodes(static_cast<int>(g)))) edge = -1;
      if (edge >= 0 || !plan.remote_edges[g].gradient || !codec::is_lossless(gradient)) continue;
      form.ratios.resize(form.masks.size(), 0);
      form.ratios[g] = 1;  // all numbers of the edge would be sent, in more bytes than without the codec
    }
    each_codec(options, [&](schedule::Traffic traffic, const auto& own) {
      if (traffic != schedule::Traffic::activation) return;
      detail::require_zeros(own);
      const bool varies = detail::is_replanned(options, traffic, own) || detail::is_chosen_by_step(options, own);
      form.bytes = [own, masks = form.masks, ratios = forward.ratios, ramp = options.ramp, all = form.bytes, varies](
                       int index, std::int64_t n) {
        const auto at = static_cast<std::size_t>(index);
        const int edge = at < masks.size() ? masks[at] : -1;
        if (edge < 0 || varies) return all(index, n);
        return all(index, codec::kept_of(ramp.at(0, detail::with_ratio_of(own, ratios, edge)), n));
      };
      form.exact = form.lossless = false;
    });
  }

  /// Calls f(traffic, codec) for each sort of message that has a codec.
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

  /// Returns the compression ratios of edges between stages that are planned again while training, by edge; 0 for all
  /// others.
  static std::vector<double> planned_ratios(const run::StepPlan& plan, const Options& options,
                                            const schedule::World& world) {
    std::vector<double> all(plan.remote_edges.size(), 0);
    each_codec(options, [&]<class Own>(schedule::Traffic traffic, const Own& own) {
      if constexpr (codec::has_ratio<Own>) {
        if (!detail::is_replanned(options, traffic, own)) return;
        const std::vector<double> of_links =
            detail::adapted_ratios(plan, world, traffic, codec::ratio_of(own), options.stage_compute);
        for (std::size_t e = 0; e < all.size(); ++e) {
          // A ratio of 0: the edge carries the other direction.
          if (plan.wire_of(traffic).ratio(static_cast<int>(e)) == 0) all[e] += of_links[e];
        }
      }
    });
    return all;
  }
};

static_assert(CompressorPolicy<Channels<Gradient<codec::TopK>>>);

}  // namespace compress
}  // namespace v0
}  // namespace reef
