#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include <reef/swarm/net/endpoint_options.hpp>
#include <reef/swarm/net/identity.hpp>

// OpenSSL's SSL and SSL_CTX, by their own names: its headers are for bodies.
struct ssl_st;
struct ssl_ctx_st;

namespace reef {
inline namespace v0 {
namespace swarm {
namespace detail {

/// The keys and settings of mutual TLS 1.3, which the sessions of an endpoint share.
class TlsContext {
public:
  struct State;

  /// Throws OptionError if a file cannot be read, or the certificate, its key and the CA do not fit together.
  explicit TlsContext(const TlsFiles& files);
  ~TlsContext();
  TlsContext(const TlsContext&) = delete;
  TlsContext& operator=(const TlsContext&) = delete;

  /// Returns the identity of this side's certificate.
  [[nodiscard]] Identity identity() const;

  void set_revoked(const std::vector<std::string>& serials);
  [[nodiscard]] bool is_revoked(const std::string& serial) const;

  [[nodiscard]] State& state() const& { return *state_; }
  State& state() const&& = delete;

  /// Returns OpenSSL's context, for those who make sessions by another way than TlsSession.
  [[nodiscard]] ssl_ctx_st* handle() const;

private:
  std::unique_ptr<State> state_;
};

/// Returns the identity of the certificate of a session's other side; an empty one where there is none.
Identity identity_of_other(const ssl_st* session);

/// Returns the serial number of the certificate of a session's other side, hexadecimal; empty where there is none.
std::string serial_of_other(const ssl_st* session);

/// Returns why a session's handshake has failed: what is wrong with the other side's certificate, or `otherwise`.
std::string why_handshake_failed(const ssl_st* session, const std::string& otherwise);

/// One side of a TLS connection, apart from sockets: turns plain bytes into those on the wire and back.
class TlsSession {
public:
  TlsSession(TlsContext& context, bool client);
  ~TlsSession();
  TlsSession(const TlsSession&) = delete;
  TlsSession& operator=(const TlsSession&) = delete;

  /// Takes bytes of the wire, none at the start. Passes on plain bytes, and appends to `out` what is to be sent in
  /// return, of the handshake and alerts. Returns false if the session has ended: error() says why, and is empty after
  /// an end in order.
  bool receive(std::span<const std::byte> wire, std::vector<std::byte>& out,
               const std::function<void(std::span<const std::byte>)>& plain);

  /// Appends plain bytes, encrypted, to `out`. Only where is_open().
  void send(std::span<const std::byte> plain, std::vector<std::byte>& out);

  /// Returns true if the handshake is complete; the other side's certificate was then verified.
  [[nodiscard]] bool is_open() const;

  /// Returns the identity of the other side's certificate, once the handshake is complete.
  [[nodiscard]] Identity identity() const;
  [[nodiscard]] std::string serial() const;  ///< of the other side's certificate, hexadecimal
  [[nodiscard]] std::string error() const;

private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace detail
}  // namespace swarm
}  // namespace v0
}  // namespace reef

#ifndef REEF_COMPILED
#include <reef/swarm/net/detail/tls.ipp>
#endif
