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

/// What a rank keeps between steps, as named ranges of numbers: the weights that it holds, and its part of the optimizer's
/// state. Checkpoints, exports, and peers that join read and write it. It knows no policy, device or type.
///
///     weights   by the names of parameters: those of the model, which it computes with
///     ranges    run::StateRange, each of a part [begin, begin + elements) of the flat parameter layout
///
/// | who       | each rank on its own, between steps or in TrainerOptions::after_update                          |
/// | cost      | bytes that the host reaches are not copied; else a copy from or to the device                  |
/// | checksums | CRC-32C of each part of 4096 numbers, counted from the first of a parameter or of the layout;    |
/// |           | io::crc32c_joined makes one of several                                                        |
/// | errors    | ShapeError for numbers beyond a parameter or a range; OptionError for a parameter that this rank  |
/// |           | does not hold, or whose committed weights are on their owners alone, and for numbers of a type    |
/// |           | that set_weights does not take                                                                  |
///
/// \code
/// // given: Trainer<optim::Ddp<optim::AdamW>>& trainer
/// const ModelState& state = trainer.model_state();
/// const std::vector<std::uint32_t> checksums = state.checksums("transformer.wte.weight");
/// \endcode
class ModelState {
public:
  using Range = run::StateRange;

  /// What a composition makes of it.
  struct Facts {
    Element element = Element::float32;  ///< of the weights that the model computes with
    Element sum = Element::float32;      ///< of master weights
    bool weights_are_committed =
        true;  ///< after each step, on all ranks that hold them; else on their owners
  };

  /// How a rank's memory is reached.
  struct Memory {
    std::function<std::byte*(run::StorageId)> at;  ///< the first byte
    std::function<bool(run::StorageId)> on_host;  ///< the host can read and write it where it lives
    std::function<void(void*, const void*, Bytes, device::Copy)>
        copy;  ///< of what it cannot: to, from; blocks
  };

  /// The number of numbers that one checksum is of, the last of a parameter or a range excepted.
  static constexpr std::int64_t checksum_numbers = 4096;

  /// `plan`, `builder` and what `memory` reaches live longer. `changed` hears of each parameter whose weights are set.
  ModelState(const run::StepPlan& plan, const run::StepBuilder& builder, std::vector<Range> ranges,
             Facts facts, Memory memory, std::function<void(std::string_view)> changed);

  [[nodiscard]] const Facts& facts() const& { return facts_; }
  [[nodiscard]] Facts facts() const&& { return facts_; }

  /// This rank has the weights of a parameter, by its place in Dag::parameters: its stage uses it. It owns them where that
  /// is the first stage to do so, which updates them.
  [[nodiscard]] bool holds(std::size_t parameter) const;
  [[nodiscard]] bool owns(std::size_t parameter) const;

  /// As many bytes of a parameter or a range as `room` has, from byte `offset` on: where they are until the next step, or in
  /// `room` if the host cannot read them there.
  [[nodiscard]] std::span<const std::byte> weights(std::string_view name, Bytes offset,
                                                   std::span<std::byte> room) const;
  [[nodiscard]] std::span<const std::byte> read(const Range& range, Bytes offset,
                                                std::span<std::byte> room) const;

  /// Sets weights from element `first` on, and the master weights that they are rounded from: numbers of type `of`, which is
  /// facts().element or facts().sum. Nothing of a parameter that this rank does not hold.
  void set_weights(std::string_view name, std::int64_t first, std::span<const std::byte> numbers,
                   Element of);
  void write(const Range& range, Bytes offset, std::span<const std::byte> bytes);

  /// A range's memory, if the host can read and write it; else null.
  [[nodiscard]] std::byte* host_memory(const Range& range) const;

  /// The ranges that there are now, or would be after set_pending(pending).
  [[nodiscard]] std::vector<Range> ranges() const { return ranges(pending_, ahead_in_buffer_); }
  [[nodiscard]] std::vector<Range> ranges(bool pending) const {
    return ranges(pending, pending && !facts_.weights_are_committed);
  }

  [[nodiscard]] std::vector<std::uint32_t> checksums(std::string_view name) const;
  [[nodiscard]] std::vector<std::uint32_t> checksums(const Range& range) const;
  /// Those joined: of all of a parameter, or of a range.
  [[nodiscard]] std::uint32_t checksum(std::string_view name) const;
  [[nodiscard]] std::uint32_t checksum(const Range& range) const;

  /// A weight, of a parameter by its place in Dag::parameters.
  struct NotFinite {
    int parameter = -1;  ///< none
    std::int64_t element = 0;
    double value = 0;
  };
  /// The first of the weights that this rank takes gradients at that is not finite.
  [[nodiscard]] NotFinite weight_not_finite() const;

  /// What is StateRange::Kept::pending is there.
  [[nodiscard]] bool pending() const { return pending_; }
  void set_pending(bool pending) {
    pending_ = pending;
    ahead_in_buffer_ = pending && !facts_.weights_are_committed;
  }
  /// The weights are here as they were committed.
  [[nodiscard]] bool has_committed_weights() const {
    return facts_.weights_are_committed || !pending_ || ahead_in_buffer_;
  }

private:
  template <class... Policies>
  friend class Trainer;  // which steps

  /// The committed weights are where the model's are, and those that it takes gradients at in StepBuilder::comm_buffer and
  /// tied_buffer: since they were gathered, until the next step.
  [[nodiscard]] bool ahead_in_buffer() const { return ahead_in_buffer_; }
  void buffers_were_swapped() { ahead_in_buffer_ = !ahead_in_buffer_; }
  /// A step has begun, whose pending gradient is there.
  void step_begins() { pending_ = true; }
  void nothing_is_pending() { pending_ = false; }
  /// A parameter in memory: the model's, or the one in the buffers of what is ahead.
  struct Located {
    run::StorageId storage;
    std::byte* begin;
    std::int64_t elements;
  };
  [[nodiscard]] Located locate(std::string_view name, bool in_buffer = false) const;
  /// Copies bytes of a storage to the host's memory, or from there. No lane has work between steps.
  void copy(run::StorageId storage, void* to, const void* from, Bytes bytes,
            device::Copy direction) const;
  [[nodiscard]] std::vector<Range> ranges(bool pending, bool ahead_in_buffer) const;
  void require_committed_weights(std::string_view name) const;
  void set_master(std::int64_t begin, std::span<const std::byte> sums);
  [[nodiscard]] Bytes bytes_of(std::string_view name) const;

  const run::StepPlan& plan_;
  const run::StepBuilder& builder_;
  std::vector<Range> ranges_;
  Facts facts_;
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
