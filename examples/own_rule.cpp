// Purpose  An update rule of one's own, Lion (arXiv 2302.06675): one struct, which every optimizer
//          policy takes, replicated or sharded, and which runs on the host's vector units.
// Command  mpiexec -n 2 build/release/examples/own-rule
// Output   Ddp<Lion>    first loss 3.20, last loss 1.73
//          Zero1<Lion>  first loss 3.20, last loss 1.73
//          equal bits: yes
// links: reef::compiled
// ranks: 2
// prints: equal bits: yes
#include <cstdio>
#include <exception>
#include <vector>

#include <reef/comm/environment.hpp>
#include <reef/nn/gpt.hpp>
#include <reef/optim/ddp.hpp>
#include <reef/optim/zero1.hpp>
#include <reef/trainer/trainer.hpp>

using namespace reef;

///     w = w - lr (sign(beta1 m + (1 - beta1) g) + weight_decay w)      m = beta2 m + (1 - beta2) g
struct Lion {
  struct Options {
    double beta1 = 0.9, beta2 = 0.99, weight_decay = 0.1;
  };
  static constexpr std::string_view name = "lion";
  static constexpr int states = 1;  // m
  template <real T>
  struct Coefficients {
    T beta1, beta2, lr, keep;
  };
  template <real T>
  Coefficients<T> coefficients(std::int64_t /*t*/, double lr, bool decays) const {
    const double keep = decays ? 1 - lr * options.weight_decay : 1;
    return {T(options.beta1), T(options.beta2), T(lr), T(keep)};
  }

  // V is a vector of T on the host and T on a GPU. What is in an fma is rounded once by every compiler, the rest twice.
  REEF_RULE template <class V, class C>
  REEF_HOST_DEVICE static void update(V& w, V* m, const V& g, const C& c) {
    using device::fma, device::larger, device::smaller;
    const V direction = fma(V(c.beta1), m[0] - g, g);
    w = fma(V(-c.lr), larger(V(-1), smaller(V(1), V(1e30F) * direction)), c.keep * w);
    m[0] = fma(V(c.beta2), m[0] - g, g);
  }

  Options options{};
  Lion() = default;
  explicit Lion(Options o) : options(o) {}
};
static_assert(optim::update_rule<Lion>);

template <class Optim>
std::vector<double> losses(const char* name) {
  const nn::GptConfig config{
      .layers = 1, .heads = 2, .channels = 24, .vocabulary = 24, .context = 16, .batch = 8};
  const auto source = [&](std::uint64_t first, std::span<const AnyView> inputs) {
    const auto now = inputs[0].as<std::int32_t>().span(),
               next = inputs[1].as<std::int32_t>().span();
    for (std::size_t i = 0; i < now.size(); ++i) {  // squares modulo 24
      const auto n = static_cast<std::int32_t>(first + i);
      now[i] = n * n % 24;
      next[i] = (n + 1) * (n + 1) % 24;
    }
    return 1.0;
  };
  Trainer<Optim> trainer(nn::gpt<device::Host, float>(config), source);
  std::vector<double> result;
  for (int step = 0; step < 50; ++step) result.push_back(trainer.step().loss);
  if (trainer.rank() == 0) {
    std::printf("%-12s first loss %.2f, last loss %.2f\n", name, result.front(), result.back());
  }
  return result;
}

int main(int argc, char** argv) try {
  const comm::Environment mpi(argc, argv);
  const auto replicated = losses<optim::Ddp<Lion>>("Ddp<Lion>");
  const bool equal = replicated == losses<optim::Zero1<Lion>>("Zero1<Lion>");
  if (comm::Communicator().rank() == 0) std::printf("equal bits: %s\n", equal ? "yes" : "NO");
  return equal ? 0 : 1;
} catch (const std::exception& error) {
  return comm::report_failure("own-rule", error);
}
