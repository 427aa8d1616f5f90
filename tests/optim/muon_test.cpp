#include <reef/optim/muon.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include <reef/nn/cross_entropy.hpp>
#include <reef/nn/embedding.hpp>
#include <reef/nn/gpt.hpp>
#include <reef/nn/host.hpp>
#include <reef/nn/linear.hpp>

#include "../laws/update_rule.hpp"

namespace reef::test {

namespace {

using Matrix = std::vector<double>;

/// What five steps make of a singular value.
double iterated(double s) {
  for (int step = 0; step < 5; ++step) s = 3.4445 * s - 4.7750 * s * s * s + 2.0315 * std::pow(s, 5);
  return s;
}

/// The first k columns of a product of reflections of (n, n): orthonormal, and dense.
Matrix orthonormal(std::int64_t n, std::int64_t k, std::uint64_t seed) {
  Matrix q(static_cast<std::size_t>(n * k));
  for (std::int64_t i = 0; i < k; ++i) q[static_cast<std::size_t>(i * k + i)] = 1;
  for (std::uint64_t reflection = 0; reflection < 3; ++reflection) {
    std::vector<double> v(static_cast<std::size_t>(n));
    double squares = 0;
    for (std::size_t i = 0; i < v.size(); ++i) {
      v[i] = normal({seed, reflection, 0, 0}, i);
      squares += v[i] * v[i];
    }
    for (std::int64_t j = 0; j < k; ++j) {
      double dot = 0;
      for (std::size_t i = 0; i < v.size(); ++i) dot += v[i] * q[i * static_cast<std::size_t>(k) + static_cast<std::size_t>(j)];
      for (std::size_t i = 0; i < v.size(); ++i) {
        q[i * static_cast<std::size_t>(k) + static_cast<std::size_t>(j)] -= 2 * dot / squares * v[i];
      }
    }
  }
  return q;
}

/// U diag(s) V^T, of (m, n).
Matrix composed(std::int64_t m, std::int64_t n, const std::vector<double>& s) {
  const auto k = static_cast<std::int64_t>(s.size());
  const Matrix u = orthonormal(m, k, 1);
  const Matrix v = orthonormal(n, k, 2);
  Matrix product(static_cast<std::size_t>(m * n));
  for (std::int64_t i = 0; i < m; ++i) {
    for (std::int64_t j = 0; j < n; ++j) {
      for (std::int64_t l = 0; l < k; ++l) {
        product[static_cast<std::size_t>(i * n + j)] += u[static_cast<std::size_t>(i * k + l)] *
                                                        s[static_cast<std::size_t>(l)] *
                                                        v[static_cast<std::size_t>(j * k + l)];
      }
    }
  }
  return product;
}

template <class E>
std::vector<E> orthogonalised(const Matrix& matrix, std::int64_t m, std::int64_t n, int threads) {
  using NewtonSchulz = optim::detail::NewtonSchulz<device::Host, E>;
  device::Host host({.threads = threads});
  const NewtonSchulz iteration(m, n);
  const auto workspace = host.allocate(iteration.workspace(threads), "workspace");
  std::copy(matrix.begin(), matrix.end(), NewtonSchulz::input(workspace.data()));
  std::vector<E> result(matrix.size());
  device::Host::Lane lane(host, "test");
  lane.submit([&](device::Host::Lane& own) {
    const E* const x = iteration.run(own, workspace.data(), 5);
    std::copy_n(x, result.size(), result.begin());
  });
  lane.synchronize();
  return result;
}

/// Singular values from the largest to a hundredth of it, and the matrix that five exact steps make.
template <class E>
void expect_its_singular_values(std::int64_t m, std::int64_t n) {
  const std::int64_t k = std::min(m, n);
  std::vector<double> s;
  double squares = 0;
  for (std::int64_t l = 0; l < k; ++l) {
    s.push_back(std::pow(0.01, k == 1 ? 0.0 : static_cast<double>(l) / static_cast<double>(k - 1)));
    squares += s.back() * s.back();
  }
  std::vector<double> made;
  for (const double one : s) made.push_back(iterated(one / (std::sqrt(squares) + 1e-7)));
  const Matrix given = composed(m, n, s);
  const Matrix expected = composed(m, n, made);
  const std::vector<E> tested = orthogonalised<E>(given, m, n, 1);
  // A step multiplies errors by 3.4445 at most, that being the slope at 0, and adds sums of at most 2 k + n terms.
  const double tolerance = 4 * 5 * std::pow(3.4445, 5) * std::sqrt(static_cast<double>(m + n)) *
                           static_cast<double>(std::numeric_limits<E>::epsilon()) /
                           std::sqrt(static_cast<double>(std::max(m, n)));
  for (std::size_t i = 0; i < expected.size(); ++i) {
    ASSERT_NEAR(static_cast<double>(tested[i]), expected[i], tolerance) << m << " x " << n << ", element " << i;
  }
}

/// A hidden matrix in the hands of the rule, update by update.
template <class T>
struct HiddenMatrix {
  std::int64_t rows, columns;
  std::vector<T> weights;
  std::vector<sum_t<T>> master;
  std::vector<sum_t<T>> momentum = std::vector<sum_t<T>>(weights.size());

