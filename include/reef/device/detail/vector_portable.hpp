#pragma once

#include <cmath>
#include <cstdint>
#include <limits>
#include <type_traits>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

#include <reef/core/bfloat16.hpp>

namespace reef {
inline namespace v0 {
namespace device {

template <class T, class Isa>
struct Vector;

/// 16 bytes, by the compiler's own vectors: SSE2 on x86-64, NEON on AArch64. No FMA.
struct Portable {};

template <class T>
struct Vector<T, Portable> {
  using element_type = T;
  static constexpr std::int64_t width = 16 / static_cast<std::int64_t>(sizeof(T));

  alignas(16) T lane[width];

  Vector() = default;
  Vector(T value) {  // NOLINT(google-explicit-constructor)
    for (T& x : lane) x = value;
  }

  static Vector load(const T* from) {
    Vector result;
    __builtin_memcpy(result.lane, from, sizeof result.lane);
    return result;
  }
  static Vector load(const T* from, std::int64_t count) {
    if (count >= width) return load(from);
    Vector result(T(0));
    for (std::int64_t i = 0; i < count; ++i) result.lane[i] = from[i];
    return result;
  }
  static Vector load(const T* from, std::int64_t count, const Vector& other) {
    if (count >= width) return load(from);
    Vector result = other;
    for (std::int64_t i = 0; i < count; ++i) result.lane[i] = from[i];
    return result;
  }
  friend Vector keep(const Vector& a, std::int64_t count) {
    Vector result = a;
    for (std::int64_t i = count < 0 ? 0 : count; i < width; ++i) result.lane[i] = T(0);
    return result;
  }
  void store(T* to) const { __builtin_memcpy(to, lane, sizeof lane); }
  void store(T* to, std::int64_t count) const {
    if (count >= width) return store(to);
    for (std::int64_t i = 0; i < count; ++i) to[i] = lane[i];
  }

  static Vector load(const Bfloat16* from) { return load(from, width); }
  static Vector load(const Bfloat16* from, std::int64_t count) {
    return load(from, count, Vector(T(0)));
  }
  static Vector load(const Bfloat16* from, std::int64_t count, const Vector& other) {
    Vector result = other;
    for (std::int64_t i = 0; i < width && i < count; ++i) result.lane[i] = T(from[i]);
    return result;
  }
  void store(Bfloat16* to) const { store(to, width); }
  void store(Bfloat16* to, std::int64_t count) const {
    for (std::int64_t i = 0; i < width && i < count; ++i) to[i] = Bfloat16(lane[i]);
  }

  static Vector load(const std::int8_t* from) {
    Vector result;
    for (std::int64_t i = 0; i < width; ++i) result.lane[i] = static_cast<T>(from[i]);
    return result;
  }
  static Vector look_up(const std::uint8_t* from, const T* table) {
    Vector result;
    for (std::int64_t i = 0; i < width; ++i) result.lane[i] = table[from[i]];
    return result;
  }
  static Vector load_halves(const std::uint8_t* from, std::int64_t count, const T* table) {
    Vector result(T(0));
    if (count >= width) {
      for (std::int64_t i = 0; i < width; i += 2) {
        result.lane[i] = table[from[i / 2] >> 4];
        result.lane[i + 1] = table[from[i / 2] & 15];
      }
      return result;
    }
    for (std::int64_t i = 0; i < count; ++i) result.lane[i] = table[from[i / 2] >> (i % 2 == 0 ? 4 : 0) & 15];
    return result;
  }
  static Vector load_eighths(const std::uint32_t* from, int place, const T* table) {
    Vector result;
    for (std::int64_t i = 0; i < width; ++i) result.lane[i] = table[from[i] >> (4 * place) & 15];
    return result;
  }
  void store_halves(std::uint8_t* to, std::int64_t count, const T* thresholds) const {
    Integers steps{};
    for (std::int64_t k = 0; k < 15; ++k) steps -= raw() > Vector(thresholds[k]).raw();
    for (std::int64_t i = 0; i < width && i < count; i += 2) {
      to[i / 2] = static_cast<std::uint8_t>(steps[i] << 4 | steps[i + 1]);
    }
  }
  void store_bytes(std::uint8_t* to, std::int64_t count) const {
    for (std::int64_t i = 0; i < width && i < count; ++i) to[i] = static_cast<std::uint8_t>(static_cast<int>(lane[i]));
  }
  void store_keys(std::uint32_t* to) const {
    const Integers bits = integers();
    const Integers keys = bits ^ (bits >> 31 | (std::numeric_limits<Integer>::min)());
    __builtin_memcpy(to, &keys, sizeof keys);
  }
  friend std::uint32_t magnitudes_above(const Vector& a, std::int32_t bits) {
    const Integers above = (a.integers() & (std::numeric_limits<Integer>::max)()) > bits;
#if defined(__x86_64__)
    __m128 mask;
    __builtin_memcpy(&mask, &above, sizeof mask);
    return static_cast<std::uint32_t>(_mm_movemask_ps(mask));
#else
    std::uint32_t mask = 0;
    for (std::int64_t i = 0; i < width; ++i) mask |= (above[i] != 0 ? 1U : 0U) << i;
    return mask;
#endif
  }

  friend Vector operator+(const Vector& a, const Vector& b) { return of(a.raw() + b.raw()); }
  friend Vector operator-(const Vector& a, const Vector& b) { return of(a.raw() - b.raw()); }
  friend Vector operator*(const Vector& a, const Vector& b) {
    Raw product = a.raw() * b.raw();
#if defined(__x86_64__)
    __asm__("" : "+x"(product));  // as in core/product.hpp
#elif defined(__aarch64__)
    __asm__("" : "+w"(product));
#else
    __asm__("" : "+m"(product));
#endif
    return of(product);
  }
  friend Vector operator/(const Vector& a, const Vector& b) { return of(a.raw() / b.raw()); }
  friend Vector operator-(const Vector& a) { return of(-a.raw()); }
  friend Vector fma(const Vector& a, const Vector& b, const Vector& c) {
    return a * b + c;
  }
  friend Vector larger(const Vector& a, const Vector& b) {
    return of(a.raw() > b.raw() ? a.raw() : b.raw());
  }
  friend Vector smaller(const Vector& a, const Vector& b) {
    return of(a.raw() < b.raw() ? a.raw() : b.raw());
  }
  friend Vector select_less(const Vector& a, const Vector& b, const Vector& yes, const Vector& no) {
    return of(a.raw() < b.raw() ? yes.raw() : no.raw());
  }
  friend Vector sqrt(const Vector& a) {
#if defined(__x86_64__)
    if constexpr (sizeof(T) == 4) {
      return of(_mm_sqrt_ps(a.raw()));
    } else {
      return of(_mm_sqrt_pd(a.raw()));
    }
#else
    Vector result;
    for (std::int64_t i = 0; i < width; ++i) result.lane[i] = std::sqrt(a.lane[i]);
    return result;
#endif
  }
  /// The nearest integers, |a| < 2^22: an added constant pushes the fraction out.
  friend Vector round_even(const Vector& a) {
    constexpr T shift = sizeof(T) == 4 ? T(0x1.8p23) : T(0x1.8p52);
    return of((a.raw() + shift) - shift);
  }
  /// a 2^n for integral n in [-252, 254], in two factors: 2^128 is no float.
  friend Vector scale(const Vector& a, const Vector& n) {
    const Integers all = __builtin_convertvector(n.raw(), Integers);
    const Integers half = all >> 1;
    return a * of(power(half)) * of(power(all - half));
  }
  friend T sum(const Vector& a) {
    if constexpr (width == 4) {
      return (a.lane[0] + a.lane[2]) + (a.lane[1] + a.lane[3]);
    } else {
      return a.lane[0] + a.lane[1];
    }
  }
  friend T largest(const Vector& a) {
    T result = a.lane[0];
    for (std::int64_t i = 1; i < width; ++i) result = a.lane[i] > result ? a.lane[i] : result;
    return result;
  }

private:
  using Integer = std::conditional_t<sizeof(T) == 4, std::int32_t, std::int64_t>;
  typedef T Raw __attribute__((vector_size(16)));
  typedef Integer Integers __attribute__((vector_size(16)));

  static Raw power(Integers n) {  // 2^n
    constexpr int mantissa = std::numeric_limits<T>::digits - 1;
    constexpr Integer bias = std::numeric_limits<T>::max_exponent - 1;
    const Integers bits = (n + bias) << mantissa;
    Raw value;
    __builtin_memcpy(&value, &bits, sizeof value);
    return value;
  }

  [[nodiscard]] Raw raw() const {
    Raw value;
    __builtin_memcpy(&value, lane, sizeof value);
    return value;
  }
  [[nodiscard]] Integers integers() const {
    Integers value;
    __builtin_memcpy(&value, lane, sizeof value);
    return value;
  }
  static Vector of(Raw value) {
    Vector result;
    __builtin_memcpy(result.lane, &value, sizeof value);
    return result;
  }
};

}  // namespace device
}  // namespace v0
}  // namespace reef
