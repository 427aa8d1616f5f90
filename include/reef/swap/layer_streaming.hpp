#pragma once

#include <array>

#include <reef/swap/atom.hpp>

namespace reef {
inline namespace v0 {
namespace swap {

/// Swaps the model micro-batch by micro-batch: each runs by itself through all segments (consecutive operators), and
/// each segment is loaded while the one before runs.
///
///     for each micro-batch j:  Load(s)  Forward(s, j), ascending
///                              Load(s)  LoadGradients(s)  Backward(s, j)  Evict(s), descending
///
/// | copies | per micro-batch and direction up to twice the weights, and the gradients: the sums of   |
/// |        | earlier micro-batches are loaded again, so that they have the bits of Resident          |
/// | memory | slots for the weights and the gradients of two segments; activations of one micro-batch |
///
/// Source: the schedule of Ren et al., ZeRO-Offload, arXiv 2101.06840, for weights that do not fit.
/// Deviation: there the host adds gradients up.
///
/// \code
/// using MyTrainer = Trainer<swap::LayerStreaming, optim::Ddp<optim::AdamW>>;
/// \endcode
struct LayerStreaming : detail::Swapped {
  static constexpr auto schedules() {
    return std::array{run::SwapSchedule{.weight_slots = 2, .per_micro_batch = true}};
  }
};

static_assert(SwapPolicy<LayerStreaming>);

}  // namespace swap
}  // namespace v0
}  // namespace reef
