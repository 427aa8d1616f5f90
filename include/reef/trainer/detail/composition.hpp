#pragma once

#include <reef/compress/dense.hpp>
#include <reef/core/policy.hpp>
#include <reef/core/precision.hpp>
#include <reef/device/host.hpp>
#include <reef/optim/concept.hpp>
#include <reef/optim/ddp.hpp>
#include <reef/optim/sgd.hpp>
#include <reef/pipeline/single.hpp>
#include <reef/run/handlers.hpp>
#include <reef/run/rank_context.hpp>
#include <reef/swap/resident.hpp>

namespace reef {
inline namespace v0 {
namespace detail {

/// The policies of a Trainer by axis, the neutral element where none is given.
template <class... Policies>
struct Composition {
  using Pack = PolicyPack<Policies...>;
  using Swap = typename Pack::template get<SwapTag, swap::Resident>;
  using Pipeline = typename Pack::template get<PipelineTag, pipeline::Single>;
  using Compress = typename Pack::template get<CompressTag, compress::Dense>;
  using Optim = typename Pack::template get<OptimTag, optim::Ddp<optim::Sgd>>;
  using Device = typename Pack::template get<DeviceTag, device::Host>;
  using Precision = typename Pack::template get<PrecisionTag, precision::Fp32>;
};

template <class C>
concept composition_has_code =
    optim::brings_code<typename C::Optim, run::Handlers<typename C::Device>,
                       run::RankContext<typename C::Device, typename C::Precision::type,
                                        precision::gradient_t<typename C::Precision>>>;

}  // namespace detail
}  // namespace v0
}  // namespace reef
