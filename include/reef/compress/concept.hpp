#pragma once

#include <concepts>

#include <reef/core/policy.hpp>
#include <reef/run/step_builder.hpp>

namespace reef {
inline namespace v0 {
namespace compress {

/// A policy that decides in which form values are sent between ranks.
///
///     add(builder)   rewrites the transfers in the builder's program
///
/// | facts  | `lossless`: values arrive bit for bit; `payload`: the form of the gradients |
/// | laws   | a lossless compressor changes no bit of a step                              |
/// | models | Dense, Channels, Everywhere, AdaTopK                                        |
///
/// \code
/// #include <cstdio>
/// struct Counted {  // as Dense, and says what a step sends
///   using policy_tag = CompressTag;
///   static constexpr bool lossless = true;
///   static constexpr Payload payload = Payload::dense;
///   static void add(run::StepBuilder& builder) {
///     Bytes sent = 0;
///     for (const schedule::Instruction& i : builder.program.round) {
///       for (const schedule::Message& message : i.sends) sent += message.bytes;
///     }
///     std::printf("%s\n", format_bytes(sent).c_str());
///   }
/// };
/// static_assert(compress::CompressorPolicy<Counted>);
/// \endcode
template <class C>
concept CompressorPolicy = std::is_same_v<policy_tag_of<C>, CompressTag> &&
                            requires(run::StepBuilder& builder) {
                              { C::lossless } -> std::convertible_to<bool>;
                              { C::payload } -> std::convertible_to<Payload>;
                              C::add(builder);
                            };

}  // namespace compress
}  // namespace v0
}  // namespace reef
