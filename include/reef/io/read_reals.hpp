#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include <reef/core/element.hpp>
#include <reef/core/error.hpp>
#include <reef/io/safetensors_file.hpp>
#include <reef/io/stored_tensor.hpp>

namespace reef {
inline namespace v0 {
namespace io {

namespace detail {

/// Converts an IEEE half-precision number (1 sign, 5 exponent and 10 fraction bits) to float, exactly.
float float_of_f16(std::uint16_t bits);

/// Reads elements of type Stored in pieces and writes each, converted by `convert`, to `to`.
template <class Stored, real T, class Convert>
void read_converted(const SafetensorsFile& file, const StoredTensor& tensor, std::span<T> to,
                    const Convert& convert) {
  std::vector<Stored> piece(std::min<std::size_t>(to.size(), 1 << 16));
  for (std::size_t done = 0; done < to.size(); done += piece.size()) {
    piece.resize((std::min)(piece.size(), to.size() - done));
    file.read(tensor, done * sizeof(Stored), std::as_writable_bytes(std::span(piece)));
    for (std::size_t i = 0; i < piece.size(); ++i) to[done + i] = static_cast<T>(convert(piece[i]));
  }
}

}  // namespace detail

/// Returns true if read_reals can read this element type (dtype) of a safetensors file.
constexpr bool is_real_dtype(std::string_view dtype) {
  return dtype == "F32" || dtype == "F64" || dtype == "BF16" || dtype == "F16";
}

/// Reads the first to.size() elements of a tensor as numbers
/// of type T, with the rounding and errors of read_reals.
template <real T>
void read_first_reals(const SafetensorsFile& file, const StoredTensor& tensor, std::span<T> to) {
  if (!is_real_dtype(tensor.dtype) ||
      tensor.bytes() < to.size() * detail::dtype_bytes(tensor.dtype)) {
    throw DecodeError("reef::io: '", file.path().string(), "': tensor '", tensor.name, "' is ",
                      tensor.dtype, " ", detail::shape_text(tensor.shape), ", where ", to.size(),
                      " real numbers are needed (F64, F32, BF16 or F16).\n  fix: store it as one "
                      "of these, and read as many as it has.");
  }
  if (tensor.dtype == detail::dtype_of(element_of<T>)) {
    file.read(tensor, 0, std::as_writable_bytes(to));
  } else if (tensor.dtype == "F64") {
    detail::read_converted<double>(file, tensor, to, [](double x) { return x; });
  } else if (tensor.dtype == "F32") {
    detail::read_converted<float>(file, tensor, to, [](float x) { return x; });
  } else if (tensor.dtype == "BF16") {
    detail::read_converted<Bfloat16>(file, tensor, to, [](float x) { return x; });
  } else {
    detail::read_converted<std::uint16_t>(file, tensor, to, detail::float_of_f16);
  }
}

/// Reads a tensor of any real dtype (F64, F32, BF16 or F16) as numbers of type T.
///
/// | rounding | none if T can represent all numbers of the dtype, else to nearest; F64 is converted  |
/// |          | to bf16 by way of fp32                                                               |
/// | memory   | a tensor of T's dtype is read directly into `to`, others in pieces of 64 Ki elements |
/// | errors   | DecodeError for another dtype, or where to.size() is not the tensor's size           |
///
/// \code
/// // given: const io::SafetensorsFile& file, std::vector<float>& weights
/// io::read_reals(file, file.at("wte.weight"), std::span(weights));
/// \endcode
template <real T>
void read_reals(const SafetensorsFile& file, const StoredTensor& tensor, std::span<T> to) {
  const Bytes width = detail::dtype_bytes(tensor.dtype);
  if (is_real_dtype(tensor.dtype) && tensor.bytes() > to.size() * width) {
    throw DecodeError("reef::io: '", file.path().string(), "': tensor '", tensor.name, "' has ",
                      tensor.bytes() / width, " numbers, not ", to.size(),
                      ".\n  fix: read as many as it has.");
  }
  read_first_reals(file, tensor, to);
}

}  // namespace io
}  // namespace v0
}  // namespace reef

#ifndef REEF_COMPILED
#include <reef/io/read_reals.ipp>
#endif
