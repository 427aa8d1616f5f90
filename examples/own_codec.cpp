// Purpose  A codec of one's own (support/ternary.hpp): what it makes of numbers, and how error feedback around it says later
//          what it leaves out.
// Command  build/release/examples/own-codec
// Output   1000 numbers take 236 bytes instead of 4000; what is left out of one message is 43 % of the norm,
//          of the sum of 30 with error feedback 4 %
// links: reef::core
// prints: 1000 numbers take 236 bytes instead of 4000
#include <cmath>
#include <cstdio>
#include <vector>

#include <reef/codec/error_feedback.hpp>
#include <reef/core/random.hpp>

#include "support/ternary.hpp"

using reef_examples::Ternary;

int main() {
  constexpr std::int64_t n = 1000;
  std::vector<float> values(n);
  for (std::size_t i = 0; i < values.size(); ++i) {
    const auto uniform = [i](std::uint64_t draw) { return (reef::random_bits({1, 0, 0, 0}, 2 * i + draw) + 1.0) / 0x1p32; };
    values[i] = static_cast<float>(std::sqrt(-2 * std::log(uniform(0))) * std::cos(6.283185 * uniform(1)));
  }
  const auto error = [&](const std::vector<float>& decoded, double times) {
    double left = 0, all = 0;
    for (std::size_t i = 0; i < values.size(); ++i) {
      left += std::pow(times * values[i] - decoded[i], 2);
      all += std::pow(times * values[i], 2);
    }
    return 100 * std::sqrt(left / all);
  };

  const reef::codec::ErrorFeedback<Ternary> format;
  std::vector<float> memory(values.size()), decoded(values.size()), sum(values.size());
  std::vector<std::byte> message(format.encoded_bytes(n));
  for (int step = 0; step < 30; ++step) {
    format.encode(values, memory, memory, message);
    format.decode(message, {}, {}, decoded);
    if (step == 0) {
      std::printf("%td numbers take %zu bytes instead of %zu; what is left out of one message is %.0f %% of the norm,\n", n,
                  message.size(), values.size() * sizeof(float), error(decoded, 1));
    }
    for (std::size_t i = 0; i < sum.size(); ++i) sum[i] += decoded[i];
  }
  std::printf("of the sum of 30 with error feedback %.0f %%\n", error(sum, 30));
}
