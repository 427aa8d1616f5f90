// The host's kernels in the shapes of two training configurations, each beside its rivals and its roof.
//
//   b256   6 layers, 6 heads, 384 channels, vocabulary 256, T = 256, B = 8
//   gpt2   12 layers, 12 heads, 768 channels, vocabulary 50304, T = 64, B = 4
//
//   linear layers   roof: as many multiply-adds in registers, on the same threads; dnnl, openblas: their
//                   sgemm with their own OpenMP threads, as many, where the library is there
//   attention       roof: multiply-adds in registers, of the causal half; products: the matrix products
//                   over all T x T and nothing else; plain_loop
//   the rest        roof: a += b over as many bytes; plain_loop: nn/plain_loops.hpp
//
// Each time is the mean of as many calls in a row as take 4 ms. A rival whose results differ is an error.

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <functional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <dlfcn.h>

#if defined(REEF_HAS_DNNL)
#include <oneapi/dnnl/dnnl.h>
#endif

#include <reef/core/random.hpp>
#include <reef/device/for_each.hpp>
#include <reef/nn/host.hpp>

#include "plain_loops.hpp"
#include "support/compare.hpp"

namespace {

using namespace reef;
using device::Host;
using nn::Transpose;
using reef_bench::Contender;
using Kernels = nn::Kernels<Host>;
namespace detail = nn::host::detail;
namespace plain = reef_bench::plain;

struct Configuration {
  std::string name;
  std::int64_t L, H, C, V, T_, B;
  [[nodiscard]] std::int64_t rows() const { return B * T_; }
};

constexpr int rounds = 9;

const Configuration configurations[] = {{"b256", 6, 6, 384, 256, 256, 8},
                                        {"gpt2", 12, 12, 768, 50304, 64, 4}};

Host& host() {
  static Host host;
  return host;
}

Host::Lane& lane() {
  static Host::Lane lane(host(), "compute");
  return lane;
}

// Memory of the device, filled with small numbers.
class Numbers {
public:
  explicit Numbers(std::int64_t n, double scale = 1.0)
      : buffer_(host().allocate(static_cast<Bytes>(n) * sizeof(float), "numbers")) {
    for (std::int64_t i = 0; i < n; ++i) {
      data()[i] = static_cast<float>(
          scale *
          (static_cast<double>(uniform({.seed = 1}, static_cast<std::uint64_t>(i % 65536))) - 0.5));
    }
  }
  [[nodiscard]] float* data() const { return static_cast<float*>(buffer_.data()); }

private:
  Host::Buffer buffer_;
};

// -- who runs, and how often ---------------------------------------------------------------------

using Work = std::function<void(Host::Lane&)>;

/// Seconds of a call among as many in a row as take 4 ms; short ones after one that wakes the threads.
template <class Call>
double in_a_row(int& times, const Call& call) {
  if (times == 0) {
    call();
    times = std::clamp(static_cast<int>(4e-3 / reef_bench::seconds_of(call)), 1, 1000);
  }
  if (times > 1) call();
  return reef_bench::seconds_of([&] {
           for (int i = 0; i < times; ++i) call();
         }) /
         times;
}

std::function<double()> on_lane(Work work) {
  return [work = std::move(work), times = 0]() mutable {
    double took = 0;
    lane().submit([&](Host::Lane& l) { took = in_a_row(times, [&] { work(l); }); });
    lane().synchronize();
    return took;
  };
}

/// On the calling thread with as many OpenMP threads as the device has; they spin for a while after
/// each call, so a pause follows.
std::function<double()> on_openmp(std::function<void()> work) {
  return [work = std::move(work), times = 0]() mutable {
    if (void* const set = dlsym(RTLD_DEFAULT, "omp_set_num_threads")) {
      reinterpret_cast<void (*)(int)>(set)(host().threads());
    }
    const double took = in_a_row(times, work);
    std::this_thread::sleep_for(std::chrono::milliseconds(8));
    return took;
  };
}

// -- roofs ---------------------------------------------------------------------------------------

/// Ten sums in registers: enough to keep two units busy whose results come four or five cycles later.
struct MultiplyAdds {
  static constexpr std::int64_t chains = 10;

