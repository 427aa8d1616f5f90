#pragma once

#include <reef/core/language.hpp>

namespace reef {
inline namespace v0 {
namespace swarm {
namespace detail {

/// Tells OpenSSL that there is no passphrase of a PEM file. Without an answer OpenSSL asks at the terminal, and waits.
inline int no_passphrase(char* /*text*/, int /*size*/, int /*writes*/, void* /*user*/) { return -1; }

}  // namespace detail
}  // namespace swarm
}  // namespace v0
}  // namespace reef