  void update(const optim::Muon& rule, const std::vector<sum_t<T>>& gradient, double scale, double lr, bool decays) {
    using E = sum_t<T>;
    device::Host host({.threads = 2});
    const auto workspace = host.allocate(optim::Muon::matrix_workspace<device::Host, E>(rows, columns, 2), "workspace");
    device::Host::Lane lane(host, "test");
    lane.submit([&](device::Host::Lane& own) {
      E* const states[] = {momentum.data()};
      optim::MatrixUpdate<device::Host, T> matrix{own, rows, columns};
      matrix.weight = weights.data();
      if (!master.empty()) matrix.master = master.data();
      matrix.gradient = gradient.data();
      matrix.scale = static_cast<E>(scale);
      matrix.states = states;
      matrix.workspace = workspace.data();
      rule.update_matrix(matrix, 1, lr, decays);
    });
    lane.synchronize();
  }
};

}  // namespace

TEST(NewtonSchulz, moves_singular_values_to_about_one_and_leaves_singular_vectors) {
  for (const auto& [m, n] : {std::pair{48, 48}, {17, 90}, {90, 17}, {64, 512}, {1, 33}, {33, 1}, {1, 1}}) {
    expect_its_singular_values<double>(m, n);
    expect_its_singular_values<float>(m, n);
  }
  for (double s = 0.01; s <= 1; s += 0.001) {
    EXPECT_GT(iterated(s), 0.68) << s;
    EXPECT_LT(iterated(s), 1.21) << s;
  }
}

TEST(NewtonSchulz, has_the_same_bits_on_any_number_of_threads) {
  std::vector<double> s(192);
  for (std::size_t l = 0; l < s.size(); ++l) s[l] = 1.0 / static_cast<double>(l + 1);
  const Matrix given = composed(192, 640, s);
  const std::vector<float> alone = orthogonalised<float>(given, 192, 640, 1);
  EXPECT_EQ(orthogonalised<float>(given, 192, 640, 2), alone);
  EXPECT_EQ(orthogonalised<float>(given, 192, 640, 5), alone);
}

TEST(NewtonSchulz, of_zeros_is_zeros) {
  EXPECT_EQ(orthogonalised<float>(Matrix(15), 3, 5, 1), std::vector<float>(15));
}

template <class T>
struct MuonCase {
  using Element = T;
  static optim::Muon rule() {
    return optim::Muon({.beta1 = 0.75, .beta2 = 0.875, .epsilon = 0.05, .weight_decay = 0.25});
  }

