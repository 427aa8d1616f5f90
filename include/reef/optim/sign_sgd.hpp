#pragma once

#include <cstdint>
#include <string_view>

#include <reef/core/product.hpp>
#include <reef/device/arithmetic.hpp>
#include <reef/optim/concept.hpp>
#include <reef/optim/sgd.hpp>

namespace reef {
inline namespace v0 {
namespace optim {

/// Sign descent: every weight moves by the learning rate, against the sign of its gradient.
///
///     w = (1 - lr weight_decay) w - lr sign(g)
///
/// DeMo is SignSgd as the outer rule after each step, with a codec that remembers the numbers not sent yet: the
/// residual, with its decay, is each rank's own momentum, which is never synchronised.
///
///     m_r = decay m_r + lr g_r;   q_r = top-k(DCT(m_r));   m_r = m_r - IDCT(q_r)         of each rank r
///     w = w - outer_learning_rate sign(sum over ranks of IDCT(q_r))                      on all, the same bits
///
/// | state | none                                                                       |
/// | decay | decoupled, on weights that decay                                           |
/// | sign  | sign(0) = 0; for |g| < 1e-30 it is g * 1e30                                |
///
/// Source: Bernstein et al., signSGD, arXiv 1802.04434, algorithm 1; Peng et al., DeMo, arXiv 2411.19870, algorithm 1.
/// Deviation: coefficients are summed over all ranks, as in the paper; its code takes the mean over the senders of one.
///
/// \code
/// #include <reef/codec/dct.hpp>
/// #include <reef/codec/error_feedback.hpp>
/// #include <reef/compress/channels.hpp>
/// using Codec = codec::ErrorFeedback<codec::Dct<codec::ChunkTopK>>;
/// using DeMo =
///     Trainer<optim::DiLoCo<optim::Sgd, optim::SignSgd>, compress::Channels<compress::PseudoGradient<Codec>>>;
/// DeMo::Options options;
/// options.optim.every = 1;
/// options.optim.outer_learning_rate = 3e-4;
/// options.learning_rate = {.peak = 1};  // of the momentum, whose scale signs do not show
/// options.compress.pseudo_gradient.decay = 0.999F;
/// options.compress.pseudo_gradient.inner.inner.keep = 32;
/// \endcode
struct SignSgd {
  using Options = Sgd::Options;

  static constexpr std::string_view name = "sign_sgd";
  static constexpr int states = 0;

  template <real T>
  struct Coefficients {
    T lr;
    T keep;  ///< the factor of weight decay, 1 - lr weight_decay
  };

  SignSgd() = default;
  explicit SignSgd(Options o) : options(o) {}

  void validate() const { options.validate("SignSgd"); }

  template <real T>
  [[nodiscard]] Coefficients<T> coefficients(std::int64_t /*t*/, double lr, bool decays) const {
    return {static_cast<T>(lr), static_cast<T>(decays ? 1 - product(lr, options.weight_decay) : 1)};
  }

  REEF_RULE template <class V, class C>
  REEF_HOST_DEVICE static void update(V& w, V* /*state*/, const V& g, const C& c) {
    using device::fma, device::larger, device::smaller;
    w = fma(V(-c.lr), larger(V(-1), smaller(V(1), V(1e30F) * g)), c.keep * w);
  }

  Options options{};
};

static_assert(update_rule<SignSgd>);

}  // namespace optim
}  // namespace v0
}  // namespace reef
