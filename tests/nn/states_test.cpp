// Keys and values in pages, in each form: attention over them is that of the numbers that they decode to, and a sequence
// has the same bits however it is read.

#include <reef/nn/session.hpp>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <random>
#include <span>
#include <vector>

#include <gtest/gtest.h>

#include <reef/codec/int8_rows.hpp>
#include <reef/core/bfloat16.hpp>
#include <reef/device/host.hpp>
#include <reef/device/instruction_set.hpp>
#include <reef/nn/host.hpp>
#include <reef/nn/llama.hpp>

#include "../laws/graph_runner.hpp"
#include "../support/same_bits.hpp"

namespace {

using namespace reef;
using namespace reef::test;
using device::Host;
using graph::StateForm;
using Numbers = std::vector<float>;

constexpr StateForm all_forms[] = {StateForm::as_given, StateForm::bf16, StateForm::int8};

/// Returns the numbers that a form keeps of a key or a value.
Numbers kept(const Numbers& row, StateForm form) {
  Numbers result = row;
  if (form == StateForm::bf16) std::transform(row.begin(), row.end(), result.begin(), [](float x) { return float(Bfloat16(x)); });
  if (form == StateForm::int8) {
    const codec::Int8Rows coded = codec::int8_rows(row, std::ssize(row));
    for (std::size_t i = 0; i < row.size(); ++i) result[i] = static_cast<float>(coded.values[i]) * coded.largest[0] / 127;
  }
  return result;
}

/// Attention over one sequence of some positions, all drawn, appended in one call, with pages of its own.
struct Attended {
  std::int64_t H, G, D, window, positions;
  Numbers q, k, v, out;

  Attended(std::int64_t heads, std::int64_t groups, std::int64_t channels, std::int64_t last, std::int64_t length)
      : H(heads), G(groups), D(channels), window(last), positions(length) {
    std::mt19937 random(5);
    std::normal_distribution<float> normal;
    const auto draw = [&](std::int64_t n) {
      Numbers all(static_cast<std::size_t>(n));
      for (float& x : all) x = 2 * normal(random);
      return all;
    };
    q = draw(positions * H * D);
    k = draw(positions * G * D);
    v = draw(positions * G * D);
    out.resize(q.size());
  }

  void run(StateForm form) {
    using Kernels = nn::RowKernels<Host>;
    Host host({.threads = 2});
    const Bytes bytes = static_cast<Bytes>(graph::page_positions) * Kernels::rows_attention_state<float>(G, D, form);
    std::vector<std::vector<std::byte>> memory;
    std::vector<std::byte*> pages;
    for (std::int64_t first = 0; first < positions; first += graph::page_positions) {
      memory.emplace_back(bytes, std::byte{0x7F});  // NaNs, as floats and in bf16: nobody reads what nobody wrote
      pages.push_back(memory.back().data());
    }
    const graph::Pages table(pages);
    std::vector<graph::Row> rows;
    for (std::int64_t i = 0; i < positions; ++i) rows.push_back({0, i});
    std::vector<std::byte> workspace(Kernels::rows_attention_workspace<float>(positions, H, D, positions, 2) + 64);
    Host::Lane lane(host, "test");
    lane.submit([&](Host::Lane& on) {
      Kernels::rows_attention<float>(on, out.data(), q.data(), k.data(), v.data(), H * D, G * D, rows, {&table, 1}, 0, H, G, D,
                                     window, false, {.positions = positions, .states = form}, workspace.data());
    });
    lane.synchronize();
  }

  [[nodiscard]] Numbers row(const Numbers& of, std::int64_t index, std::int64_t heads) const {
    const auto begin = of.begin() + index * D;
    return index < positions * heads ? Numbers(begin, begin + D) : Numbers();
  }