  /// Of what is no hidden matrix, AdamW.
  struct Reference {
    double m = 0;
    double v = 0;
    double operator()(double w, double g, int t, double lr, bool decays) {
      m = 0.75 * m + (1 - 0.75) * g;
      v = 0.875 * v + (1 - 0.875) * (g * g);
      const double decay = decays ? 0.25 * w : 0.0;
      return w - lr * (m / (1 - std::pow(0.75, t)) / (std::sqrt(v / (1 - std::pow(0.875, t))) + 0.05) + decay);
    }
  };
};

using MuonCases = testing::Types<MuonCase<float>, MuonCase<double>>;
INSTANTIATE_TYPED_TEST_SUITE_P(Muon, UpdateRuleLaws, MuonCases);

/// Two updates of W = ((1, -2, 0.5), (0.25, 3, -1)) with the rate 0.02, computed from the source's equations by way of
/// singular values: eigenvectors u of N N^T, of (2, 2), in closed form, s = |u N|; X = sum of u f(s) (u N) / s, with f
/// five times 3.4445 s - 4.7750 s^3 + 2.0315 s^5. So no product of the iteration is in these figures.
TEST(Muon, gives_the_numbers_of_its_equations_by_singular_values) {
  const std::vector<double> gradients[] = {{0.5, -1, 2, 1.5, 0.25, -0.75}, {-0.25, 1, 0.5, 2, -1.5, 0.125}};
  const std::vector<double> expected[] = {
      {0.9965206939150724, -1.992739256119363, 0.4924552713378968, 0.2450214101687657, 2.9931528577912,
       -0.9955515369769187},
      {0.9930488637137216, -1.9907753928541356, 0.48408501851564195, 0.24014241389194843, 2.9891128031156784,
       -0.994032056285717}};
  const optim::Muon rule;
  HiddenMatrix<double> wide{2, 3, {1, -2, 0.5, 0.25, 3, -1}, {}};
  HiddenMatrix<double> tall{3, 2, {1, 0.25, -2, 3, 0.5, -1}, {}};
  for (std::size_t step = 0; step < 2; ++step) {
    const std::vector<double>& g = gradients[step];
    std::vector<double> doubled;
    for (const double one : g) doubled.push_back(2 * one);
    wide.update(rule, doubled, 0.5, 0.02, true);
    tall.update(rule, {g[0], g[3], g[1], g[4], g[2], g[5]}, 1, 0.02, true);
    for (std::size_t i = 0; i < 6; ++i) {
      EXPECT_NEAR(wide.weights[i], expected[step][i], 1e-12) << step;
      EXPECT_NEAR(tall.weights[2 * (i % 3) + i / 3], expected[step][i], 1e-12) << step;
    }
  }
  EXPECT_DOUBLE_EQ(wide.momentum[2], 2.4);
  EXPECT_DOUBLE_EQ(wide.momentum[3], 3.425);
}

TEST(Muon, updates_by_about_as_much_as_adamw_whatever_the_shape) {
  for (const auto& [m, n] : {std::pair{32, 32}, {16, 128}, {128, 16}}) {
    HiddenMatrix<float> matrix{m, n, std::vector<float>(static_cast<std::size_t>(m * n)), {}};
    std::vector<float> gradient;
    for (std::size_t i = 0; i < matrix.weights.size(); ++i) gradient.push_back(static_cast<float>(normal({3, 0, 0, 0}, i)));
    matrix.update(optim::Muon{}, gradient, 1e-3, 1, false);
    double squares = 0;
    for (const float w : matrix.weights) squares += static_cast<double>(w) * static_cast<double>(w);
    // rms sqrt(max) of k singular values from 0.68 to 1.21, spread over m n elements: rms sqrt(max k / (m n)) = rms.
    const double root_mean_square = std::sqrt(squares / static_cast<double>(m * n));
    EXPECT_GT(root_mean_square, 0.2 * 0.68);
    EXPECT_LT(root_mean_square, 0.2 * 1.21);
  }
}

TEST(Muon, keeps_master_weights_of_bf16_and_rounds_them) {
  HiddenMatrix<float> exact{2, 3, {1, -2, 0.5, 0.25, 3, -1}, {}};
  HiddenMatrix<Bfloat16> rounded{2, 3, std::vector<Bfloat16>(6), exact.weights};
  for (int step = 0; step < 3; ++step) {
    exact.update(optim::Muon{}, {0.5, -1, 2, 1.5, 0.25, -0.75}, 1, 0.02, true);
    rounded.update(optim::Muon{}, {0.5, -1, 2, 1.5, 0.25, -0.75}, 1, 0.02, true);
  }
  EXPECT_EQ(rounded.master, exact.weights);
  for (std::size_t i = 0; i < 6; ++i) {
    EXPECT_EQ(static_cast<float>(rounded.weights[i]), static_cast<float>(Bfloat16(exact.weights[i])));
  }
}

TEST(Muon, takes_hidden_matrices_and_neither_tables_nor_the_head) {
  const auto tied = nn::gpt<device::Host, float>({.layers = 1, .heads = 2, .channels = 8, .vocabulary = 12, .context = 4}, 1);
  const graph::Dag& dag = tied.dag();
  std::vector<std::string> taken;
  for (std::size_t p = 0; p < dag.parameters.size(); ++p) {
    if (optim::Muon{}.takes_whole(dag, p)) taken.push_back(dag.parameters[p].name);
  }
  const std::string h = "transformer.h.0.";
  EXPECT_EQ(taken, (std::vector<std::string>{h + "attn.c_attn.weight", h + "attn.c_proj.weight", h + "mlp.c_fc.weight",
                                             h + "mlp.c_proj.weight"}));

  graph::Graph<device::Host, float> untied(1);
  const int tokens = untied.input("tokens", {{2, 4}, Element::int32});
  const int targets = untied.input("targets", {{2, 4}, Element::int32});
  int x = untied.add("embedding", nn::Embedding{12, 4, 8}, {tokens})[0];
  x = untied.add("hidden", nn::Linear{8}, {x})[0];
  x = untied.add("head", nn::Linear{12, false}, {x})[0];
  untied.loss(untied.add("loss", nn::CrossEntropy{}, {x, targets})[0]);
  const auto takes = [&](const char* name) {
    return optim::Muon{}.takes_whole(untied.dag(), static_cast<std::size_t>(untied.dag().parameter(name)));
  };
  EXPECT_TRUE(takes("hidden.weight"));
  EXPECT_FALSE(takes("hidden.bias"));
  EXPECT_FALSE(takes("head.weight"));
  EXPECT_FALSE(takes("embedding.wte.weight"));
}

TEST(Muon, refuses_constants_without_a_meaning) {
  EXPECT_THROW(optim::Muon({.momentum = 1}).validate(), OptionError);
  EXPECT_THROW(optim::Muon({.rms = 0}).validate(), OptionError);
  EXPECT_THROW(optim::Muon({.newton_schulz_steps = 0}).validate(), OptionError);
  EXPECT_THROW(optim::Muon({.beta2 = 1}).validate(), OptionError);
  EXPECT_NO_THROW(optim::Muon{}.validate());
}

}  // namespace reef::test
