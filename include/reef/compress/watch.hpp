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
  std::string name{};  ///< "activation 3, micro-batch 2", "gradient 1, for rank 2", "pseudo-gradient 0, part 1"
  Shape shape{};       ///< shape of the tensor between stages; else the number of numbers
  std::span<const float> before{};
  std::span<const float> after{};
};

/// What is measured and recorded of messages that are encoded: an option of Channels. It changes no bit of a training,
/// and no byte of a message.
///
/// | measures_error | Trainer::links() has the relative error of each link                                          |
/// | record, step   | of the step that comes after so many committed ones, each message that this rank encodes; by the |
/// |                | threads of several lanes at once. What it throws ends the step                                 |
/// | cost           | a decode of all that is measured or recorded, and memory for it                                 |
/// | codecs         | of one whose receiver remembers the sender remembers the same, as Ef21's: of others, nothing    |
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
