#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>

#include <reef/core/shape.hpp>

namespace reef {
inline namespace v0 {
namespace compress {

/// The numbers of one message, before it is encoded and as receivers decode it.
struct Coded {
  /// The message's name, such as "activation 3, micro-batch 2", "gradient 1, for rank 2", "pseudo-gradient 0, part 1".
  std::string name{};
  Shape shape{};       ///< shape of a tensor between stages; else one dimension, the count of numbers
  std::span<const float> before{};
  std::span<const float> after{};
};

/// An option of compress::Channels: measures or records the messages that codecs encode. It changes no bit of a
/// training, and no byte of a message.
///
/// | measures_error | Trainer::links() has the relative error of each link                                            |
/// | record, step   | in the step after `step` committed ones, `record` is called with each message that this rank    |
/// |                | encodes, on the threads of several lanes at once. An exception of `record` ends the step        |
/// | cost           | decoding all messages that are measured or recorded, and memory for that                        |
/// | codecs         | a codec whose receiver has memory is watched only if the sender has the same memory, as in Ef21 |
///
/// \code
/// #include <cstdio>
/// #include <reef/codec/top_k.hpp>
/// #include <reef/compress/channels.hpp>
/// using Compress = compress::Channels<compress::Gradient<codec::TopK>>;
/// Compress::Options options;
/// options.watch.measures_error = true;
/// options.watch.step = 100;
/// options.watch.record = [](const compress::Coded& coded) { std::printf("%s\n", coded.name.c_str()); };
/// \endcode
struct Watch {
  bool measures_error = false;
  std::optional<std::int64_t> step{};
  std::function<void(const Coded&)> record{};
};

}  // namespace compress
}  // namespace v0
}  // namespace reef
