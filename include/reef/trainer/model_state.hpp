#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string_view>
#include <vector>

#include <reef/core/element.hpp>
#include <reef/core/units.hpp>
#include <reef/device/concept.hpp>
#include <reef/run/state_range.hpp>
#include <reef/run/step_builder.hpp>
#include <reef/run/step_plan.hpp>

namespace reef {
inline namespace v0 {

namespace detail {
class Engine;
}

/// The numbers that a rank keeps between steps, as named ranges: the weights that it holds, and its part of the
/// optimizer's state. Checkpoints, exports, and peers that join read and write it. The class depends on no policy,
/// device or element type.
///
///     weights   by the names of parameters: the weights with which the model computes
///     ranges    run::StateRange, each of a part [begin, begin + elements) of the flat parameter layout
///
/// | who       | each rank on its own, between steps or in TrainerOptions::after_update                         |
/// | cost      | no copy for memory that the host can access; otherwise a copy from or to the device            |
/// | checksums | CRC-32C of each block of 4096 numbers, counted from the first of a parameter or of the layout; |
/// |           | io::crc32c_joined joins several to one                                                         |
/// | errors    | ShapeError for numbers beyond a parameter or a range; OptionError for a parameter that this    |
/// |           | rank does not hold, or whose committed weights are on their owners alone, and for numbers of a |
/// |           | type that set_weights() does not accept                                                        |
///
/// \code
/// // given: Trainer<optim::Ddp<optim::AdamW>>& trainer
/// const ModelState& state = trainer.model_state();
/// const std::vector<std::uint32_t> checksums = state.checksums("transformer.wte.weight");
/// \endcode
class ModelState {
public:
  using Range = run::StateRange;

  /// Facts about the saved state that the chosen policies decide.
  struct Layout {
    Element element = Element::float32;  ///< the type of the weights with which the model computes
    Element sum = Element::float32;      ///< the type of master weights
    /// True: after a step, all ranks that hold a weight have its updated value (the committed one); false: only its
    /// owner.
    bool weights_are_committed =
        true;
  };

  /// Functions that access a rank's device or host memory.
  struct Memory {
    std::function<std::byte*(run::StorageId)> at;  ///< function that returns the first byte of a storage (memory block)
    /// Function that returns true if the host can read and write a storage (memory block) in place.
    std::function<bool(run::StorageId)> on_host;
    std::function<void(void*, const void*, Bytes, device::Copy)>
        copy;  ///< function that copies bytes that the host cannot access: (to, from, bytes, direction); blocks
  };

  /// The number of elements in a block with one checksum; the last block of a parameter or a range may have fewer.
  static constexpr std::int64_t checksum_numbers = 4096;

  /// Constructs the state of a rank. `plan`, `builder` and the memory behind `memory` must outlive this object.
  /// `changed` is called with the name of each parameter whose weights are set.
  ModelState(const run::StepPlan& plan, const run::StepBuilder& builder, std::vector<Range> ranges,
             Layout facts, Memory memory, std::function<void(std::string_view)> changed);

  [[nodiscard]] const Layout& facts() const& { return facts_; }
  [[nodiscard]] Layout facts() const&& { return facts_; }

  /// Returns true if this rank has the weights of the parameter with this index in Dag::parameters: its pipeline stage
  /// uses it. owns() returns true if the rank's stage is the first to use the parameter, and so updates it.
  [[nodiscard]] bool holds(std::size_t parameter) const;
  [[nodiscard]] bool owns(std::size_t parameter) const;

  /// Returns room.size() bytes of a parameter's weights, from byte `offset` on (of a range of optimizer state in the
  /// other function): in the state's memory, valid until the next step, or copied to `room` if the host cannot read
  /// that memory.
  [[nodiscard]] std::span<const std::byte> weights(std::string_view name, Bytes offset,
                                                   std::span<std::byte> room) const;
  [[nodiscard]] std::span<const std::byte> read(const Range& range, Bytes offset,
                                                std::span<std::byte> room) const;

  /// Sets weights from element `first` on, and the master weights from which they are rounded, to numbers of type `of`,
  /// which is facts().element or facts().sum. Sets nothing for a parameter that this rank does not hold.
  void set_weights(std::string_view name, std::int64_t first, std::span<const std::byte> numbers,
                   Element of);
  void write(const Range& range, Bytes offset, std::span<const std::byte> bytes);

  /// Returns the memory of a range of optimizer state if the host can read and write it; otherwise null.
  [[nodiscard]] std::byte* host_memory(const Range& range) const;

  /// Returns the ranges of optimizer state that exist now, or that would exist after set_pending(pending).
  [[nodiscard]] std::vector<Range> ranges() const { return ranges(pending_, ahead_in_buffer_); }
  [[nodiscard]] std::vector<Range> ranges(bool pending) const {
    return ranges(pending, pending && !facts_.weights_are_committed);
  }

  [[nodiscard]] std::vector<std::uint32_t> checksums(std::string_view name) const;
  [[nodiscard]] std::vector<std::uint32_t> checksums(const Range& range) const;
  /// Returns one checksum (CRC-32C) of a whole parameter or range of optimizer state: its blocks' checksums joined.
  [[nodiscard]] std::uint32_t checksum(std::string_view name) const;
  [[nodiscard]] std::uint32_t checksum(const Range& range) const;

  /// A weight that is not finite: the index of its parameter in Dag::parameters, its element, and its value.
  struct NotFinite {
    int parameter = -1;  ///< index of the parameter in Dag::parameters; -1: all weights are finite
    std::int64_t element = 0;
    double value = 0;
  };
  /// Returns the first weight that is not finite, among the model's weights on this rank.
  [[nodiscard]] NotFinite weight_not_finite() const;

  /// Returns true if ranges of kind StateRange::Distribution::pending exist: a gradient that is not yet applied, kept
  /// from step to step.
  [[nodiscard]] bool pending() const { return pending_; }
  void set_pending(bool pending) {
    pending_ = pending;
    ahead_in_buffer_ = pending && !facts_.weights_are_committed;
  }
  /// Returns true if the weights on this rank are the committed ones, those after the last step that counts.
  [[nodiscard]] bool has_committed_weights() const {
    return facts_.weights_are_committed || !pending_ || ahead_in_buffer_;
  }

private:
  friend class detail::Engine;  // tells the state when a step begins

  /// Returns true if the model's memory has the committed weights, and StepBuilder::comm_buffer and tied_buffer have
  /// those at which the next gradients are taken: from the gathering of the committed weights until the next step.
  [[nodiscard]] bool ahead_in_buffer() const { return ahead_in_buffer_; }
  void buffers_were_swapped() { ahead_in_buffer_ = !ahead_in_buffer_; }
  /// Notes that a step begins, for which the pending gradient (not yet applied) exists.
  void step_begins() { pending_ = true; }
  void nothing_is_pending() { pending_ = false; }
  /// A parameter's memory: in the model's own, or in the buffer of the weights at which the next gradients are taken.
  struct ParameterMemory {
    run::StorageId storage;
    std::byte* begin;
    std::int64_t elements;
  };
  [[nodiscard]] ParameterMemory locate(std::string_view name, bool in_buffer = false) const;
  /// Copies bytes between a storage (memory block) and the host's memory, between steps, when no queue has work.
  void copy(run::StorageId storage, void* to, const void* from, Bytes bytes,
            device::Copy direction) const;
  [[nodiscard]] std::vector<Range> ranges(bool pending, bool ahead_in_buffer) const;
  void require_committed_weights(std::string_view name) const;
  void set_master(std::int64_t begin, std::span<const std::byte> sums);
  [[nodiscard]] Bytes bytes_of(std::string_view name) const;

  const run::StepPlan& plan_;
  const run::StepBuilder& builder_;
  std::vector<Range> ranges_;
  Layout facts_;
  Memory memory_;
  std::function<void(std::string_view)> changed_;
  bool pending_ = false;
  bool ahead_in_buffer_ = false;
};

}  // namespace v0
}  // namespace reef

#ifndef REEF_COMPILED
#include <reef/trainer/model_state.ipp>
#endif
