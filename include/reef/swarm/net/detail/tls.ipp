#pragma once

#include <algorithm>
#include <cctype>
#include <cstring>
#include <optional>
#include <set>
#include <utility>

#include <openssl/bio.h>
#include <openssl/bn.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <openssl/x509_vfy.h>
#include <openssl/x509v3.h>

#include <reef/core/error.hpp>
#include <reef/core/inline.hpp>
#include <reef/swarm/net/detail/no_passphrase.hpp>
#include <reef/swarm/net/detail/tls.hpp>

namespace reef {
inline namespace v0 {
namespace swarm {
namespace detail {

/// Calls OpenSSL's function that frees an object.
template <auto free_function>
struct Freed {
  template <class T>
  void operator()(T* object) const {
    free_function(object);
  }
};

/// Returns the text of OpenSSL's last error of this thread, and clears its list of errors.
REEF_INLINE std::string tls_error(std::string_view otherwise) {
  const unsigned long code = ERR_peek_last_error();
  ERR_clear_error();
  const char* const reason = code == 0 ? nullptr : ERR_reason_error_string(code);
  return reason == nullptr ? std::string(otherwise) : std::string(reason);
}

REEF_INLINE std::string serial_of(const X509* certificate) {
  const std::unique_ptr<BIGNUM, Freed<BN_free>> number(
      ASN1_INTEGER_to_BN(X509_get0_serialNumber(certificate), nullptr));
  char* const text = number ? BN_bn2hex(number.get()) : nullptr;
  std::string serial = text == nullptr ? std::string() : std::string(text);
  OPENSSL_free(text);
  return serial;
}

/// Returns a serial number as serial_of spells it: upper case, without leading zeros but of whole bytes.
REEF_INLINE std::string same_spelling(std::string serial) {
  std::ranges::transform(serial, serial.begin(), [](unsigned char c) { return static_cast<char>(std::toupper(c)); });
  serial.erase(0, (std::min)(serial.find_first_not_of('0'), serial.size()));
  return serial.size() % 2 == 0 ? serial : "0" + serial;
}

/// Returns the identity of a certificate: the only URI of its subjectAltName that begins with reef://.
REEF_INLINE std::optional<Identity> identity_of(const X509* certificate) {
  const std::unique_ptr<GENERAL_NAMES, Freed<GENERAL_NAMES_free>> names(
      static_cast<GENERAL_NAMES*>(X509_get_ext_d2i(certificate, NID_subject_alt_name, nullptr, nullptr)));
  std::optional<Identity> found;
  const int count = names ? sk_GENERAL_NAME_num(names.get()) : 0;
  for (int i = 0; i < count; ++i) {
    const GENERAL_NAME* const name = sk_GENERAL_NAME_value(names.get(), i);
    if (name->type != GEN_URI) continue;
    const ASN1_IA5STRING* const uri = name->d.uniformResourceIdentifier;
    const std::string_view text(reinterpret_cast<const char*>(ASN1_STRING_get0_data(uri)),
                                static_cast<std::size_t>(ASN1_STRING_length(uri)));
    if (!text.starts_with("reef://")) continue;
    if (found) return std::nullopt;
    found = swarm::identity_of(text);
    if (!found) return std::nullopt;
  }
  return found;
}

struct TlsContext::State {
  std::unique_ptr<SSL_CTX, Freed<SSL_CTX_free>> context{SSL_CTX_new(TLS_method())};
  Identity identity{};
  std::set<std::string> revoked{};
};

/// Returns the place of a TlsContext::State among the data of an OpenSSL context: another one than that of
/// SSL_CTX_set_app_data, since Asio frees what is there.
REEF_INLINE int tls_state_place() {
  static const int place = SSL_CTX_get_ex_new_index(0, nullptr, nullptr, nullptr, nullptr);
  return place;
}

// A certificate of the job's CA passes unless it is revoked, or says no identity.
REEF_INLINE int verify_peer(int good, X509_STORE_CTX* store) {
  if (good != 1 || X509_STORE_CTX_get_error_depth(store) != 0) return good;
  const auto* const session =
      static_cast<const SSL*>(X509_STORE_CTX_get_ex_data(store, SSL_get_ex_data_X509_STORE_CTX_idx()));
  const auto* const state = static_cast<const TlsContext::State*>(
      SSL_CTX_get_ex_data(SSL_get_SSL_CTX(session), tls_state_place()));
  const X509* const certificate = X509_STORE_CTX_get_current_cert(store);
  if (state->revoked.contains(serial_of(certificate))) {
    X509_STORE_CTX_set_error(store, X509_V_ERR_CERT_REVOKED);
    return 0;
  }
  if (!identity_of(certificate)) {
    X509_STORE_CTX_set_error(store, X509_V_ERR_APPLICATION_VERIFICATION);
    return 0;
  }
  return 1;
}

REEF_INLINE TlsContext::TlsContext(const TlsFiles& files) : state_(std::make_unique<State>()) {
  const auto fail = [](std::string_view what, const std::filesystem::path& path) {
    throw OptionError("reef::swarm: the ", what, " in ", path.string(), " cannot be used: ",
                      tls_error("OpenSSL does not say why"),
                      ".\n  fix: the files that `reef-swarm keys` writes for one job and peer.");
  };
  SSL_CTX* const context = state_->context.get();
  if (context == nullptr) fail("TLS of OpenSSL", "this process");
  SSL_CTX_set_ex_data(context, tls_state_place(), state_.get());
  SSL_CTX_set_min_proto_version(context, TLS1_3_VERSION);
  SSL_CTX_set_max_proto_version(context, TLS1_3_VERSION);
  SSL_CTX_set_ciphersuites(context, "TLS_AES_128_GCM_SHA256:TLS_AES_256_GCM_SHA384:TLS_CHACHA20_POLY1305_SHA256");
  SSL_CTX_set_verify(context, SSL_VERIFY_PEER | SSL_VERIFY_FAIL_IF_NO_PEER_CERT, verify_peer);
  SSL_CTX_set_session_cache_mode(context, SSL_SESS_CACHE_OFF);
  SSL_CTX_set_options(context, SSL_OP_NO_TICKET | SSL_OP_NO_RENEGOTIATION);
  SSL_CTX_set_num_tickets(context, 0);
  SSL_CTX_set_default_passwd_cb(context, no_passphrase);
  ERR_clear_error();
  if (SSL_CTX_load_verify_locations(context, files.authority.c_str(), nullptr) != 1) {
    fail("certificate of the CA", files.authority);
  }
  if (SSL_CTX_use_certificate_file(context, files.certificate.c_str(), SSL_FILETYPE_PEM) != 1) {
    fail("certificate", files.certificate);
  }
  if (SSL_CTX_use_PrivateKey_file(context, files.key.c_str(), SSL_FILETYPE_PEM) != 1 ||
      SSL_CTX_check_private_key(context) != 1) {
    fail("private key", files.key);
  }
  const std::optional<Identity> identity = identity_of(SSL_CTX_get0_certificate(context));
  if (!identity) {
    throw OptionError("reef::swarm: the certificate in ", files.certificate.string(),
                      " says no identity: it has no URI reef://JOB/ROLE/NAME, or several.",
                      "\n  fix: a certificate that `reef-swarm keys` writes.");
  }
  state_->identity = *identity;
  set_revoked(files.revoked);
}

REEF_INLINE TlsContext::~TlsContext() = default;
REEF_INLINE Identity TlsContext::identity() const { return state_->identity; }
REEF_INLINE ssl_ctx_st* TlsContext::handle() const { return state_->context.get(); }

REEF_INLINE void TlsContext::set_revoked(const std::vector<std::string>& serials) {
  state_->revoked.clear();
  for (const std::string& serial : serials) state_->revoked.insert(same_spelling(serial));
}

REEF_INLINE bool TlsContext::is_revoked(const std::string& serial) const {
  return state_->revoked.contains(same_spelling(serial));
}

REEF_INLINE Identity identity_of_other(const ssl_st* session) {
  const X509* const certificate = SSL_get0_peer_certificate(session);
  return certificate == nullptr ? Identity{} : identity_of(certificate).value_or(Identity{});
}

REEF_INLINE std::string serial_of_other(const ssl_st* session) {
  const X509* const certificate = SSL_get0_peer_certificate(session);
  return certificate == nullptr ? std::string() : serial_of(certificate);
}

REEF_INLINE std::string why_handshake_failed(const ssl_st* session, const std::string& otherwise) {
  const long verified = SSL_get_verify_result(session);
  if (verified == X509_V_OK) return otherwise;
  if (verified == X509_V_ERR_APPLICATION_VERIFICATION) return "its certificate says no identity of a peer";
  return concat("its certificate is refused: ", X509_verify_cert_error_string(verified));
}

struct TlsSession::State {
  std::unique_ptr<SSL, Freed<SSL_free>> session{};
  std::span<const std::byte> input{};          ///< of the wire, not yet read
  std::vector<std::byte>* output = nullptr;    ///< for the wire; only within a call
  std::vector<std::byte> plain = std::vector<std::byte>(16 << 10);
  std::string error{};

  static int read(BIO* bio, char* data, int size) {
    auto* const state = static_cast<State*>(BIO_get_data(bio));
    BIO_clear_retry_flags(bio);
    if (state->input.empty()) {
      BIO_set_retry_read(bio);
      return -1;
    }
    const std::size_t count = (std::min)(state->input.size(), static_cast<std::size_t>(size));
    std::memcpy(data, state->input.data(), count);
    state->input = state->input.subspan(count);
    return static_cast<int>(count);
  }

  static int write(BIO* bio, const char* data, int size) {
    auto* const state = static_cast<State*>(BIO_get_data(bio));
    BIO_clear_retry_flags(bio);
    if (state->output == nullptr) return -1;
    const auto* const bytes = reinterpret_cast<const std::byte*>(data);
    state->output->insert(state->output->end(), bytes, bytes + size);
    return size;
  }

  static long control(BIO* /*bio*/, int command, long /*number*/, void* /*pointer*/) {
    return command == BIO_CTRL_FLUSH ? 1 : 0;
  }

  static BIO_METHOD* method() {
    static const std::unique_ptr<BIO_METHOD, Freed<BIO_meth_free>> made = [] {
      BIO_METHOD* const bio = BIO_meth_new(BIO_get_new_index() | BIO_TYPE_SOURCE_SINK, "reef::swarm");
      BIO_meth_set_read(bio, read);
      BIO_meth_set_write(bio, write);
      BIO_meth_set_ctrl(bio, control);
      return std::unique_ptr<BIO_METHOD, Freed<BIO_meth_free>>(bio);
    }();
    return made.get();
  }

  /// Notes why the session has ended. Returns false.
  bool end(std::string_view otherwise) {
    error = why_handshake_failed(session.get(), concat("TLS: ", tls_error(otherwise)));
    return false;
  }
};

REEF_INLINE TlsSession::TlsSession(TlsContext& context, bool client) : state_(std::make_unique<State>()) {
  state_->session.reset(SSL_new(context.state().context.get()));
  BIO* const bio = BIO_new(State::method());
  if (state_->session == nullptr || bio == nullptr) throw Error("reef::swarm: OpenSSL cannot make a TLS session.");
  BIO_set_data(bio, state_.get());
  BIO_set_init(bio, 1);
  SSL_set_bio(state_->session.get(), bio, bio);
  if (client) {
    SSL_set_connect_state(state_->session.get());
  } else {
    SSL_set_accept_state(state_->session.get());
  }
}

REEF_INLINE TlsSession::~TlsSession() = default;

REEF_INLINE bool TlsSession::is_open() const { return SSL_is_init_finished(state_->session.get()) == 1; }

REEF_INLINE bool TlsSession::receive(std::span<const std::byte> wire, std::vector<std::byte>& out,
                                     const std::function<void(std::span<const std::byte>)>& plain) {
  SSL* const session = state_->session.get();
  state_->input = wire;
  state_->output = &out;
  ERR_clear_error();
  for (;;) {
    std::size_t size = 0;
    const bool handshake = SSL_is_init_finished(session) != 1;
    const int result = handshake ? SSL_do_handshake(session)
                                 : SSL_read_ex(session, state_->plain.data(), state_->plain.size(), &size);
    if (result == 1) {
      // `plain` may send, and so write to another buffer.
      if (!handshake) plain(std::span(state_->plain).first(size));
      state_->output = &out;
      continue;
    }
    const int error = SSL_get_error(session, result);
    if (error == SSL_ERROR_WANT_READ) return true;
    if (error == SSL_ERROR_ZERO_RETURN) return false;
    return state_->end("the session failed");
  }
}

REEF_INLINE void TlsSession::send(std::span<const std::byte> plain, std::vector<std::byte>& out) {
  state_->output = &out;
  ERR_clear_error();
  std::size_t written = 0;
  if (plain.empty() || SSL_write_ex(state_->session.get(), plain.data(), plain.size(), &written) == 1) return;
  state_->end("bytes cannot be encrypted");
}

REEF_INLINE Identity TlsSession::identity() const {
  return identity_of_other(state_->session.get());
}

REEF_INLINE std::string TlsSession::serial() const {
  return serial_of_other(state_->session.get());
}

REEF_INLINE std::string TlsSession::error() const { return state_->error; }

}  // namespace detail
}  // namespace swarm
}  // namespace v0
}  // namespace reef