  template <class V>
  void run(float* out, double* flops, std::int64_t times) const {
    run(std::make_integer_sequence<int, chains>{}, V(0.999F), V(0.001F), out, times);
    *flops = 2.0 * static_cast<double>(chains * V::width * times);
  }

private:
  template <int... I, class V>
  REEF_ALWAYS_INLINE void run(std::integer_sequence<int, I...>, V factor, V term, float* out,
                              std::int64_t times) const {
    V sums[] = {V(static_cast<float>(I))...};
    for (std::int64_t i = 0; i < times; ++i) ((sums[I] = fma(sums[I], factor, term)), ...);
    V all(0.0F);
    ((all += sums[I]), ...);
    *out = sum(all);
  }
};

/// What `flops` take in registers: measured on fewer of them.
Contender multiply_add_roof(double flops) {
  constexpr std::int64_t times = 1 << 18;
  const auto run = [](Host::Lane& l) {
    double done = 0;
    l.parallel(l.threads(), [&done](std::int64_t part) {
      float result = 0;
      double mine = 0;
      device::run_vectors<float>(MultiplyAdds{}, &result, &mine, times);
      benchmark::DoNotOptimize(result);
      if (part == 0) done = mine;
    });
    return done * l.threads();
  };
  double measured = 0;
  lane().submit([&](Host::Lane& l) { measured = run(l); });
  lane().synchronize();
  return {"roof", on_lane([run](Host::Lane& l) { run(l); }), flops / measured};
}

// -- linear layers' rivals -----------------------------------------------------------------------

using Sgemm = std::function<void(bool ta, bool tb, std::int64_t m, std::int64_t n, std::int64_t k,
                                 const float* a, std::int64_t lda, const float* b, std::int64_t ldb,
                                 float* c)>;

#if defined(REEF_HAS_DNNL)
void dnnl(bool ta, bool tb, std::int64_t m, std::int64_t n, std::int64_t k, const float* a,
          std::int64_t lda, const float* b, std::int64_t ldb, float* c) {
  dnnl_sgemm(ta ? 'T' : 'N', tb ? 'T' : 'N', m, n, k, 1.0F, a, lda, b, ldb, 0.0F, c, n);
}
#endif

/// OpenBLAS where the machine has one; found at run time, so that no build depends on it.
class OpenBlas {
public:
  OpenBlas() : library_(::dlopen("libopenblas.so.0", RTLD_NOW | RTLD_LOCAL)) {
    if (library_ == nullptr) {
      about_ = std::string("left out: ") + ::dlerror();
      return;
    }
    sgemm_ = find<Cblas>("cblas_sgemm");
    if (const auto config = find<char* (*)()>("openblas_get_config")) about_ = config();
    if (const auto parallel = find<int (*)()>("openblas_get_parallel")) pthreads_ = parallel() == 1;
    if (const auto set = find<void (*)(int)>("openblas_set_num_threads")) set(host().threads());
  }

  [[nodiscard]] explicit operator bool() const { return sgemm_ != nullptr; }
  [[nodiscard]] const std::string& about() const { return about_; }
  /// Its own threads spin longer than those of OpenMP.
  [[nodiscard]] bool pthreads() const { return pthreads_; }

  void operator()(bool ta, bool tb, std::int64_t m, std::int64_t n, std::int64_t k, const float* a,
                  std::int64_t lda, const float* b, std::int64_t ldb, float* c) const {
    constexpr int row_major = 101;
    const auto turned = [](bool transposed) { return transposed ? 112 : 111; };
    const auto i = [](std::int64_t value) { return static_cast<int>(value); };
    sgemm_(row_major, turned(ta), turned(tb), i(m), i(n), i(k), 1.0F, a, i(lda), b, i(ldb), 0.0F, c,
           i(n));
  }

private:
  using Cblas = void (*)(int, int, int, int, int, int, float, const float*, int, const float*, int,
                         float, float*, int);

  template <class Function>
  Function find(const char* name) const {
    return reinterpret_cast<Function>(::dlsym(library_, name));
  }

