#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <type_traits>
#include <utility>
#include <vector>

#include <reef/core/config.hpp>
#include <reef/core/element.hpp>
#include <reef/core/error.hpp>
#include <reef/core/finite.hpp>
#include <reef/device/host.hpp>
#include <reef/device/sum_of_squares.hpp>
#include <reef/device/transform.hpp>
#include <reef/optim/detail/outer.hpp>
#include <reef/optim/detail/outer_schedule.hpp>
#include <reef/optim/detail/rule_kernel.hpp>
#include <reef/optim/views.hpp>

/// \file
/// The code of outer steps that each rank takes whole, of the differences of all ranks: Differences, OuterUpdate.

namespace reef {
inline namespace v0 {
namespace optim::detail {

/// difference[i] = outer[i] - own[i]
template <real T>
struct DifferenceKernel {
  using E = sum_t<T>;

  const T* weight = nullptr;
  const E* master = nullptr;  ///< none: weights are as exact as sums
  const E* outer = nullptr;
  E* difference = nullptr;

  REEF_RULE template <class At>
  REEF_HOST_DEVICE void operator()(const At& at) const {
    if constexpr (std::is_same_v<T, E>) {
      at.store(difference, at.load(outer) - (master != nullptr ? at.load(master) : at.load(weight)));
    } else {
      at.store(difference, at.load(outer) - at.load(master));
    }
  }
};

/// The outer rule, its gradient the mean of what the ranks' differences decode to, added in their order.
///
///     g = sum over ranks of factor_r d_r[i] / P        or / the number of those that are not 0, at least 1
///     theta[i], state[.][i] = Outer::update(theta[i], state[.][i], g);  result[i] = theta[i]
template <class Outer, real E>
struct OuterFoldKernel {
  static constexpr std::size_t states = Outer::states;

  const E* differences = nullptr;  ///< of the first rank
  std::int64_t stride = 0;         ///< from a rank's to the next one's
  int ranks = 1;
  const E* factors = nullptr;  ///< by rank; none: all are 1
  bool by_senders = false;
  E* theta = nullptr;
  E* result = nullptr;
  StateArrays<E, states> state{};
  typename RuleKernel<Outer, E>::Coefficients c{};

  /// Elements from `begin` on.
  [[nodiscard]] OuterFoldKernel from(std::int64_t begin) const {
    OuterFoldKernel part = *this;
    part.differences += begin;
    part.theta += begin;
    part.result += begin;
    part.state = state.from(begin);
    return part;
  }

  REEF_RULE template <class At>
  REEF_HOST_DEVICE void operator()(const At& at) const {
    using V = typename At::Vector;
    using device::larger;
    V sum = term(at, 0);
    V senders = sent(sum);
    for (int r = 1; r < ranks; ++r) {
      const V next = term(at, r);
      sum = sum + next;
      if (by_senders) senders = senders + sent(next);
    }
    const V gradient = sum / (by_senders ? larger(senders, V(1)) : V(static_cast<E>(ranks)));
    V s[states + 1];
    state.load(at, s);
    V w = at.load(theta);
    Outer::update(w, s, gradient, c);
    at.store(theta, w);
    at.store(result, w);
    state.store(at, s);
  }

private:
  REEF_RULE template <class At>
  REEF_HOST_DEVICE typename At::Vector term(const At& at, int r) const {
    using V = typename At::Vector;
    const V difference = at.load(differences + r * stride);
    return factors == nullptr ? difference : difference * V(factors[r]);
  }
  /// 1 where a number is not 0.
  REEF_RULE template <class V>
  REEF_HOST_DEVICE static V sent(const V& number) {
    using device::larger, device::select_less;
    return select_less(V(0), larger(number, V(0) - number), V(1), V(0));
  }
};

/// What brings norms that are above their median down to it, by rank. Of an even number of norms the lower of the two
/// in the middle; one that is not finite is above all, and what it is of stays so.
inline std::vector<double> median_factors(std::vector<double> norms) {
  for (double& norm : norms) {
    if (!is_finite(norm)) norm = std::numeric_limits<double>::infinity();
  }
  std::vector<double> sorted = norms;
  std::sort(sorted.begin(), sorted.end());
  const double median = sorted[(sorted.size() - 1) / 2];
  std::vector<double> factors;
  for (const double norm : norms) factors.push_back(norm > median ? median / norm : 1.0);
  return factors;
}

/// The norm of n numbers, in fp64.
template <real E>
double norm_of(device::Host::Lane& lane, const E* numbers, std::int64_t n) {
  std::vector<double> sums(static_cast<std::size_t>(run::norm_blocks(n)));
  device::block_sums_of_squares(lane, n, numbers, sums.data(), run::norm_block);
  double squares = 0;
  for (const double sum : sums) squares += sum;
  return std::sqrt(squares);
}

/// Throws OptionError for options that only differences have.
template <class Options>
void require_no_differences(const Options& options) {
  if (!options.clip_to_median_norm && options.divisor == decltype(options.divisor)::peers) return;
  throw OptionError("reef::optim::DiLoCo: ",
                    options.clip_to_median_norm ? "clip_to_median_norm is on" : "divisor is senders",
                    ", and no codec is for pseudo-gradients.\n"
                    "  why: without one it is sums of weights that travel, in which no rank's difference can be told.\n"
                    "  fix: compress::Channels<compress::PseudoGradient<C>>, or the option as it is by default.");
}

/// Adds the code of Differences, and of OuterUpdate of the differences of all ranks. `options` are those of DiLoCo.
template <class Handlers, class RankContext, class Options>
void add_differences_code(Handlers& handlers, const RankContext& context, const Options& options) {
  using T = typename RankContext::element_type;
  using E = typename RankContext::sum_type;
  using Outer = decltype(options.outer);
  using DeviceLane = typename Handlers::Lane;
  using Code = typename Handlers::Code;
  using schedule::Instruction;
  constexpr bool on_host = std::is_same_v<DeviceLane, device::Host::Lane>;
  if (options.clip_to_median_norm && !on_host) {
    throw OptionError("reef::optim::DiLoCo: clip_to_median_norm is on, and this device is not on the host.\n"
                      "  why: the lane's thread reads norms before it folds.\n  fix: device::Host, or no such clip.");
  }
  const auto pieces = std::make_shared<const std::vector<Piece>>(fragment_pieces(context.plan(), context.rank()));

  handlers.on_lane(kinds::differences, [&context, pieces](const Instruction& i) -> Code {
    const Piece& piece = (*pieces)[static_cast<std::size_t>(i.index)];
    const DifferencesView view(i);
    DifferenceKernel<T> kernel;
    if (context.plan().keeps_master()) {
      kernel.master = context.at(view.own.front()) + piece.begin;
    } else {
      kernel.weight = context.template at<T>(view.own.front()) + piece.begin;
    }
    kernel.outer = context.at(view.outer.front());
    kernel.difference = context.at(view.difference.front());
    return [kernel, n = piece.size()](DeviceLane& lane) { transform_vectors<T>(lane, n, kernel); };
  });

  handlers.on_lane(kinds::outer_update, [&context, pieces, options](const Instruction& i) -> Code {
    const Piece& piece = (*pieces)[static_cast<std::size_t>(i.index)];
    const OuterUpdateView view(i, Outer::states);
    OuterFoldKernel<Outer, E> kernel;
    kernel.differences = context.at(view.sum.front());
    kernel.stride = piece.size();
    kernel.ranks = piece.senders.size();
    kernel.by_senders = options.divisor == decltype(options.divisor)::senders;
    kernel.result = context.at(view.result.front());
    for (std::size_t k = 0; k < Outer::states; ++k) kernel.state[k] = context.at(view.states[k]);
    kernel.theta = context.at(view.weights.front());
    return [kernel, options, parameters = piece.parameters, filled = piece.filled, fragment = piece.fragment,
            &state = context.state, &outer = context.plan().outer_schedule](DeviceLane& lane) mutable {
      const std::int64_t t = outer_step(outer, fragment, state.committed);
      kernel.c = options.outer.template coefficients<E>(t, options.outer_learning_rate, false);
      if constexpr (on_host) {
        std::vector<E> factors;
        for (std::size_t p = 0; options.clip_to_median_norm && p + 1 < parameters.size(); ++p) {
          const std::int64_t n = filled[p];
          auto of_parameter = kernel.from(parameters[p]);
          std::vector<double> norms;
          for (int r = 0; r < kernel.ranks; ++r) {
            norms.push_back(norm_of(lane, of_parameter.differences + r * kernel.stride, n));
          }
          factors.clear();
          for (const double factor : median_factors(std::move(norms))) factors.push_back(static_cast<E>(factor));
          of_parameter.factors = factors.data();
          transform_vectors<E>(lane, n, of_parameter);
        }
      }
      if (!options.clip_to_median_norm) transform_vectors<E>(lane, parameters.back(), kernel);
      for (std::size_t p = 0; p < filled.size(); ++p) {  // a codec may make something of padding
        const auto padding = kernel.from(parameters[p] + filled[p]);
        const Bytes bytes = static_cast<Bytes>(parameters[p + 1] - parameters[p] - filled[p]) * sizeof(E);
        if (bytes == 0) continue;
        lane.fill_zero(padding.theta, bytes);
        lane.fill_zero(padding.result, bytes);
        for (std::size_t k = 0; k < Outer::states; ++k) lane.fill_zero(padding.state[k], bytes);
      }
    };
  });
}

}  // namespace optim::detail
}  // namespace v0
}  // namespace reef
