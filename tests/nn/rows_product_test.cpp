#include <reef/nn/host/rows.hpp>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include <gtest/gtest.h>

#include <reef/codec/blockwise8.hpp>
#include <reef/codec/int8_rows.hpp>
#include <reef/codec/normal_float4.hpp>
#include <reef/core/error.hpp>
#include <reef/core/random.hpp>
#include <reef/device/host.hpp>
#include <reef/device/instruction_set.hpp>

namespace {

using namespace reef;
using device::Host;
using graph::WeightForm;
using Kernels = nn::RowKernels<Host>;

std::vector<float> drawn(std::int64_t count, std::uint64_t seed) {
  std::vector<float> result(static_cast<std::size_t>(count));
  for (std::size_t i = 0; i < result.size(); ++i) {
    result[i] = static_cast<float>(uniform({.seed = seed}, i)) - 0.5F;
    if (i % 7 == 0) result[i] *= 0.001F;  // the dynamic code has many decades
  }
  return result;
}

/// What the rows of w, each of K numbers, decode to.
std::vector<float> decoded(const std::vector<float>& w, std::int64_t K, WeightForm form) {
  std::vector<float> result = w;
  const std::int64_t N = std::ssize(w) / K;
  const std::int64_t padded = (K + 63) / 64 * 64;
  std::vector<float> blocks(static_cast<std::size_t>(N * padded));
  for (std::int64_t n = 0; n < N; ++n) std::copy_n(w.begin() + n * K, K, blocks.begin() + n * padded);
  const auto decode = [&](const auto& format) {
    std::vector<std::byte> message(format.encoded_bytes(std::ssize(blocks)));
    format.encode(blocks, message);
    format.decode(message, blocks);
    for (std::int64_t n = 0; n < N; ++n) std::copy_n(blocks.begin() + n * padded, K, result.begin() + n * K);
  };
  switch (form) {
    case WeightForm::as_given: break;
    case WeightForm::bf16:
      for (float& value : result) value = static_cast<float>(Bfloat16(value));
      break;
    case WeightForm::int8: {
      const codec::Int8Rows rows = codec::int8_rows(w, K);
      for (std::size_t i = 0; i < w.size(); ++i) {
        result[i] = static_cast<float>(rows.values[i]) * (rows.largest[i / static_cast<std::size_t>(K)] / 127.0F);
      }
      break;
    }
    case WeightForm::blockwise8: decode(codec::Blockwise8{64}); break;
    case WeightForm::nf4: decode(codec::NormalFloat4{64, true}); break;
  }
  return result;
}

TEST(RowsProduct, is_a_chain_of_fma_over_the_numbers_that_a_form_decodes_to) {
  const auto before = device::instruction_set();
  Host host({.threads = 2});
  Host::Lane lane(host, "compute");
  struct Case {
    std::int64_t K, N;
  };
  // Of 9000 inputs, scales lie in more than 16 groups of 256 blocks and take more than one turn.
  for (const auto& [K, N] : {Case{5, 3}, Case{64, 32}, Case{131, 545}, Case{600, 70}, Case{9000, 37}}) {
    const std::vector<float> w = drawn(N * K, 1);
    const std::vector<float> bias = drawn(N, 2);
    for (const WeightForm form : {WeightForm::as_given, WeightForm::bf16, WeightForm::int8, WeightForm::blockwise8, WeightForm::nf4}) {
      const std::vector<float> numbers = decoded(w, K, form);
      const auto packed = host.allocate(Kernels::packed_bytes<float>(K, N, form), "packed");
      for (const std::int64_t R : {1, 2, 7, 31}) {
        const std::vector<float> in = drawn(R * K, 3);
        std::vector<float> expected;
        for (std::int64_t r = 0; r < R; ++r) {
          for (std::int64_t n = 0; n < N; ++n) {
            float sum = bias[static_cast<std::size_t>(n)];
            for (std::int64_t k = 0; k < K; ++k) {
              sum = std::fma(in[static_cast<std::size_t>(r * K + k)], numbers[static_cast<std::size_t>(n * K + k)], sum);
            }
            expected.push_back(sum);
          }
        }
        const auto workspace = host.allocate(Kernels::rows_product_workspace<float>(R, K, 2), "workspace");
        for (const auto set : {device::InstructionSet::avx2, device::InstructionSet::avx512}) {
          if (set > device::best_instruction_set()) continue;
          device::use_instruction_set(set);
          std::vector<float> out(expected.size());
          lane.submit([&](Host::Lane& own) {
            Kernels::pack<float>(own, packed.data(), w.data(), K, N, nn::Transpose::yes, form);
            Kernels::rows_product<float>(own, out.data(), in.data(), packed.data(), bias.data(), R, K, N, form, workspace.data());
          });
          lane.synchronize();
          EXPECT_EQ(out, expected) << "form " << static_cast<int>(form) << ", K " << K << ", R " << R << ", "
                                   << device::name_of(set);
        }
      }
    }
  }
  device::use_instruction_set(before);
}

TEST(RowsProduct, in_blockwise8_and_nf4_is_no_further_from_the_dense_product_than_their_codes_are_apart) {
  constexpr std::int64_t K = 1000, N = 40, R = 3, block = 64;
  std::vector<float> w(static_cast<std::size_t>(N * K)), in(static_cast<std::size_t>(R * K));
  for (std::size_t i = 0; i < w.size(); ++i) w[i] = static_cast<float>(normal({.seed = 11}, i));
  for (std::size_t i = 0; i < in.size(); ++i) in[i] = static_cast<float>(normal({.seed = 12}, i));
  const auto at = [](const std::vector<float>& of, std::int64_t i) { return static_cast<double>(of[static_cast<std::size_t>(i)]); };
  double largest = 0;
  for (const float weight : w) largest = std::max(largest, std::abs(static_cast<double>(weight)));
  Host host({.threads = 2});
  Host::Lane lane(host, "compute");
  for (const WeightForm form : {WeightForm::blockwise8, WeightForm::nf4}) {
    SCOPED_TRACE(form == WeightForm::nf4 ? "nf4" : "blockwise8");
    const auto packed = host.allocate(Kernels::packed_bytes<float>(K, N, form), "packed");
    const auto workspace = host.allocate(Kernels::rows_product_workspace<float>(R, K, 2), "workspace");
    std::vector<float> out(static_cast<std::size_t>(R * N));
    lane.submit([&](Host::Lane& own) {
      Kernels::pack<float>(own, packed.data(), w.data(), K, N, nn::Transpose::yes, form);
      Kernels::rows_product<float>(own, out.data(), in.data(), packed.data(), nullptr, R, K, N, form, workspace.data());
    });
    lane.synchronize();
    double off = 0, all = 0;
    for (std::int64_t r = 0; r < R; ++r) {
      for (std::int64_t n = 0; n < N; ++n) {
        double dense = 0, bound = 0, magnitudes = 0;
        for (std::int64_t first = 0; first < K; first += block) {
          double scale = 0;  // the largest magnitude of the block
          const std::int64_t end = std::min(K, first + block);
          for (std::int64_t k = first; k < end; ++k) scale = std::max(scale, std::abs(at(w, n * K + k)));
          // Half of the largest gap between codes: 0.9 / 64 of blockwise8's, and from -1 to -0.6962 of nf4's, whose
          // scales are themselves in the codes of blockwise8.
          const double apart = form == WeightForm::nf4 ? 0.152 * scale + 0.0071 * 2 * largest : 0.0071 * scale;
          for (std::int64_t k = first; k < end; ++k) {
            const double x = at(in, r * K + k);
            dense += x * at(w, n * K + k);
            magnitudes += std::abs(x * at(w, n * K + k));
            bound += std::abs(x) * apart;
          }
        }
        const double found = at(out, r * N + n);
        EXPECT_LE(std::abs(found - dense), bound + static_cast<double>(K) * 0x1p-24 * 2 * magnitudes);
        off += (found - dense) * (found - dense);
        all += dense * dense;
      }
    }
    // Of normally distributed numbers the codecs' headers say how much of the norm is lost.
    EXPECT_LE(std::sqrt(off / all), form == WeightForm::nf4 ? 1.15 * 0.092 : 0.013);
    EXPECT_GE(std::sqrt(off / all), form == WeightForm::nf4 ? 0.05 : 0.002);
  }
}

/// A product of R rows with a matrix (N, K) in int8, of which `outliers` inputs are stored as given.
std::vector<float> int8_product(const std::vector<float>& w, const std::vector<float>& in, std::int64_t K, std::int64_t outliers,
                                std::span<const float> magnitudes = {}) {
  const std::int64_t N = std::ssize(w) / K;
  const std::int64_t R = std::ssize(in) / K;
  Host host({.threads = 2});
  Host::Lane lane(host, "compute");
  const auto packed = host.allocate(Kernels::packed_bytes<float>(K, N, WeightForm::int8, outliers), "packed");
  const auto workspace = host.allocate(Kernels::rows_product_workspace<float>(R, K, 2, outliers), "workspace");
  std::vector<float> out(static_cast<std::size_t>(R * N));
  lane.submit([&](Host::Lane& own) {
    Kernels::pack<float>(own, packed.data(), w.data(), K, N, nn::Transpose::yes, WeightForm::int8, outliers, magnitudes);
    Kernels::rows_product<float>(own, out.data(), in.data(), packed.data(), nullptr, R, K, N, WeightForm::int8, workspace.data());
  });
  lane.synchronize();
  return out;
}

/// A matrix (N, K) whose inputs `large` have numbers that are 100 times those of the others.
std::vector<float> with_large_inputs(std::int64_t N, std::int64_t K, const std::vector<std::int64_t>& large) {
  std::vector<float> w = drawn(N * K, 4);
  for (std::int64_t n = 0; n < N; ++n) {
    for (const std::int64_t k : large) w[static_cast<std::size_t>(n * K + k)] *= 100;
  }
  return w;
}

TEST(RowsProduct, of_int8_adds_outliers_as_they_are_given_behind_a_chain_in_which_they_are_zero) {
  const auto before = device::instruction_set();
  struct Case {
    std::int64_t K, N;
    std::vector<std::int64_t> large;
  };
  std::vector<std::int64_t> many(300);
  for (std::size_t i = 0; i < many.size(); ++i) many[i] = static_cast<std::int64_t>(2 * i + 1);
  for (const auto& [K, N, large] : {Case{5, 3, {4}}, Case{131, 545, {0, 77, 130}}, Case{700, 70, many}}) {
    std::vector<float> w = with_large_inputs(N, K, large);
    std::vector<float> rest = w;
    for (std::int64_t n = 0; n < N; ++n) {
      for (const std::int64_t k : large) {
        rest[static_cast<std::size_t>(n * K + k)] = 0;
        // Without one that was drawn near 0, so that no other input stands out more.
        w[static_cast<std::size_t>(n * K + k)] += std::copysign(100.0F, w[static_cast<std::size_t>(n * K + k)]);
      }
    }
    const std::vector<float> numbers = decoded(rest, K, WeightForm::int8);
    for (const std::int64_t R : {1, 2, 31}) {
      const std::vector<float> in = drawn(R * K, 3);
      std::vector<float> expected;
      for (std::int64_t r = 0; r < R; ++r) {
        for (std::int64_t n = 0; n < N; ++n) {
          float sum = 0;
          const auto add = [&](const std::vector<float>& from, std::int64_t k) {
            sum = std::fma(in[static_cast<std::size_t>(r * K + k)], from[static_cast<std::size_t>(n * K + k)], sum);
          };
          for (std::int64_t k = 0; k < K; ++k) add(numbers, k);
          for (const std::int64_t k : large) add(w, k);
          expected.push_back(sum);
        }
      }
      for (const auto set : {device::InstructionSet::avx2, device::InstructionSet::avx512}) {
        if (set > device::best_instruction_set()) continue;
        device::use_instruction_set(set);
        EXPECT_EQ(int8_product(w, in, K, std::ssize(large)), expected) << "K " << K << ", R " << R << ", " << device::name_of(set);
      }
    }
  }
  device::use_instruction_set(before);
}

/// The largest error of a product, over the sum of |in w| over its inputs.
double error_of(const std::vector<float>& out, const std::vector<float>& w, const std::vector<float>& in, std::int64_t K) {
  const std::int64_t N = std::ssize(w) / K;
  double largest = 0;
  for (std::int64_t i = 0; i < std::ssize(out); ++i) {
    double exact = 0, terms = 0;
    for (std::int64_t k = 0; k < K; ++k) {
      const double term = static_cast<double>(in[static_cast<std::size_t>(i / N * K + k)]) * w[static_cast<std::size_t>(i % N * K + k)];
      exact += term;
      terms += std::abs(term);
    }
    largest = std::max(largest, std::abs(out[static_cast<std::size_t>(i)] - exact) / terms);
  }
  return largest;
}

TEST(RowsProduct, of_int8_errs_by_half_a_step_of_what_is_left_without_the_outliers) {
  constexpr std::int64_t K = 512, N = 96, R = 5;
  const std::vector<std::int64_t> large{3, 200, 201, 511};
  const std::vector<float> w = with_large_inputs(N, K, large);
  const std::vector<float> in = drawn(R * K, 3);
  const std::vector<float> out = int8_product(w, in, K, std::ssize(large));
  for (std::int64_t r = 0; r < R; ++r) {
    for (std::int64_t n = 0; n < N; ++n) {
      double exact = 0, terms = 0, of_rest = 0, most = 0;
      for (std::int64_t k = 0; k < K; ++k) {
        const double x = in[static_cast<std::size_t>(r * K + k)];
        const double y = w[static_cast<std::size_t>(n * K + k)];
        exact += x * y;
        terms += std::abs(x * y);
        if (std::find(large.begin(), large.end(), k) != large.end()) continue;
        of_rest += std::abs(x);
        most = std::max(most, std::abs(y));
      }
      // Half a step for each input that is rounded, and the rounding of K sums.
      const double bound = of_rest * most / 254 * 1.001 + terms * static_cast<double>(K) * 0x1p-24;
      EXPECT_LE(std::abs(out[static_cast<std::size_t>(r * N + n)] - exact), bound) << "row " << r << ", column " << n;
    }
  }
  // Numbers that are 100 times as large make steps 100 times as wide for all others.
  EXPECT_GT(error_of(int8_product(w, in, K, 0), w, in, K), 10 * error_of(out, w, in, K));
}

TEST(RowsProduct, of_int8_takes_the_inputs_of_the_largest_magnitudes_for_outliers_where_these_are_given) {
  constexpr std::int64_t K = 512, N = 96, R = 5;
  const std::vector<float> w = drawn(N * K, 4);
  std::vector<float> in = drawn(R * K, 3);
  std::vector<float> magnitudes(static_cast<std::size_t>(K), 0.5F);
  for (const std::int64_t k : {7, 300}) {  // activations that stand out, of weights that do not
    for (std::int64_t r = 0; r < R; ++r) in[static_cast<std::size_t>(r * K + k)] = r % 2 == 0 ? 60.0F : -70.0F;
    magnitudes[static_cast<std::size_t>(k)] = 70;
  }
  const double known = error_of(int8_product(w, in, K, 2, magnitudes), w, in, K);
  EXPECT_GT(error_of(int8_product(w, in, K, 0), w, in, K), 5 * known);
  EXPECT_GT(error_of(int8_product(w, in, K, 2), w, in, K), 5 * known);
  EXPECT_THROW(int8_product(w, in, K, 2, std::span(magnitudes).first(5)), ShapeError);
}

}  // namespace
