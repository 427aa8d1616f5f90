#pragma once

#include <cstddef>
#include <new>
#include <type_traits>
#include <utility>

#include <reef/core/language.hpp>

namespace reef {
inline namespace v0 {
namespace device::detail {

/// A move-only function of one argument. Functions of up to 96 bytes need no allocation.
template <class Argument>
class Action {
public:
  template <class F>
    requires(!std::is_same_v<std::remove_cvref_t<F>, Action>)
  explicit Action(F&& function) {
    using Function = std::decay_t<F>;
    if constexpr (sizeof(Function) <= capacity && alignof(Function) <= alignof(std::max_align_t) &&
                  std::is_nothrow_move_constructible_v<Function>) {
      ::new (static_cast<void*>(storage_)) Function(std::forward<F>(function));
      table_ = &inside<Function>;
    } else {
      ::new (static_cast<void*>(storage_)) Function*(new Function(std::forward<F>(function)));
      table_ = &outside<Function>;
    }
  }

  Action(Action&& other) noexcept : table_(std::exchange(other.table_, nullptr)) {
    if (table_ != nullptr) table_->move(storage_, other.storage_);
  }
  Action& operator=(Action&&) = delete;
  ~Action() { reset(); }

  void operator()(Argument& argument) { table_->call(storage_, argument); }

  /// Ends the function's life now.
  void reset() noexcept {
    if (table_ != nullptr) std::exchange(table_, nullptr)->destroy(storage_);
  }

private:
  static constexpr std::size_t capacity = 96;

  struct Table {
    void (*call)(void*, Argument&);
    void (*move)(void* to, void* from) noexcept;
    void (*destroy)(void*) noexcept;
  };

  template <class Function>
  static constexpr Table inside{
      [](void* at, Argument& argument) { (*static_cast<Function*>(at))(argument); },
      [](void* to, void* from) noexcept {
        ::new (to) Function(std::move(*static_cast<Function*>(from)));
        static_cast<Function*>(from)->~Function();
      },
      [](void* at) noexcept { static_cast<Function*>(at)->~Function(); }};

  template <class Function>
  static constexpr Table outside{
      [](void* at, Argument& argument) { (**static_cast<Function**>(at))(argument); },
      [](void* to, void* from) noexcept { ::new (to) Function*(*static_cast<Function**>(from)); },
      [](void* at) noexcept { delete *static_cast<Function**>(at); }};

  alignas(std::max_align_t) std::byte storage_[capacity];
  const Table* table_ = nullptr;
};

}  // namespace device::detail
}  // namespace v0
}  // namespace reef