  /// The same in fp64, over what the form keeps of keys and values.
  [[nodiscard]] std::vector<double> wanted(StateForm form) const {
    std::vector<double> result;
    std::vector<Numbers> keys, values;
    for (std::int64_t i = 0; i < positions * G; ++i) {
      keys.push_back(kept(row(k, i, G), form));
      values.push_back(kept(row(v, i, G), form));
    }
    for (std::int64_t t = 0; t < positions; ++t) {
      for (std::int64_t h = 0; h < H; ++h) {
        const Numbers query = row(q, t * H + h, H);
        const std::int64_t first = window == 0 ? 0 : std::max<std::int64_t>(0, t + 1 - window);
        std::vector<double> scores;
        for (std::int64_t s = first; s <= t; ++s) {
          const Numbers& key = keys[static_cast<std::size_t>(s * G + h / (H / G))];
          double dot = 0;
          for (std::size_t d = 0; d < key.size(); ++d) dot += static_cast<double>(query[d]) * static_cast<double>(key[d]);
          scores.push_back(dot / std::sqrt(static_cast<double>(D)));
        }
        const double largest = *std::max_element(scores.begin(), scores.end());
        double total = 0;
        for (double& score : scores) total += score = std::exp(score - largest);
        for (std::size_t d = 0; d < static_cast<std::size_t>(D); ++d) {
          double sum = 0;
          for (std::size_t s = 0; s < scores.size(); ++s) {
            sum += scores[s] * static_cast<double>(values[(static_cast<std::size_t>(first) + s) * static_cast<std::size_t>(G) +
                                                          static_cast<std::size_t>(h / (H / G))][d]);
          }
          result.push_back(sum / total);
        }
      }
    }
    return result;
  }
};

TEST(States, are_attended_as_the_numbers_that_they_decode_to) {
  for (const StateForm form : all_forms) {
    for (const auto& [H, G, D, window, positions] : std::vector<std::array<std::int64_t, 5>>{
             {4, 2, 64, 0, 130}, {3, 1, 20, 0, 70}, {2, 2, 7, 33, 200}, {2, 2, 37, 0, 64}, {1, 1, 1, 0, 65}}) {
      Attended attended(H, G, D, window, positions);
      attended.run(form);
      const std::vector<double> wanted = attended.wanted(form);
      ASSERT_EQ(wanted.size(), attended.out.size());
      for (std::size_t i = 0; i < wanted.size(); ++i) {
        ASSERT_NEAR(static_cast<double>(attended.out[i]), wanted[i], 2e-5) << static_cast<int>(form) << ", D " << D << ", element " << i;
      }
    }
  }
}

TEST(States, that_are_not_finite_are_not_hidden) {
  for (const float bad : {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity()}) {
    for (const StateForm form : all_forms) {
      Attended attended(1, 1, 16, 0, 66);
      attended.v[16 * 64 + 3] = bad;
      attended.run(form);
      for (std::int64_t t = 0; t < 66; ++t) {
        const Numbers row = attended.row(attended.out, t, 1);
        EXPECT_EQ(std::isfinite(row[3]), t < 64) << t;
      }
    }
  }
}

TEST(States, too_small_to_divide_by_are_zeros) {
  Attended attended(1, 1, 16, 0, 3);
  std::fill(attended.v.begin(), attended.v.end(), 1e-40F);
  std::fill(attended.k.begin(), attended.k.end(), 0.0F);
  attended.run(StateForm::int8);
  for (const float number : attended.out) EXPECT_LE(std::abs(number), 1e-39F);
}

template <real T>
graph::Graph<Host, T> model() {
  return nn::llama<Host, T>({.layers = 2, .heads = 4, .kv_heads = 2, .channels = 24, .hidden = 40, .vocabulary = 37,
                             .context = 300, .sequence = 8, .window = 40}, 1);
}

template <real T>
struct Served {
  Host host{{.threads = 2}};
  nn::Session<Host, T> session;

