#pragma once

#include <reef/core/language.hpp>

namespace reef {
inline namespace v0 {
namespace swarm {
namespace detail {

/// Mutual TLS 1.3 by the files of TlsFiles, for AsioStream. Its body has Asio's types.
struct AsioTls;

/// A TCP connection of HTTP, encrypted or plain: a stream as Asio and Beast ask for one. Its body has Asio's types.
class AsioStream;

/// The way to the thread of an Asio context, for callbacks that may come after its end. Its body has Asio's types.
class AsioGate;

/// Lets a file descriptor end with this program where it starts another one.
void close_on_exec(int descriptor);

}  // namespace detail
}  // namespace swarm
}  // namespace v0
}  // namespace reef

#ifndef REEF_COMPILED
#include <reef/swarm/log/detail/asio_stream.ipp>
#endif