  void* library_;
  Cblas sgemm_ = nullptr;
  std::string about_ = "no openblas_get_config";
  bool pthreads_ = false;
};

const OpenBlas& openblas() {
  static const OpenBlas library;
  return library;
}

/// "" or what is wrong with a rival that is to compute the same.
std::string difference(const char* rival, const float* ours, const float* theirs, std::int64_t n) {
  double worst = 0;
  double size = 0;
  for (std::int64_t i = 0; i < n; ++i) {
    worst = std::max(worst, static_cast<double>(std::abs(ours[i] - theirs[i])));
    size = std::max(size, static_cast<double>(std::abs(theirs[i])));
  }
  if (worst <= 1e-3 * size) return "";
  return std::string(rival) + " computes something else: by " + std::to_string(worst / size);
}

// -- linear layers -------------------------------------------------------------------------------

struct LinearShape {
  std::string name;
  std::int64_t R, K, N;
  Transpose tw;
  std::int64_t count;  // in a model
};

std::vector<LinearShape> linear_layers(const Configuration& c) {
  return {{"qkv", c.rows(), c.C, 3 * c.C, Transpose::no, c.L},
          {"proj", c.rows(), c.C, c.C, Transpose::no, c.L},
          {"fc", c.rows(), c.C, 4 * c.C, Transpose::no, c.L},
          {"fc_proj", c.rows(), 4 * c.C, c.C, Transpose::no, c.L},
          {"head", c.rows(), c.C, c.V, Transpose::yes, 1}};
}

/// Forward, input gradient and weight gradient of each shape, `count` times.
struct Passes {
  bool forward, input, weight;
  [[nodiscard]] int count() const { return forward + input + weight; }
};

struct LinearArrays {
  explicit LinearArrays(const std::vector<LinearShape>& shapes)
      : in(largest(shapes, [](const auto& s) { return s.R * s.K; })),
        out(largest(shapes, [](const auto& s) { return s.R * s.N; })),
        w(largest(shapes, [](const auto& s) { return s.K * s.N; })),
        d_in(largest(shapes, [](const auto& s) { return s.R * s.K; })),
        d_out(largest(shapes, [](const auto& s) { return s.R * s.N; })),
        d_w(largest(shapes, [](const auto& s) { return s.K * s.N; })),
        bias(largest(shapes, [](const auto& s) { return s.N; })),
        workspace(host().allocate(workspace_bytes(shapes), "workspace")) {}

  template <class Size>
  static std::int64_t largest(const std::vector<LinearShape>& shapes, const Size& size) {
    std::int64_t most = 0;
    for (const LinearShape& shape : shapes) most = std::max(most, size(shape));
    return most;
  }

  static Bytes workspace_bytes(const std::vector<LinearShape>& shapes) {
    const int threads = host().threads();
    Bytes most = 0;
    for (const auto& [name, R, K, N, tw, count] : shapes) {
      most = std::max({most, Kernels::linear_forward_workspace<float>(R, K, N, tw, threads),
                       Kernels::linear_backward_workspace<float>(R, K, N, tw, threads)});
    }
    return most;
  }

