#pragma once

// What a test takes from the heap, by hooks in its allocator. They are defined here: for one translation
// unit of a program.

#include <malloc.h>

#include <atomic>
#include <cerrno>
#include <cstddef>
#include <cstdint>

#if defined(__GLIBC__) && !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
#define REEF_TEST_HOOKS 1

namespace {
// Nothing in mappings of its own: an aligned block there keeps what follows it, as much as where the system
// put it makes that.
[[maybe_unused]] const int no_mappings = mallopt(M_MMAP_MAX, 0);

// Bytes that are allocated now; the most that ever were, and the largest block, since they were set back.
std::atomic<std::int64_t> live{0};
std::atomic<std::int64_t> peak{0};
std::atomic<std::int64_t> largest{0};

void raise(std::atomic<std::int64_t>& to, std::int64_t value) {
  std::int64_t most = to.load();
  while (value > most && !to.compare_exchange_weak(most, value)) {
  }
}

void* counted(void* data) {
  if (data == nullptr) return data;
  const auto bytes = static_cast<std::int64_t>(malloc_usable_size(data));
  raise(peak, live.fetch_add(bytes) + bytes);
  raise(largest, bytes);
  return data;
}

void forget(void* data) {
  if (data != nullptr) live -= static_cast<std::int64_t>(malloc_usable_size(data));
}
}  // namespace

// All of this process, the libraries too, allocate here; glibc has the real ones by other names.
extern "C" {
void* __libc_malloc(std::size_t) noexcept;
void* __libc_calloc(std::size_t, std::size_t) noexcept;
void* __libc_realloc(void*, std::size_t) noexcept;
void* __libc_memalign(std::size_t, std::size_t) noexcept;
void __libc_free(void*) noexcept;

void* malloc(std::size_t bytes) noexcept { return counted(__libc_malloc(bytes)); }
void* calloc(std::size_t count, std::size_t bytes) noexcept {
  return counted(__libc_calloc(count, bytes));
}
void* realloc(void* data, std::size_t bytes) noexcept {
  forget(data);
  return counted(__libc_realloc(data, bytes));
}
void* memalign(std::size_t alignment, std::size_t bytes) noexcept {
  return counted(__libc_memalign(alignment, bytes));
}
void* aligned_alloc(std::size_t alignment, std::size_t bytes) noexcept {
  return counted(__libc_memalign(alignment, bytes));
}
int posix_memalign(void** data, std::size_t alignment, std::size_t bytes) noexcept {
  *data = counted(__libc_memalign(alignment, bytes));
  return *data == nullptr ? ENOMEM : 0;
}
void free(void* data) noexcept {
  forget(data);
  __libc_free(data);
}
}
#endif

namespace reef::test {

/// Bytes at most, beyond what there was before it, that `work` takes.
template <class F>
double taken_while([[maybe_unused]] F&& work) {
#if defined(REEF_TEST_HOOKS)
  const std::int64_t before = live;
  peak = before;
  work();
  return static_cast<double>(peak - before);
#else
  return 0;
#endif
}

/// Bytes of the largest block that `work` takes.
template <class F>
double largest_taken_while([[maybe_unused]] F&& work) {
#if defined(REEF_TEST_HOOKS)
  largest = 0;
  work();
  return static_cast<double>(largest);
#else
  return 0;
#endif
}

}  // namespace reef::test
