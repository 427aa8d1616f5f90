#pragma once

#include <stdexcept>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

#include <reef/codec/chosen.hpp>
#include <reef/compress/ada_top_k.hpp>
#include <reef/compress/channels.hpp>
#include <reef/compress/everywhere.hpp>
#include <reef/core/hash.hpp>
#include <reef/core/text.hpp>
#include <reef/pipeline/asynchronous.hpp>
#include <reef/pipeline/folded.hpp>
#include <reef/pipeline/gpipe.hpp>
#include <reef/pipeline/interleaved.hpp>
#include <reef/pipeline/one_f_one_b.hpp>
#include <reef/pipeline/ordered.hpp>
#include <reef/pipeline/searched.hpp>
#include <reef/pipeline/single.hpp>
#include <reef/pipeline/three_slot.hpp>
#include <reef/pipeline/zero_bubble.hpp>

// Policies that are one of several, by its name: what they do is what its own functions do. So few Trainers are compiled
// for many compositions.

namespace reef::test::pairs {

/// A policy and its name.
template <class P>
struct Named {
  using Policy = P;
  std::string_view name;
};

inline constexpr std::tuple pipelines{
    Named<pipeline::Single>{"Single"},
    Named<pipeline::GPipe>{"GPipe"},
    Named<pipeline::OneFOneB<>>{"OneFOneB"},
    Named<pipeline::Interleaved<>>{"Interleaved"},
    Named<pipeline::LoopedBfs<>>{"LoopedBfs"},
    Named<pipeline::ZeroBubble<>>{"ZeroBubble"},
    Named<pipeline::ZeroBubble<pipeline::ZeroBubbleKind::h2>>{"ZeroBubble<h2>"},
    Named<pipeline::InterleavedZeroBubble<>>{"InterleavedZeroBubble"},
    Named<pipeline::ZbV>{"ZbV"},
    Named<pipeline::VHalf>{"VHalf"},
    Named<pipeline::VMin>{"VMin"},
    Named<pipeline::DualPipeV>{"DualPipeV"},
    Named<pipeline::ThreeSlot>{"ThreeSlot"},
    Named<pipeline::Searched>{"Searched"},
    Named<pipeline::Ordered>{"Ordered"},
    Named<pipeline::PipeDream>{"PipeDream"},
    Named<pipeline::TwoBw>{"TwoBw"},
};

/// f(Named) of the pipeline of that name.
template <class F>
void with_pipeline(const std::string& name, const F& f) {
  const bool found = std::apply([&](const auto&... one) { return ((name == one.name && (f(one), true)) || ...); }, pipelines);
  if (!found) throw std::invalid_argument(concat("no pipeline is named ", name));
}

struct AnyPipelineOptions {
  std::string name = "Single";
  int unit = 1;
  plan::PipelineOrder order{};  ///< of Ordered
};

struct AnyPipeline {
  using policy_tag = PipelineTag;
  using Options = AnyPipelineOptions;
  static constexpr bool spans_stages = true;

  static void plan(run::StepPlan& plan, const Options& options) {
    with_pipeline(options.name, [&]<class P>(const Named<P>&) {
      if constexpr (requires { P::plan(plan, options_for<P>(options)); }) P::plan(plan, options_for<P>(options));
    });
  }
  static std::vector<int> stage_of_chunk(int stages, const Options& options) {
    std::vector<int> result;
    with_pipeline(options.name, [&]<class P>(const Named<P>&) {
      if constexpr (requires { P::stage_of_chunk(stages, options_for<P>(options)); }) {
        result = P::stage_of_chunk(stages, options_for<P>(options));
      }
    });
    return result;
  }
  static void add(run::StepBuilder& builder) {
    if (builder.plan.timetables.training.empty()) {
      pipeline::Single::add(builder);
    } else {
      pipeline::Ordered::add(builder);  // which writes what the timetables say, as all that are Scheduled
    }
  }
  template <class Handlers, class RankContext>
  static void add_code(Handlers& handlers, const RankContext& context, const Options& /*none*/) {
    pipeline::Ordered::add_code(handlers, context, {});
  }
  static void hash(Hash& hash, const Options& options) {
    hash.add(options.name).add(options.unit).add(plan::text_of(options.order));
  }

private:
  template <class P>
  static auto options_for(const Options& options) {
    options_of<P> own;
    if constexpr (requires { own.unit; }) own.unit = options.unit;
    if constexpr (requires { own.held; }) own.held = own.barrier = true;
    if constexpr (requires { own.effort; }) own.effort = 1;
    if constexpr (requires { own.order; }) own.order = options.order;
    return own;
  }
};

static_assert(pipeline::PipelinePolicy<AnyPipeline>);

using codec::Chosen;
using AllChannels =
    compress::Channels<compress::Activation<Chosen>, compress::ActivationGradient<Chosen>, compress::Gradient<Chosen>,
                       compress::Parameter<Chosen>, compress::PseudoGradient<Chosen>>;

enum class CompressKind { channels, everywhere, ada_top_k };

struct AnyCompress : AllChannels {
  struct Options : AllChannels::Options {
    CompressKind kind = CompressKind::channels;
  };

  static void plan(run::StepPlan& plan, const Options& options) {
    if (options.kind == CompressKind::ada_top_k) {
      compress::AdaTopK::Options own;
      own.activation.ratio = options.activation.get_ratio();
      compress::AdaTopK::plan(plan, own);
    } else if (options.kind == CompressKind::everywhere) {
      compress::Everywhere<Chosen>::Options own;
      static_cast<AllChannels::Options&>(own) = options;
      compress::Everywhere<Chosen>::plan(plan, own);
    } else {
      AllChannels::plan(plan, options);
    }
  }
};

static_assert(compress::CompressorPolicy<AnyCompress>);

}  // namespace reef::test::pairs