  Numbers in, out, w, d_in, d_out, d_w, bias;
  Host::Buffer workspace;
};

void by_reef(Host::Lane& l, const LinearArrays& a, const LinearShape& s, Passes passes) {
  float* const bias = s.tw == Transpose::yes ? nullptr : a.bias.data();
  if (passes.forward) {
    Kernels::linear_forward<float>(l, a.out.data(), a.in.data(), a.w.data(), bias, s.R, s.K, s.N,
                                   s.tw, a.workspace.data());
  }
  if (passes.input) {
    Kernels::linear_backward_input<float>(l, a.d_in.data(), a.d_out.data(), a.w.data(), s.R, s.K,
                                          s.N, s.tw, false, a.workspace.data());
  }
  if (passes.weight) {
    Kernels::linear_backward_weight<float>(l, a.d_w.data(), bias, a.in.data(), a.d_out.data(), s.R,
                                           s.K, s.N, s.tw, false, a.workspace.data());
  }
}

void by_sgemm(const Sgemm& sgemm, const LinearArrays& a, const LinearShape& s, Passes passes) {
  const bool turned = s.tw == Transpose::yes;
  const std::int64_t ldw = turned ? s.K : s.N;
  if (passes.forward) {
    sgemm(false, turned, s.R, s.N, s.K, a.in.data(), s.K, a.w.data(), ldw, a.out.data());
  }
  if (passes.input) {
    sgemm(false, !turned, s.R, s.K, s.N, a.d_out.data(), s.N, a.w.data(), ldw, a.d_in.data());
  }
  if (passes.weight && !turned) {
    sgemm(true, false, s.K, s.N, s.R, a.in.data(), s.K, a.d_out.data(), s.N, a.d_w.data());
  }
  if (passes.weight && turned) {
    sgemm(true, false, s.N, s.K, s.R, a.d_out.data(), s.N, a.in.data(), s.K, a.d_w.data());
  }
}

void linear_bench(benchmark::State& state, const std::vector<LinearShape>& shapes, Passes passes) {
  double flops = 0;
  for (const LinearShape& s : shapes) {
    flops +=
        2.0 * static_cast<double>(s.count * s.R * s.K) * static_cast<double>(s.N) * passes.count();
  }
  const LinearArrays a(shapes);
  const auto of_all = [&](const auto& work) {
    for (const LinearShape& s : shapes) {
      for (std::int64_t i = 0; i < s.count; ++i) work(s);
    }
  };
  std::vector<Contender> contenders{multiply_add_roof(flops)};
  const auto add_rival = [&](const char* name, const Sgemm& sgemm) {
    contenders.push_back({name, on_openmp([&of_all, &a, passes, sgemm] {
                            of_all([&](const LinearShape& s) { by_sgemm(sgemm, a, s, passes); });
                          })});
  };
#if defined(REEF_HAS_DNNL)
  add_rival("dnnl", dnnl);
#endif
  if (openblas()) {
    add_rival("openblas", [](auto... arguments) { openblas()(arguments...); });
    if (openblas().pthreads()) {
      contenders.back().seconds = [run = contenders.back().seconds] {
        const double took = run();
        std::this_thread::sleep_for(std::chrono::milliseconds(32));
        return took;
      };
    }
  }
  reef_bench::compare(state, on_lane([&](Host::Lane& l) {
                        of_all([&](const LinearShape& s) { by_reef(l, a, s, passes); });
                      }),
                      contenders, {.flops = flops});
}

// -- attention -----------------------------------------------------------------------------------

/// The products over all T x T of each head, heads over the cores, and nothing else.
class AttentionProducts {
public:
  explicit AttentionProducts(const Configuration& c)
      : c_(c),
        D_(c.C / c.H),
        scratch_bytes_(
            std::max(detail::gemm_here_bytes<float>(Transpose::no, Transpose::yes, c.T_, c.T_, D_),
                     detail::gemm_here_bytes<float>(Transpose::no, Transpose::no, c.T_, D_, c.T_))),
        workspace_(
            host().allocate(scratch_bytes_ * static_cast<Bytes>(host().threads()), "scratch")),
        square_(c.T_ * c.T_ * host().threads()) {}

