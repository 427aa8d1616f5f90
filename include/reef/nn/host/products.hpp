#pragma once

#include <reef/core/inline.hpp>
#include <reef/graph/dag.hpp>

namespace reef {
inline namespace v0 {
namespace nn::host {

/// True if this unit multiplies matrices of floats by Reef's own loops because its compiler was given no BLAS
/// (REEF_HAS_DNNL or REEF_HAS_CBLAS), and not because these loops were asked for (REEF_PORTABLE_PRODUCTS).
#if defined(REEF_HAS_DNNL) || defined(REEF_HAS_CBLAS) || defined(REEF_PORTABLE_PRODUCTS)
constexpr bool lacks_blas = false;
#else
constexpr bool lacks_blas = true;
#endif

/// Prints on standard error, once in a process, that products lack a BLAS and how to give them one. Prints nothing
/// for a model without a Linear. Can be called on any thread.
///
/// \code
/// // given: const graph::Dag& dag
/// if (nn::host::lacks_blas) nn::host::tell_that_blas_lacks(dag);
/// \endcode
void tell_that_blas_lacks(const graph::Dag& dag);

}  // namespace nn::host
}  // namespace v0
}  // namespace reef

#ifndef REEF_COMPILED
#include <reef/nn/host/products.ipp>
#endif
