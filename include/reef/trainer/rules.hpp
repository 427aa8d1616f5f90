#pragma once

#include <concepts>

#include <reef/compress/concept.hpp>
#include <reef/core/element.hpp>
#include <reef/core/precision.hpp>
#include <reef/optim/concept.hpp>
#include <reef/optim/matrix_rule.hpp>
#include <reef/pipeline/concept.hpp>
#include <reef/swap/concept.hpp>

/// \file
/// The rules by which policies of two axes (optimizer, swap, pipeline, compressor, ...) must fit each other. Each rule
/// is a concept and an error text: what, why, fix, see. The Trainer checks all rules; `composable` does so without
/// errors.

namespace reef {
inline namespace v0 {
namespace rules {

/// The error text of rule P5: a policy must have all members that the concept of its axis requires.
#define REEF_P5_IS_WHOLE                                                                                  \
  "reef P5: a type says that it is a policy of this axis, and lacks what one has.\n"                      \
  "  why: the Trainer reads each member; what is said of rules below follows from one that is missing.\n" \
  "  fix: the member that the compiler names with this; and a static_assert of SwapPolicy, "              \
  "PipelinePolicy, CompressorPolicy or OptimizerPolicy beside the type.\n"                                \
  "  see: docs/rules.md#p5"

/// Rule R1: the optimizer's reduction can combine the compressor's messages, in each form in which it sends them.
///
/// Two sparse messages name different entries of a gradient, so a reduction that adds buffers element by element would
/// add unrelated numbers. A codec encodes what the optimizer sends: gradients if ranks step together, differences of
/// weights if ranks train on their own.
template <class Compress, class Optim>
concept payload_travels = (Compress::payload & Optim::accepts) == Compress::payload;

#define REEF_R1_PAYLOAD_TRAVELS                                                                 \
  "reef R1: this optimizer's reduction cannot combine what this compressor sends.\n"            \
  "  why: sparse messages name different entries on each rank, so they do not add; and a "      \
  "codec is for gradients or for pseudo-gradients, of which an optimizer sends one.\n"          \
  "  fix: a compressor whose payload is dense (compress::Dense), compress::Gradient with "      \
  "optim::Ddp, Zero1 or Acco, compress::PseudoGradient with optim::DiLoCo, or an optimizer "    \
  "that accepts sparse payloads.\n"                                                             \
  "  see: docs/rules.md#r1"

/// Rule R2: a swap policy that updates weights during the backward is not combined with an optimizer that first needs
/// a number from all gradients.
///
/// Clipping and the finite check use the norm of the whole gradient, which is not known before the
/// last backward has ended.
template <class Swap, class Optim>
concept scalars_in_time = !(Swap::updates_in_backward && Optim::needs_scalars);

#define REEF_R2_SCALARS_IN_TIME                                                              \
  "reef R2: this swap policy updates weights during the backward, but this optimizer needs " \
  "the norm of all gradients first.\n"                                                       \
  "  why: clipping and the finite check use a number that the last gradient decides.\n"      \
  "  fix: a swap policy that updates after the backward (swap::Resident), or an optimizer "  \
  "that needs no scalar.\n"                                                                  \
  "  see: docs/rules.md#r2"

/// Rule R3: gradients that are rounded after each micro-batch need an optimizer that stores rounded gradients.
///
/// An optimizer whose rounds overlap stores and sends gradients in buffers of their own, and declares
/// `rounds_gradients`. All other optimizers reduce gradients in the memory to which the backward writes them, which is
/// in fp32.
template <class Precision, class Optim>
concept gradients_may_round =
    std::same_as<precision::gradient_t<Precision>, sum_t<typename Precision::type>> ||
    requires { requires Optim::rounds_gradients; };

#define REEF_R3_GRADIENTS_MAY_ROUND                                                         \
  "reef R3: this precision rounds gradients to fewer bytes, but this optimizer reduces "    \
  "them as the backward leaves them.\n"                                                     \
  "  why: only an optimizer whose rounds overlap has a place of its own for gradients.\n"   \
  "  fix: an optimizer such as optim::Acco, or precision::Bf16, whose gradients are fp32.\n" \
  "  see: docs/rules.md#r3"

/// Rule R4: weights, gradients and state in host memory need an optimizer that works there.
///
/// An optimizer may reserve storages as large as the model. If those are on the device, the model has to fit there with
/// them. An optimizer that reserves its storages at the place StepPlan::place_of, or has none, declares
/// `supports_offload`.
template <class Swap, class Optim>
concept supports_offload = !Swap::offloads_to_host || requires {
  requires Optim::supports_offload;
};

#define REEF_R4_SUPPORTS_OFFLOAD                                                             \
  "reef R4: this swap policy keeps weights in host memory, but this optimizer does not say " \
  "that its own storages are there.\n"                                                       \
  "  why: a model that is swapped need not fit on the device, nor what is as large.\n"       \
  "  fix: reserve them where StepPlan::place_of says and set supports_offload, "             \
  "or swap::Resident.\n"                                                                     \
  "  see: docs/rules.md#r4"

/// Rule R5: a pipeline that updates within a step needs an optimizer that writes such updates.
///
/// Other optimizers update after a step's micro-batches, or beside them, from numbers that all ranks have exchanged. An
/// optimizer that writes updates within a step declares `updates_within_a_step`.
template <class Pipeline, class Optim>
concept updates_in_step = !(requires { requires Pipeline::updates_within_a_step; }) || requires {
  requires Optim::updates_within_a_step;
};

#define REEF_R5_UPDATES_IN_STEP                                                                \
  "reef R5: this pipeline updates within a step, but this optimizer updates behind or beside " \
  "its micro-batches.\n"                                                                       \
  "  why: a stage updates after some of its own backwards, and waits for no other rank.\n"     \
  "  fix: optim::Ddp or optim::Zero1, or a pipeline that updates once a step, as "             \
  "pipeline::OneFOneB.\n"                                                                      \
  "  see: docs/rules.md#r5"

/// Rule R6: an update rule that works on whole matrices needs an optimizer that passes it whole matrices.
///
/// An optimizer whose rounds overlap sends new weights as the update rule computes them, element by element, and
/// predicts later ones. An optimizer that updates weights in place, and whose shards are those of the plan, declares
/// `keeps_matrices_whole`.
template <class Optim>
concept matrices_stay_whole = !optim::needs_whole_matrices<typename Optim::Rule> || requires {
  requires Optim::keeps_matrices_whole;
};

#define REEF_R6_MATRICES_STAY_WHOLE                                                             \
  "reef R6: this rule needs whole matrices, but this optimizer updates element by element.\n" \
  "  why: of rounds that overlap new weights leave as they are made, and are predicted.\n"     \
  "  fix: optim::Ddp, optim::Zero1 or optim::DiLoCo around it, or a rule such as "              \
  "optim::AdamW.\n"                                                                            \
  "  see: docs/rules.md#r6"

/// Rule R7: an update rule that works on whole matrices needs a device on the host.
///
/// Such an update rule sums squares of a matrix, and multiplies matrices, on the lane's thread, which reads the results
/// at once.
template <class Device, class Optim>
concept matrices_on_host = !optim::needs_whole_matrices<typename Optim::Rule> || Device::on_host;

#define REEF_R7_MATRICES_ON_HOST                                                               \
  "reef R7: this rule needs whole matrices, but this device is not on the host.\n"            \
  "  why: the norm of a matrix is read by the lane's thread before its products are made.\n"  \
  "  fix: device::Host, or a rule that goes element by element, such as optim::AdamW.\n"      \
  "  see: docs/rules.md#r7"

/// Rule R8: a model has the Trainer's device type, and the element type of its precision.
///
/// All operators of a graph are written for one device and one element type, and the Trainer's policies decide these.
template <class Graph, class Device, class T>
concept model_is_of =
    std::same_as<typename Graph::device_type, Device> && std::same_as<typename Graph::element_type, T>;

#define REEF_R8_MODEL_IS_OF                                                                     \
  "reef R8: this model is of other elements, or of another device, than the Trainer.\n"        \
  "  why: a Trainer's are those of its policies, by default precision::Fp32 (float) and device::Host.\n" \
  "  fix: precision::Fp64 among the policies for a Graph of double, precision::Bf16 for one of Bfloat16, " \
  "device::Cuda for one of device::Cuda; or a model that is a Trainer::Model.\n"               \
  "  see: docs/rules.md#r8"

/// A concept that is satisfied if the policies of these four axes (swap, pipeline, compressor, optimizer) can be
/// composed: by their concepts and rules.
///
/// \code
/// using Optim = optim::Zero1<optim::AdamW>;
/// static_assert(rules::all<swap::Atom<>, pipeline::Single, compress::Dense, Optim>);
/// \endcode
template <class Swap, class Pipeline, class Compress, class Optim>
concept all = swap::SwapPolicy<Swap> && pipeline::PipelinePolicy<Pipeline> &&
    compress::CompressorPolicy<Compress> && optim::OptimizerPolicy<Optim> &&
    payload_travels<Compress, Optim> && scalars_in_time<Swap, Optim> &&
    supports_offload<Swap, Optim> && updates_in_step<Pipeline, Optim> && matrices_stay_whole<Optim>;

}  // namespace rules
}  // namespace v0
}  // namespace reef