  void run(Host::Lane& l, std::int64_t products, const float* qkv, float* out) const {
    const std::int64_t T_ = c_.T_, C = c_.C;
    device::for_each_in_slots(l, c_.B * c_.H, [&](std::int64_t slot, std::int64_t head) {
      const auto scratch = detail::Scratch::of(workspace_.data(), slot, scratch_bytes_);
      float* const s = square_.data() + slot * T_ * T_;
      const std::int64_t at = head / c_.H * T_ * 3 * C + head % c_.H * D_;
      for (std::int64_t i = 0; i < products; ++i) {
        if (i % 2 == 0) {
          detail::gemm_here<float>(Transpose::no, Transpose::yes, T_, T_, D_, 1, qkv + at, 3 * C,
                                   qkv + at + C, 3 * C, 0, s, T_, scratch);
        } else {
          detail::gemm_here<float>(Transpose::no, Transpose::no, T_, D_, T_, 1, s, T_, qkv + at + C,
                                   3 * C, 0, out + at, 3 * C, scratch);
        }
      }
    });
  }

private:
  Configuration c_;
  std::int64_t D_;
  Bytes scratch_bytes_;
  Host::Buffer workspace_;
  Numbers square_;
};

void attention_bench(benchmark::State& state, const Configuration& c, bool backward) {
  const std::int64_t n = c.rows() * c.C;
  const Numbers qkv(3 * n, 4.0), out(n), d_out(n), d_qkv(3 * n), lse(c.B * c.H * c.T_);
  const Numbers plain_out(n), plain_d_qkv(3 * n), products_out(3 * n);
  const Numbers p(c.T_ * host().threads());
  const AttentionProducts all_products(c);
  const Bytes bytes =
      std::max(Kernels::attention_forward_workspace<float>(c.B, c.T_, c.C, c.H, host().threads()),
               Kernels::attention_backward_workspace<float>(c.B, c.T_, c.C, c.H, host().threads()));
  const auto workspace = host().allocate(bytes, "workspace");
  const plain::Heads heads{c.T_, c.H, c.C / c.H};

  const Work forward = [&](Host::Lane& l) {
    Kernels::attention_forward<float>(l, out.data(), lse.data(), qkv.data(), c.B, c.T_, c.C, c.H,
                                      workspace.data());
  };
  const Work plain_loop = [&](Host::Lane& l) {
    const std::int64_t all = c.B * c.H;
    reef_bench::split(l, all, [&](std::int64_t begin, std::int64_t end) {
      float* const own = p.data() + begin * l.threads() / all * c.T_;
      if (backward) {
        plain::attention_backward(plain_d_qkv.data(), d_out.data(), qkv.data(), out.data(),
                                  lse.data(), own, heads, begin, end);
      } else {
        plain::attention_forward(plain_out.data(), lse.data(), qkv.data(), own, heads, begin, end);
      }
    });
  };
  on_lane(forward)();
  const Work ours = [&](Host::Lane& l) {
    if (!backward) return forward(l);
    Kernels::attention_backward<float>(l, d_qkv.data(), d_out.data(), qkv.data(), out.data(),
                                       lse.data(), c.B, c.T_, c.C, c.H, workspace.data());
  };
  const std::int64_t products = backward ? 5 : 2;
  const double flops =
      static_cast<double>(products * c.B * c.T_ * c.T_) * static_cast<double>(c.C);  // causal: half
  reef_bench::compare(state, on_lane(ours),
                      {multiply_add_roof(flops),
                       {"products", on_lane([&](Host::Lane& l) {
                          all_products.run(l, products, qkv.data(), products_out.data());
                        })},
                       {"plain_loop", on_lane(plain_loop)}},
                      {.flops = flops});
  const std::string wrong = backward
                                ? difference("plain_loop", d_qkv.data(), plain_d_qkv.data(), 3 * n)
                                : difference("plain_loop", out.data(), plain_out.data(), n);
  if (!wrong.empty()) state.SkipWithError(wrong.c_str());
}

// -- everything that reads and writes ------------------------------------------------------------

/// `result` and `expected` have n elements each; null: nothing to compare.
struct Results {
  const float* result = nullptr;
  const float* expected = nullptr;
  std::int64_t n = 0;
};

void memory_bench(benchmark::State& state, double bytes, const Work& ours, const Work& plain_loop,
                  Results results = {}) {
  const auto n = static_cast<std::int64_t>(bytes / 12);
  const Numbers a(n), b(n);
  std::vector<Contender> contenders{
      {"roof", on_lane([&](Host::Lane& l) { reef_bench::add_to(l, a.data(), b.data(), n); })}};
  if (plain_loop) contenders.push_back({"plain_loop", on_lane(plain_loop)});
  reef_bench::compare(state, on_lane(ours), contenders, {.bytes = bytes});
  const std::string wrong = difference("plain_loop", results.result, results.expected, results.n);
  if (!wrong.empty()) state.SkipWithError(wrong.c_str());
}

void gelu_bench(benchmark::State& state, std::int64_t n, bool backward) {
  const Numbers x(n, 8.0), dy(n), y(n), expected(n);
  const auto bytes = static_cast<double>(n * 4 * (backward ? 3 : 2));
  memory_bench(
      state, bytes,
      [&](Host::Lane& l) {
        if (backward) {
          Kernels::gelu_backward<float>(l, y.data(), dy.data(), x.data(), n, false);
        } else {
          Kernels::gelu_forward<float>(l, y.data(), x.data(), n);
        }
      },
      [&](Host::Lane& l) {
        reef_bench::split(l, n, [&](std::int64_t begin, std::int64_t end) {
          if (backward) {
            plain::gelu_backward(expected.data(), dy.data(), x.data(), begin, end);
          } else {
            plain::gelu_forward(expected.data(), x.data(), begin, end);
          }
        });
      },
      {y.data(), expected.data(), n});
}

void layer_norm_bench(benchmark::State& state, std::int64_t R, std::int64_t C, bool backward) {
  const std::int64_t n = R * C;
  const Numbers x(n), y(n), dx(n), expected(n), w(C), b(C), dw(C), db(C), mean(R), rstd(R);
  const Numbers own(2 * C * host().threads());
  const auto workspace =
      host().allocate(Kernels::layer_norm_backward_workspace<float>(R, C), "workspace");
  const Work forward = [&](Host::Lane& l) {
    Kernels::layer_norm_forward<float>(l, y.data(), mean.data(), rstd.data(), x.data(), w.data(),
                                       b.data(), R, C, 1e-5F);
  };
  on_lane(forward)();
  const Work backwards = [&](Host::Lane& l) {
    Kernels::layer_norm_backward<float>(l, dx.data(), dw.data(), db.data(), y.data(), x.data(),
                                        w.data(), mean.data(), rstd.data(), R, C, false, false,
                                        workspace.data());
  };
  const Work plain_loop = [&](Host::Lane& l) {
    reef_bench::split(l, R, [&](std::int64_t begin, std::int64_t end) {
      float* const sums = own.data() + begin * l.threads() / R * 2 * C;
      if (backward) {
        std::fill_n(sums, 2 * C, 0.0F);
        plain::layer_norm_backward(expected.data(), sums, sums + C, y.data(), x.data(), w.data(),
                                   mean.data(), rstd.data(), begin, end, C);
      } else {
        plain::layer_norm_forward(expected.data(), mean.data(), rstd.data(), x.data(), w.data(),
                                  b.data(), begin, end, C);
      }
    });
  };
  memory_bench(state, static_cast<double>(n * 4 * (backward ? 3 : 2)),
               backward ? backwards : forward, plain_loop,
               {backward ? dx.data() : y.data(), expected.data(), n});
}

void cross_entropy_bench(benchmark::State& state, std::int64_t R, std::int64_t V,
                         const std::vector<std::int32_t>& targets, bool backward) {
  const Numbers x(R * V, 8.0), dx(backward ? R * V : 1), expected(backward ? R * V : R);
  const Numbers loss(1), d_loss(1), lse(R);
  const Work forward = [&](Host::Lane& l) {
    Kernels::cross_entropy_forward<float>(l, loss.data(), lse.data(), x.data(), targets.data(), R,
                                          V, nullptr);
  };
  on_lane(forward)();
  const float scale = d_loss.data()[0] / static_cast<float>(R);
  const Work backwards = [&](Host::Lane& l) {
    Kernels::cross_entropy_backward<float>(l, dx.data(), d_loss.data(), x.data(), lse.data(),
                                           targets.data(), R, V);
  };
  const Work plain_loop = [&](Host::Lane& l) {
    reef_bench::split(l, R, [&](std::int64_t begin, std::int64_t end) {
      if (backward) {
        plain::cross_entropy_backward(expected.data(), x.data(), lse.data(), targets.data(), scale,
                                      begin, end, V);
      } else {
        plain::cross_entropy_forward(expected.data(), x.data(), begin, end, V);
      }
    });
  };
  memory_bench(state, static_cast<double>(R * V * 4 * (backward ? 2 : 1)),
               backward ? backwards : forward, plain_loop,
               {backward ? dx.data() : lse.data(), expected.data(), backward ? R * V : R});
}

// -- all of them ---------------------------------------------------------------------------------

void register_linear(const Configuration& c) {
  const auto layers = linear_layers(c);
  reef_bench::add("linear_step/" + c.name, 5, [layers](benchmark::State& state) {
    linear_bench(state, layers, {true, true, true});
  });
  for (LinearShape layer : layers) {
    layer.count = 1;
    const std::vector<LinearShape> one{layer};
    const std::string name = "/" + c.name + "/" + layer.name;
    reef_bench::add("linear_forward" + name, rounds, [one](benchmark::State& state) {
      linear_bench(state, one, {true, false, false});
    });
    reef_bench::add("linear_backward_input" + name, rounds, [one](benchmark::State& state) {
      linear_bench(state, one, {false, true, false});
    });
    reef_bench::add("linear_backward_weight" + name, rounds, [one](benchmark::State& state) {
      linear_bench(state, one, {false, false, true});
    });
  }
}

void register_rest(const Configuration& c) {
  const std::int64_t m = c.rows() * c.C;
  const auto narrow = static_cast<double>(m * 4);
  std::vector<std::int32_t> tokens(static_cast<std::size_t>(c.rows()));
  for (std::size_t i = 0; i < tokens.size(); ++i)
    tokens[i] = static_cast<std::int32_t>(i * 7919 % static_cast<std::size_t>(c.V));
  const auto add = [&c](const char* name, const std::function<void(benchmark::State&)>& body) {
    reef_bench::add(std::string(name) + "/" + c.name, rounds, body);
  };
  for (const bool backward : {false, true}) {
    add(backward ? "attention_backward" : "attention_forward",
        [=](benchmark::State& state) { attention_bench(state, c, backward); });
    add(backward ? "gelu_backward" : "gelu_forward",
        [=](benchmark::State& state) { gelu_bench(state, 4 * m, backward); });
    add(backward ? "layer_norm_backward" : "layer_norm_forward",
        [=](benchmark::State& state) { layer_norm_bench(state, c.rows(), c.C, backward); });
    add(backward ? "cross_entropy_backward" : "cross_entropy_forward",
        [=](benchmark::State& state) {
          cross_entropy_bench(state, c.rows(), c.V, tokens, backward);
        });
  }
  add("add_forward", [=](benchmark::State& state) {
    const Numbers x(m), y(m), z(m);
    memory_bench(
        state, 3 * narrow,
        [&](Host::Lane& l) { Kernels::add_forward<float>(l, z.data(), x.data(), y.data(), m); },
        {});
  });
  add("dropout", [=](benchmark::State& state) {
    const Numbers x(m), y(m);
    memory_bench(state, 2 * narrow,
                 [&](Host::Lane& l) {
                   Kernels::dropout<float>(l, y.data(), x.data(), m / c.B, c.B, 0.1F, {.seed = 1},
                                           false);
                 },
                 {});
  });
  add("embedding_forward", [=](benchmark::State& state) {
    const Numbers wte(c.V * c.C), wpe(c.T_ * c.C), y(m);
    memory_bench(state, 3 * narrow,
                 [&](Host::Lane& l) {
                   Kernels::embedding_forward<float>(l, y.data(), tokens.data(), wte.data(),
                                                     wpe.data(), c.B, c.T_, c.C, c.V);
                 },
                 {});
  });
  add("embedding_backward", [=](benchmark::State& state) {
    const Numbers wte(c.V * c.C), wpe(c.T_ * c.C), dy(m);
    memory_bench(state, 5 * narrow,
                 [&](Host::Lane& l) {
                   Kernels::embedding_backward<float>(l, wte.data(), wpe.data(), dy.data(),
                                                      tokens.data(), c.B, c.T_, c.C, c.V, true,
                                                      nullptr);
                 },
                 {});
  });
}

void register_all() {
  for (const Configuration& c : configurations) {
    register_linear(c);
    register_rest(c);
  }
  benchmark::AddCustomContext("openblas", openblas().about());
}

}  // namespace

int main(int argc, char** argv) { return reef_bench::run(argc, argv, register_all); }
