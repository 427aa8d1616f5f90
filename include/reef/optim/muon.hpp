#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include <reef/core/finite.hpp>
#include <reef/core/product.hpp>
#include <reef/device/arithmetic.hpp>
#include <reef/device/transform.hpp>
#include <reef/graph/dag.hpp>
#include <reef/optim/adamw.hpp>
#include <reef/optim/concept.hpp>
#include <reef/optim/detail/newton_schulz.hpp>
#include <reef/optim/detail/require_option.hpp>
#include <reef/optim/matrix_rule.hpp>

namespace reef {
inline namespace v0 {
namespace optim {

namespace detail {

/// Updates the momentum of a matrix, and computes the matrix x that is then made orthogonal.
///
///     m = momentum m + scale g;   x = scale g + momentum m
template <real E>
struct MomentumKernel {
  E* m = nullptr;
  const E* g = nullptr;
  E* x = nullptr;
  E scale = 1;
  E momentum = 0;

  REEF_RULE template <class At>
  REEF_HOST_DEVICE void operator()(const At& at) const {
    using V = typename At::Vector;
    using device::fma;
    const V gradient = at.load(g);
    const V sum = fma(V(scale), gradient, V(momentum) * at.load(m));
    at.store(m, sum);
    at.store(x, fma(V(scale), gradient, V(momentum) * sum));
  }
};

/// Computes w = keep w - step x, the update of a matrix by an orthogonal x; in bf16, w are the master weights, and the
/// weights are w rounded.
template <real T>
struct OrthogonalStepKernel {
  using E = sum_t<T>;
  T* weight = nullptr;
  E* master = nullptr;
  const E* x = nullptr;
  E keep = 1;
  E step = 0;

  REEF_RULE template <class At>
  REEF_HOST_DEVICE void operator()(const At& at) const {
    using V = typename At::Vector;
    V w;
    if constexpr (std::is_same_v<T, E>) {
      w = at.load(weight);
    } else {
      w = at.load(master);
    }
    using device::fma;
    w = fma(V(-step), at.load(x), V(keep) * w);
    if constexpr (!std::is_same_v<T, E>) at.store(master, w);
    at.store(weight, w);
  }
};

}  // namespace detail

/// Muon: momentum made orthogonal for the matrices of hidden layers; AdamW for embeddings, head, norms and biases.
///
///     M = momentum M + G;    X = newton_schulz(G + momentum M)
///     W = W - lr weight_decay W - lr rms sqrt(max(rows, columns)) X
///
/// | state    | for hidden matrices M, for other weights AdamW's m and v; zero before the first step         |
/// | hidden   | a matrix by which rows are multiplied (ParameterSpec::linear) in each of its uses, and whose |
/// |          | product the loss does not read: so neither embedding tables nor the head, tied or not.       |
/// |          | run::ParameterGroup::whole_matrix overrides this                                             |
/// | rate     | `rms`: the root mean square of an update, at lr 1, is about that of AdamW's; so both share   |
/// |          | one learning rate and weight_decay                                                           |
/// | cost     | for (m, n), k = min(m, n): steps (4 k k max(m, n) + 2 k^3) operations, and 2 (m n + k k)     |
/// |          | numbers of workspace                                                                         |
/// | composes | with Ddp, Zero1, DiLoCo (inner rule), on the host: rules R6 and R7 (docs/rules.md)           |
/// | bits     | the same as on one rank, wherever a matrix is updated                                        |
///
/// Source: Jordan, Muon: an optimizer for hidden layers in neural networks, 2024; Liu et al., Muon is scalable
/// for LLM training, arXiv 2502.16982, section 2.2: the factor rms sqrt(max(rows, columns)) and the weight decay.
/// Deviation: products in fp32 (fp64), not bf16; the query, key and value of attention, where they are one
/// parameter, are one matrix.
///
/// \code
/// Trainer<optim::Zero1<optim::Muon>>::Options options;
/// options.rule = optim::Muon({.momentum = 0.95, .weight_decay = 0.1});
/// options.groups = {{.pattern = "adapter.*", .whole_matrix = false}};  // these by AdamW
/// \endcode
struct Muon {
  struct Options {
    double momentum = 0.95;
    double rms = 0.2;
    int newton_schulz_steps = 5;
    double beta1 = 0.9;  ///< beta1 of AdamW, for the weights that are no hidden matrices; beta2 and epsilon likewise
    double beta2 = 0.95;
    double epsilon = 1e-8;
    double weight_decay = 0.1;  ///< weight decay of matrices, and of the weights that AdamW updates
  };

  static constexpr std::string_view name = "muon";
  static constexpr int states = AdamW::states;
  static constexpr bool needs_whole_matrices = true;
  static constexpr int matrix_states = 1;

  Muon() = default;
  explicit Muon(Options o) : options(o) {}

  /// Throws OptionError for constants of the rule outside their ranges.
  void validate() const {
    const auto require_that = [](bool holds, const char* option, auto value, const char* range) {
      detail::require_option(holds, "Muon", option, value, range);
    };
    require_that(within(options.momentum, 0, 1) && options.momentum < 1, "momentum",
                 options.momentum, "from 0, and below 1");
    require_that(within(options.rms, 1e-6, 1e3), "rms", options.rms, "from 1e-6 to 1000");
    require_that(options.newton_schulz_steps >= 1 && options.newton_schulz_steps <= 100,
                 "newton_schulz_steps", options.newton_schulz_steps, "from 1 to 100");
    adamw().validate();
  }

  // -- element by element ------------------------------------------------------------------------

  template <real T>
  [[nodiscard]] AdamW::Coefficients<T> coefficients(std::int64_t t, double lr, bool decays) const {
    return adamw().coefficients<T>(t, lr, decays);
  }

  REEF_RULE template <class V, class C>
  REEF_HOST_DEVICE static void update(V& w, V* state, const V& g, const C& c) {
    AdamW::update(w, state, g, c);
  }

  // -- whole matrices ----------------------------------------------------------------------------

  /// Returns true if a parameter is a hidden matrix (neither embedding nor head), as the table of Muon defines it.
  [[nodiscard]] bool takes_whole(const graph::Dag& dag, std::size_t parameter) const {
    const graph::Parameter& asked = dag.parameters[parameter];
    if (!asked.linear || asked.spec.shape.rank() != 2) return false;
    const int of_loss = dag.loss < 0 ? -1 : dag.tensor_at(dag.loss).producer;
    return std::none_of(asked.uses.begin(), asked.uses.end(), [&](int use) {
      const auto& outputs = dag.node_at(dag.use_at(use).node).outputs;
      return std::any_of(outputs.begin(), outputs.end(), [&](int output) {
        const auto& readers = dag.tensor_at(output).consumers;
        return std::find(readers.begin(), readers.end(), of_loss) != readers.end();
      });
    });
  }

  template <class Device, real E>
  [[nodiscard]] static Bytes matrix_workspace(std::int64_t rows, std::int64_t columns, int threads) {
    return detail::NewtonSchulz<Device, E>(rows, columns).workspace(threads);
  }

  [[nodiscard]] double matrix_flops(std::int64_t rows, std::int64_t columns) const {
    return detail::NewtonSchulz<device::Host, float>(rows, columns).flops(options.newton_schulz_steps);
  }

  template <class Device, real T>
  void update_matrix(const MatrixUpdate<Device, T>& matrix, std::int64_t /*t*/, double lr, bool decays) const {
    using E = sum_t<T>;
    using NewtonSchulz = detail::NewtonSchulz<Device, E>;
    const std::int64_t n = matrix.rows * matrix.columns;
    transform_vectors<E>(matrix.lane, n,
                         detail::MomentumKernel<E>{matrix.states[0], matrix.gradient,
                                                   NewtonSchulz::input(matrix.workspace), matrix.scale,
                                                   static_cast<E>(options.momentum)});
    const E* const x = NewtonSchulz(matrix.rows, matrix.columns)
                           .run(matrix.lane, matrix.workspace, options.newton_schulz_steps);
    const double step =
        lr * options.rms * std::sqrt(static_cast<double>((std::max)(matrix.rows, matrix.columns)));
    const double keep = decays ? 1 - product(lr, options.weight_decay) : 1;
    transform_vectors<T>(matrix.lane, n,
                         detail::OrthogonalStepKernel<T>{matrix.weight, matrix.master, x, static_cast<E>(keep),
                                                         static_cast<E>(step)});
  }

  Options options{};

private:
  [[nodiscard]] AdamW adamw() const {
    return AdamW({options.beta1, options.beta2, options.epsilon, options.weight_decay});
  }
};

static_assert(matrix_rule<Muon>);

}  // namespace optim
}  // namespace v0
}  // namespace reef
