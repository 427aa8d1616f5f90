#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string_view>
#include <vector>

#include <reef/core/config.hpp>
#include <reef/core/element.hpp>
#include <reef/core/text.hpp>
#include <reef/device/transform.hpp>
#include <reef/optim/decision.hpp>
#include <reef/optim/detail/differences_code.hpp>
#include <reef/optim/detail/outer.hpp>
#include <reef/optim/detail/outer_schedule.hpp>
#include <reef/optim/detail/rule_kernel.hpp>
#include <reef/optim/own_decision.hpp>
#include <reef/optim/update.hpp>

namespace reef {
inline namespace v0 {
namespace optim::detail {

/// The outer rule over contiguous weights, its gradient the way that the ranks went together.
///
///     g = theta[i] - sum[i] / P        of weights; of differences, sum[i] / P
///     theta[i], state[.][i] = Outer::update(theta[i], state[.][i], g);  sum[i] = theta[i]
template <class Outer, real E>
struct OuterKernel {
  static constexpr std::size_t states = Outer::states;

  E* sum = nullptr;
  E* theta = nullptr;
  StateArrays<E, states> state{};
  E ranks = 1;
  bool of_weights = true;
  typename RuleKernel<Outer, E>::Coefficients c{};

  REEF_RULE template <class At>
  REEF_HOST_DEVICE void operator()(const At& at) const {
    using V = typename At::Vector;
    V s[states + 1];
    state.load(at, s);
    V w = at.load(theta);
    V gradient = at.load(sum) / V(ranks);
    if (of_weights) gradient = w - gradient;
    Outer::update(w, s, gradient, c);
    at.store(theta, w);
    at.store(sum, w);
    state.store(at, s);
  }
};

/// What has arrived becomes a rank's own weights, of which it keeps the part `mix`.
template <real T>
struct MergeKernel {
  using E = sum_t<T>;
  static constexpr bool has_master = !std::is_same_v<T, E>;

  T* weight = nullptr;
  E* master = nullptr;
  const E* arrived = nullptr;
  E mix = 0;

  REEF_RULE template <class At>
  REEF_HOST_DEVICE void operator()(const At& at) const {
    using V = typename At::Vector;
    using device::fma;
    V w = at.load(arrived);
    if (mix != 0) w = fma(V(mix), load_own(at, weight, master) - w, w);
    store_own(at, weight, master, w);
  }
};

/// A rank's own outer step, from the outer weights that have arrived; its difference leaves.
///
///     g = start[i] - own[i];  w, state[.][i] = Outer::update(leaving[i], state[.][i], g / P)
///     start[i] = own[i] = w;  leaving[i] = g
template <class Outer, real T>
struct OuterBeginKernel {
  using E = sum_t<T>;
  static constexpr std::size_t states = Outer::states;
  static constexpr bool has_master = !std::is_same_v<T, E>;

  T* weight = nullptr;
  E* master = nullptr;
  E* start = nullptr;
  E* leaving = nullptr;
  StateArrays<E, states> state{};
  E ranks = 1;
  typename RuleKernel<Outer, T>::Coefficients c{};

  REEF_RULE template <class At>
  REEF_HOST_DEVICE void operator()(const At& at) const {
    using V = typename At::Vector;
    V s[states + 1];
    state.load(at, s);
    const V gradient = at.load(start) - load_own(at, weight, master);
    V w = at.load(leaving);
    Outer::update(w, s, gradient / V(ranks), c);
    at.store(start, w);
    store_own(at, weight, master, w);
    at.store(leaving, gradient);
    state.store(at, s);
  }
};

/// Adds the code of OuterUpdate of the sums of all ranks' weights, or of their differences.
template <class Handlers, class RankContext, class Options>
void add_sums_code(Handlers& handlers, const RankContext& context, const Options& options) {
  using E = typename RankContext::sum_type;
  using Outer = decltype(options.outer);
  using DeviceLane = typename Handlers::Lane;
  using Code = typename Handlers::Code;
  using schedule::Instruction;
  const auto pieces = std::make_shared<const std::vector<Piece>>(fragment_pieces(context.plan(), context.rank()));
  handlers.on_lane(kinds::outer_update, [&context, pieces, options](const Instruction& i) -> Code {
    const Piece& piece = (*pieces)[static_cast<std::size_t>(i.index)];
    OuterKernel<Outer, E> kernel;
    const OuterUpdateView view(i, Outer::states);
    kernel.sum = context.at(view.result.front());
    for (std::size_t k = 0; k < Outer::states; ++k) kernel.state[k] = context.at(view.states[k]);
    kernel.theta = context.at(view.weights.front());
    kernel.ranks = static_cast<E>(piece.group.size());
    kernel.of_weights = context.plan().outer_schedule.overlap != run::OuterSchedule::Overlap::eager;
    return
        [kernel, n = context.elements(view.result.front()), options, fragment = piece.fragment,
         &state = context.state, &outer = context.plan().outer_schedule](DeviceLane& lane) mutable {
          const std::int64_t t = outer_step(outer, fragment, state.committed);
          kernel.c = options.outer.template coefficients<E>(t, options.outer_learning_rate, false);
          transform_vectors<E>(lane, n, kernel);
        };
  });
}

/// Adds the code of what OuterProgram appends. `options` are those of DiLoCo.
template <class Handlers, class RankContext, class Inner, class Options>
void add_outer_code(Handlers& handlers, const RankContext& context, Inner rule,
                    UpdateOptions update, const Options& options) {
  using T = typename RankContext::element_type;
  using E = typename RankContext::sum_type;
  using Outer = decltype(options.outer);
  using DeviceLane = typename Handlers::Lane;
  using Code = typename Handlers::Code;
  using Communication = typename Handlers::Communication;
  using schedule::Instruction;
  add_decision_code(handlers, context, update);
  add_own_decision_code(handlers, context, update);
  add_update_code(handlers, context, rule);
  const auto pieces = std::make_shared<const std::vector<Piece>>(fragment_pieces(context.plan(), context.rank()));
  const auto piece_of = [pieces](const Instruction& i) -> const Piece& {
    return (*pieces)[static_cast<std::size_t>(i.index)];
  };

  handlers.on_lane(kinds::hand_out, [&context, piece_of](const Instruction& i) -> Code {
    const Piece& piece = piece_of(i);
    const run::CopyView view(i);
    return context.memory.copy({view.to.front().storage},
                               {view.from.front().storage, static_cast<Bytes>(piece.begin) * sizeof(E)},
                               static_cast<Bytes>(piece.size()) * sizeof(E));
  });

  handlers.on_wire(kinds::reduce_weights, [&context](const Instruction& i) -> Communication {
    return context.reduce_scatter(concat("weights of piece ", i.index), i);
  });
  const auto gather = [&]<class U>(std::string_view kind, const char* what, U) {
    handlers.on_wire(kind, [&context, what](const Instruction& i) -> Communication {
      return context.template all_gather<U>(concat(what, i.index), i);
    });
  };
  gather(kinds::gather_outer, "outer weights of piece ", E{});
  gather(kinds::gather_committed, "committed weights of piece ", T{});

  if (run::gathers_differences(context.plan())) {
    add_differences_code(handlers, context, options);
  } else {
    require_no_differences(options);
    add_sums_code(handlers, context, options);
  }

  handlers.on_lane(kinds::merge, [&context, piece_of, options](const Instruction& i) -> Code {
    const Piece& piece = piece_of(i);
    MergeKernel<T> kernel;
    const MergeView view(context.builder, i);
    kernel.weight = context.template at<T>(view.merged.front()) + piece.begin;
    if constexpr (MergeKernel<T>::has_master) {
      kernel.master = context.at(view.master.front()) + piece.begin;
    }
    kernel.arrived = context.at(view.arrived.front());
    if (context.plan().outer_schedule.overlap == run::OuterSchedule::Overlap::mix) {
      kernel.mix = static_cast<E>(options.mix);
    }
    return [kernel, n = piece.size()](DeviceLane& lane) { transform_vectors<T>(lane, n, kernel); };
  });

  handlers.on_lane(kinds::outer_begin, [&context, pieces, options](const Instruction& i) -> Code {
    struct Part {
      OuterBeginKernel<Outer, T> kernel;
      std::int64_t elements;
    };
    std::vector<Part> parts;
    const std::vector<std::size_t> in_bucket =
        pieces_in(*pieces, static_cast<std::size_t>(i.index));
    const OuterBeginView view(context.builder, i, in_bucket.size(), Outer::states);
    for (const std::size_t p : in_bucket) {
      const Piece& piece = (*pieces)[p];
      OuterBeginKernel<Outer, T> kernel;
      kernel.weight = context.template at<T>(view.begun.front()) + piece.begin;
      kernel.leaving = context.at(view.leaving[parts.size()]);
      for (std::size_t k = 0; k < Outer::states; ++k)
        kernel.state[k] = context.at(view.states[k]) + piece.begin;
      kernel.start = context.at(view.start.front()) + piece.begin;
      if constexpr (OuterBeginKernel<Outer, T>::has_master) {
        kernel.master = context.at(view.master.front()) + piece.begin;
      }
      kernel.ranks = static_cast<E>(piece.group.size());
      parts.push_back({kernel, piece.size()});
    }
    return [parts, options, &state = context.state,
            &outer = context.plan().outer_schedule](DeviceLane& lane) mutable {
      const std::int64_t t = outer_step(outer, 0, state.committed);
      for (Part& part : parts) {
        part.kernel.c =
            options.outer.template coefficients<E>(t, options.outer_learning_rate, false);
        transform_vectors<T>(lane, part.elements, part.kernel);
      }
    };
  });

  add_publish_code(handlers, context);
}

}  // namespace optim::detail
}  // namespace v0
}  // namespace reef
