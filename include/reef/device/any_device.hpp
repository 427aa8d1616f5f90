#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>

#include <reef/core/units.hpp>
#include <reef/device/concept.hpp>

namespace reef {
inline namespace v0 {
namespace device {

/// An event (completion marker) of any device, for code that is compiled once for all devices. Its members are those
/// that the concept device::device requires of an Event.
class AnyEvent {
public:
  AnyEvent() = default;
  AnyEvent(const AnyEvent&) = delete;
  AnyEvent& operator=(const AnyEvent&) = delete;
  virtual ~AnyEvent() = default;

  [[nodiscard]] virtual std::uint64_t epoch() const = 0;
  [[nodiscard]] virtual bool ready(std::uint64_t epoch) const = 0;
  virtual void signal() = 0;
  virtual void synchronize(std::uint64_t epoch) = 0;
};

/// A queue (lane) of any device, for copies and ordering; kernels need the device's own queue, which lane_of returns.
///
/// | cost | a virtual call for each member function; submit also allocates for a function larger than two pointers |
class AnyLane {
public:
  AnyLane() = default;
  AnyLane(const AnyLane&) = delete;
  AnyLane& operator=(const AnyLane&) = delete;
  virtual ~AnyLane() = default;

  virtual void submit(std::function<void(AnyLane&)> function) = 0;
  virtual void synchronize() = 0;

  virtual void record(AnyEvent& event) = 0;
  virtual void wait(AnyEvent& event, std::uint64_t epoch) = 0;
  virtual void stamp(Seconds& to) = 0;
  virtual void copy(void* to, const void* from, Bytes bytes, Copy direction) = 0;
  virtual void fill_zero(void* to, Bytes bytes) = 0;
};

/// Memory of any device, or pinned memory of its host. The destructor frees it; a buffer that was moved from is empty.
class AnyBuffer {
public:
  AnyBuffer() = default;
  /// Takes ownership of a device's Buffer or PinnedBuffer.
  template <class Buffer>
    requires(!std::is_reference_v<Buffer> && !std::is_same_v<Buffer, AnyBuffer>)
  explicit AnyBuffer(Buffer&& buffer) : bytes_(buffer.bytes()) {
    const auto owner = std::make_shared<Buffer>(std::move(buffer));
    memory_ = {owner, owner->data()};
  }
  AnyBuffer(AnyBuffer&& other) noexcept : memory_(std::move(other.memory_)), bytes_(std::exchange(other.bytes_, 0)) {}
  AnyBuffer& operator=(AnyBuffer&& other) noexcept {
    memory_ = std::move(other.memory_);
    bytes_ = std::exchange(other.bytes_, 0);
    return *this;
  }
  ~AnyBuffer() = default;

  [[nodiscard]] void* data() const& { return memory_.get(); }
  void data() const&& = delete;
  [[nodiscard]] Bytes bytes() const { return bytes_; }

private:
  std::shared_ptr<void> memory_;
  Bytes bytes_ = 0;
};

/// Any device, for code that creates queues (lanes) and moves bytes but computes nothing, and so is compiled once for
/// all devices. Its members are those that the concept device::device requires.
///
/// | life | the device given to any_device, and the AnyDevice, outlive their lanes, events and buffers |
///
/// \code
/// // given: device::Host& host, float* numbers
/// const std::unique_ptr<device::AnyDevice> some = device::any_device(host);
/// const std::unique_ptr<device::AnyLane> lane = some->make_lane("clear");
/// lane->submit([&](device::AnyLane& own) { own.fill_zero(numbers, 4_KiB); });
/// lane->synchronize();
/// \endcode
class AnyDevice {
public:
  AnyDevice() = default;
  AnyDevice(const AnyDevice&) = delete;
  AnyDevice& operator=(const AnyDevice&) = delete;
  virtual ~AnyDevice() = default;

  [[nodiscard]] virtual bool on_host() const = 0;
  [[nodiscard]] virtual bool discrete() const = 0;
  [[nodiscard]] virtual int threads() const = 0;
  [[nodiscard]] virtual std::unique_ptr<AnyEvent> make_event() = 0;
  [[nodiscard]] virtual std::unique_ptr<AnyLane> make_lane(std::string name, Priority priority = Priority::normal) = 0;
  [[nodiscard]] virtual AnyBuffer allocate(Bytes bytes, std::string_view what) = 0;
  [[nodiscard]] virtual AnyBuffer allocate_pinned(Bytes bytes, std::string_view what) = 0;
};

namespace detail {

template <device Device>
class EventOf final : public AnyEvent {
public:
  explicit EventOf(Device& device) : event(device) {}

  [[nodiscard]] std::uint64_t epoch() const override { return event.epoch(); }
  [[nodiscard]] bool ready(std::uint64_t epoch) const override { return event.ready(epoch); }
  void signal() override { event.signal(); }
  void synchronize(std::uint64_t epoch) override { event.synchronize(epoch); }

  typename Device::Event event;
};

template <device Device>
class LaneOf final : public AnyLane {
public:
  LaneOf(Device& device, std::string name, Priority priority) : lane(device, std::move(name), priority) {}

  void submit(std::function<void(AnyLane&)> function) override {
    lane.submit([this, function = std::move(function)](typename Device::Lane& /*this one*/) { function(*this); });
  }
  void synchronize() override { lane.synchronize(); }

  void record(AnyEvent& event) override { lane.record(own(event)); }
  void wait(AnyEvent& event, std::uint64_t epoch) override { lane.wait(own(event), epoch); }
  void stamp(Seconds& to) override { lane.stamp(to); }
  void copy(void* to, const void* from, Bytes bytes, Copy direction) override { lane.copy(to, from, bytes, direction); }
  void fill_zero(void* to, Bytes bytes) override { lane.fill_zero(to, bytes); }

  typename Device::Lane lane;

private:
  static typename Device::Event& own(AnyEvent& event) { return static_cast<EventOf<Device>&>(event).event; }
};

template <device Device>
class DeviceOf final : public AnyDevice {
public:
  explicit DeviceOf(Device& device) : device_(device) {}

  [[nodiscard]] bool on_host() const override { return Device::on_host; }
  [[nodiscard]] bool discrete() const override { return std::as_const(device_).discrete(); }
  [[nodiscard]] int threads() const override { return std::as_const(device_).threads(); }
  [[nodiscard]] std::unique_ptr<AnyEvent> make_event() override { return std::make_unique<EventOf<Device>>(device_); }
  [[nodiscard]] std::unique_ptr<AnyLane> make_lane(std::string name, Priority priority) override {
    return std::make_unique<LaneOf<Device>>(device_, std::move(name), priority);
  }
  [[nodiscard]] AnyBuffer allocate(Bytes bytes, std::string_view what) override {
    return AnyBuffer(device_.allocate(bytes, what));
  }
  [[nodiscard]] AnyBuffer allocate_pinned(Bytes bytes, std::string_view what) override {
    return AnyBuffer(device_.allocate_pinned(bytes, what));
  }

private:
  Device& device_;
};

}  // namespace detail

/// Returns an AnyDevice, which hides the type of the device, that refers to `device`.
template <device Device>
std::unique_ptr<AnyDevice> any_device(Device& device) {
  return std::make_unique<detail::DeviceOf<Device>>(device);
}

/// Returns the device's own queue (lane), for kernels; `lane` must have been created by the AnyDevice of a Device.
template <device Device>
typename Device::Lane& lane_of(AnyLane& lane) {
  return static_cast<detail::LaneOf<Device>&>(lane).lane;
}

}  // namespace device
}  // namespace v0
}  // namespace reef