  explicit Served(StateForm form, const graph::Graph<Host, T>& model = ::model<T>())
      : session(host, model, {.positions = 200, .sequences = 3, .rows = 50, .states = form}) {
    for (const auto& [id, values] : Point<sum_t<T>>::make(model.dag(), 37).parameters)
      session.set_parameter(model.dag().parameter_at(id).name, values);
  }
};

std::vector<std::int32_t> drawn_tokens(std::int64_t count) {
  std::mt19937 random(9);
  std::vector<std::int32_t> tokens(static_cast<std::size_t>(count));
  for (auto& token : tokens) token = static_cast<std::int32_t>(random() % 37);
  return tokens;
}

template <class T>
class StatesOf : public testing::Test {};
using Types = testing::Types<float, Bfloat16, double>;
TYPED_TEST_SUITE(StatesOf, Types);

TYPED_TEST(StatesOf, a_sequence_has_its_bits_in_any_chunks_forked_and_beside_another) {
  const auto tokens = drawn_tokens(100);
  for (const StateForm form : all_forms) {
    Served<TypeParam> served(form);
    auto& session = served.session;
    const int one = session.open();
    std::vector<Numbers> wanted;
    for (const std::int32_t& token : tokens) {
      const auto row = session.append({{one, {&token, 1}}}).row(0);
      wanted.emplace_back(row.begin(), row.end());
    }
    const int other = session.open();
    const std::span<const std::int32_t> all(tokens);
    session.append({{other, all.first(77)}});
    const int fork = session.fork(other);
    session.truncate(fork, 60);
    const nn::Logits both = session.append({{fork, all.subspan(60, 3)}, {other, all.subspan(77)}});
    EXPECT_TRUE(same_bits(Numbers(both.row(0).begin(), both.row(0).end()), wanted[62]));
    EXPECT_TRUE(same_bits(Numbers(both.row(1).begin(), both.row(1).end()), wanted[99]));
  }
}

TEST(States, in_fewer_bits_are_near_those_of_32_and_take_their_bytes) {
  const auto tokens = drawn_tokens(150);
  const auto large = nn::llama<Host, float>({.layers = 2, .heads = 4, .kv_heads = 2, .channels = 256, .hidden = 64,
                                             .vocabulary = 37, .context = 200, .sequence = 1}, 1);
  std::vector<Numbers> logits;
  std::vector<double> bytes;
  for (const StateForm form : all_forms) {
    Served<float> served(form, large);
    const auto last = served.session.append({{served.session.open(), tokens}}).row(0);
    logits.emplace_back(last.begin(), last.end());
    for (const auto& [holder, size] : served.host.memory().holders)
      if (holder == "pages of sequences") bytes.push_back(static_cast<double>(size));
  }
  EXPECT_EQ(bytes[1], bytes[0] / 2);
  EXPECT_EQ(bytes[2], bytes[0] * (64 + 4) / (4 * 64));
  const float largest = std::abs(*std::max_element(logits[0].begin(), logits[0].end(), [](float a, float b) { return std::abs(a) < std::abs(b); }));
  for (std::size_t form = 1; form < 3; ++form) {
    EXPECT_NE(logits[form], logits[0]);
    for (std::size_t i = 0; i < logits[0].size(); ++i) EXPECT_NEAR(logits[form][i], logits[0][i], (form == 1 ? 0x1p-5F : 0x1p-4F) * largest);
  }
}

TEST(States, have_the_same_bits_with_vectors_of_8_and_of_16) {
  if (device::best_instruction_set() < device::InstructionSet::avx512) GTEST_SKIP() << "this machine has no AVX-512";
  const auto before = device::instruction_set();
  for (const StateForm form : all_forms) {
    std::vector<Numbers> found;
    for (const auto set : {device::InstructionSet::avx2, device::InstructionSet::avx512}) {
      device::use_instruction_set(set);
      Attended attended(3, 1, 37, 0, 130);
      attended.run(form);
      found.push_back(attended.out);
    }
    EXPECT_TRUE(same_bits(found[0], found[1]));
  }
  device::use_instruction_set(before);
}

}  // namespace
