#pragma once

#include <reef/core/inline.hpp>
#include <reef/device/host.hpp>
#include <reef/graph/graph.hpp>
#include <reef/run/executable.hpp>

/// \file
/// What no policy changes of a Trainer on the host in fp32: with the compiled library, it comes from there. Of arithmetic there are
/// sums of two numbers in it, which have one result whatever the compiler is told, but no kernels.

#ifdef REEF_COMPILED
namespace reef {
inline namespace v0 {

extern template class graph::Graph<device::Host, float>;
extern template class run::Executable<device::Host, float>;

}  // namespace v0
}  // namespace reef
#endif
