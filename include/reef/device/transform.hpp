#pragma once

#include <cstdint>

#include <reef/core/config.hpp>
#include <reef/device/arithmetic.hpp>
#include <reef/device/for_each.hpp>
#include <reef/device/host.hpp>
#include <reef/device/simd.hpp>

namespace reef {
inline namespace v0 {
namespace device {

/// The position of elements [index, index + V::width) in every array that an elementwise rule (transform_vectors) reads
/// and writes; at the end of an array there may be fewer elements.
template <class V>
struct VectorAt {
  using Vector = V;

  std::int64_t index;
  std::int64_t count;

  template <class T>
  [[nodiscard]] V load(const T* from) const {
    return V::load(from + index, count);
  }
  template <class T>
  void store(T* to, const V& value) const {
    value.store(to + index, count);
  }
};

/// The position of element `index` in every array that an elementwise rule reads and writes, on a device with one
/// element per thread.
template <class T>
struct ElementAt {
  using Vector = T;

  std::int64_t index;

  template <class U>
  [[nodiscard]] REEF_HOST_DEVICE T load(const U* from) const {
    return from[index];
  }
  template <class U>
  REEF_HOST_DEVICE void store(U* to, T value) const {
    to[index] = U(value);
  }
};

namespace detail {

struct Transform {
  template <class V, class Rule>
  void run(const Rule* rule, std::int64_t begin, std::int64_t end) const {
    const Rule here = *rule;  // a copy, whose pointers and factors the stores cannot change, as the compiler then knows
    for (std::int64_t i = begin; i < end; i += V::width) here(VectorAt<V>{i, end - i});
  }
};

}  // namespace detail

/// Calls an elementwise rule, rule(at), for vectors of T that cover [0, n), on the thread pool, with the instruction
/// set in use. Call it on the thread of `lane` (a host queue); it blocks.
///
/// \code
/// // given: device::Host::Lane& lane, float* w, std::int64_t n
/// struct Decay {
///   float* w;
///   float factor;
///   REEF_RULE template <class At>
///   REEF_ALWAYS_INLINE REEF_HOST_DEVICE void operator()(const At& at) const {
///     using V = typename At::Vector;
///     at.store(w, at.load(w) * V(factor));
///   }
/// };
/// device::transform_vectors<float>(lane, n, Decay{w, 0.99F});
/// \endcode
///
/// | order | an element's bits depend neither on its place in a vector nor on n: all elements go |
/// |       | through the same code, so an array may be divided anywhere                          |
/// | cost  | one pass at the memory's bandwidth, if the rule's arithmetic is light               |
/// | rule  | is copied; it uses operators, and sqrt, fma, larger, smaller, select_less, exp      |
template <class T, class Rule>
void transform_vectors(Host::Lane& lane, std::int64_t n, const Rule& rule) {
  for_each_block(lane, n, elementwise_block, [&](std::int64_t begin, std::int64_t end) {
    run_vectors<T>(detail::Transform{}, &rule, begin, end);
  });
}

}  // namespace device
}  // namespace v0
}  // namespace reef
