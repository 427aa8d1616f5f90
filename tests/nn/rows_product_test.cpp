#include <reef/nn/host/rows.hpp>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <vector>

#include <gtest/gtest.h>

#include <reef/codec/blockwise8.hpp>
#include <reef/codec/int8_rows.hpp>
#include <reef/codec/normal_float4.hpp>
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

}  // namespace
