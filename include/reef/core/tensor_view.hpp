#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <type_traits>

#include <reef/core/element.hpp>
#include <reef/core/error.hpp>
#include <reef/core/shape.hpp>

namespace reef {
inline namespace v0 {

/// A view of a contiguous row-major tensor, which it does not own.
///
/// | shape  | any shape of at most four extents                                         |
/// | memory | host or device: a view does not record which; the queue that uses it does |
/// | cost   | a pointer and a Shape; copies of a view refer to the same elements        |
template <class T>
class TensorView {
public:
  using element_type = T;

  TensorView() = default;
  TensorView(T* data, Shape shape) : data_(data), shape_(shape) {}

  /// Converts a view of T to a view of const T.
  template <class U>
    requires std::is_same_v<const U, T>
  TensorView(TensorView<U> other)  // NOLINT(google-explicit-constructor)
      : data_(other.data()), shape_(other.shape()) {}

  [[nodiscard]] T* data() const { return data_; }
  [[nodiscard]] Shape shape() const { return shape_; }
  [[nodiscard]] std::int64_t size() const { return shape_.size(); }
  [[nodiscard]] std::span<T> span() const { return {data_, static_cast<std::size_t>(size())}; }
  [[nodiscard]] explicit operator bool() const { return data_ != nullptr; }

private:
  T* data_ = nullptr;
  Shape shape_;
};

/// An access to a tensor as another element type than its own; `data` is its address. Nothing was changed.
class ElementError : public ShapeError {
public:
  template <class... Pieces>
  explicit ElementError(const void* data, const Pieces&... pieces)
      : ShapeError(pieces...), data_(data) {}

  [[nodiscard]] const void* data() const noexcept { return data_; }

private:
  const void* data_;
};

/// A view of a tensor whose element type is known only at run time, in which form a graph passes tensors.
///
/// \code
/// // given: std::vector<float>& weights
/// const TensorView<float> w(weights.data(), {64, 128});
/// const AnyView any = w;
/// const std::span<const float> elements = any.as<const float>().span();
/// \endcode
class AnyView {
public:
  AnyView() = default;
  AnyView(void* data, Shape shape, Element element)
      : data_(data), shape_(shape), element_(element) {}

  template <class T>
  AnyView(TensorView<T> view)  // NOLINT(google-explicit-constructor)
      : data_(const_cast<std::remove_const_t<T>*>(view.data())),
        shape_(view.shape()),
        element_(element_of<std::remove_const_t<T>>) {}

  [[nodiscard]] void* data() const { return data_; }
  [[nodiscard]] Shape shape() const { return shape_; }
  [[nodiscard]] Element element() const { return element_; }
  [[nodiscard]] Bytes bytes() const {
    return static_cast<Bytes>(shape_.size()) * size_of(element_);
  }
  [[nodiscard]] explicit operator bool() const { return data_ != nullptr; }

  /// Returns the view with the element type T. Throws ElementError when the tensor has another element type.
  template <class T>
  [[nodiscard]] TensorView<T> as() const {
    if (element_of<std::remove_const_t<T>> != element_) {
      throw ElementError(data_, "reef::AnyView::as: the tensor holds ", name_of(element_),
                         ", but is asked for as ", name_of(element_of<std::remove_const_t<T>>),
                         ".\n  fix: as<T>() with the T of ", name_of(element_), ".");
    }
    return {static_cast<T*>(data_), shape_};
  }

private:
  void* data_ = nullptr;
  Shape shape_;
  Element element_ = Element::float32;
};

}  // namespace v0
}  // namespace reef
