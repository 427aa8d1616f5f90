#pragma once

#include <map>
#include <mutex>
#include <optional>
#include <utility>

#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/ssl.h>
#include <openssl/x509.h>
#include <openssl/x509_vfy.h>

#include <reef/core/error.hpp>
#include <reef/core/inline.hpp>
#include <reef/core/text.hpp>
#include <reef/swarm/net/detail/tls.hpp>
#include <reef/swarm/net/detail/tls_signer.hpp>

namespace reef {
inline namespace v0 {
namespace swarm {
namespace detail {

using DigestContext = std::unique_ptr<EVP_MD_CTX, Freed<EVP_MD_CTX_free>>;

/// Returns the bytes of a text as OpenSSL takes them.
REEF_INLINE const unsigned char* bytes_of_text(std::string_view text) {
  return reinterpret_cast<const unsigned char*>(text.data());
}

struct TlsSigner::State {
  /// A certificate, and whom it names or why it names nobody of the job.
  struct Known {
    std::shared_ptr<X509> certificate{};
    SignedBy by{};
  };

  explicit State(const TlsFiles& files) : context(files), own(context.identity()) {
    unsigned char* der = nullptr;
    const int bytes = i2d_X509(SSL_CTX_get0_certificate(context.handle()), &der);
    if (bytes <= 0) throw Error("reef::swarm: OpenSSL cannot write a certificate.\n  fix: an OpenSSL 3.");
    own_certificate.assign(reinterpret_cast<const char*>(der), static_cast<std::size_t>(bytes));
    OPENSSL_free(der);
  }

  [[nodiscard]] Known verified(const std::string& der) const {
    Known known;
    const unsigned char* bytes = bytes_of_text(der);
    ERR_clear_error();
    known.certificate = {d2i_X509(nullptr, &bytes, static_cast<long>(der.size())), X509_free};
    X509* const certificate = known.certificate.get();
    if (certificate == nullptr) {
      known.by.why = "its certificate is none";
      return known;
    }
    const std::unique_ptr<X509_STORE_CTX, Freed<X509_STORE_CTX_free>> store(X509_STORE_CTX_new());
    if (!store ||
        X509_STORE_CTX_init(store.get(), SSL_CTX_get_cert_store(context.handle()), certificate, nullptr) != 1) {
      throw Error("reef::swarm: OpenSSL cannot verify a certificate.\n  fix: an OpenSSL 3.");
    }
    X509_STORE_CTX_set_flags(store.get(), X509_V_FLAG_NO_CHECK_TIME);
    const std::optional<Identity> identity = identity_of(certificate);
    if (X509_verify_cert(store.get()) != 1) {
      known.by.why = concat("its certificate is refused: ",
                            X509_verify_cert_error_string(X509_STORE_CTX_get_error(store.get())));
    } else if (!identity || identity->job != own.job) {
      known.by.why = concat("its certificate names nobody of the job ", in_quotes(own.job));
    } else {
      known.by.who = *identity;
      known.by.serial = serial_of(certificate);
    }
    ERR_clear_error();
    return known;
  }

  [[nodiscard]] Known known(const std::string& certificate) {
    const std::lock_guard lock(mutex);
    if (const auto found = all.find(certificate); found != all.end()) return found->second;
    constexpr std::size_t most = 1024;
    if (all.size() >= most) all.clear();
    return all.emplace(certificate, verified(certificate)).first->second;
  }

  const TlsContext context;
  const Identity own;
  std::string own_certificate{};
  std::mutex mutex{};
  std::map<std::string, Known> all{};  ///< certificates that were seen, by their DER
};

REEF_INLINE TlsSigner::TlsSigner(const TlsFiles& files) : state_(std::make_unique<State>(files)) {}

REEF_INLINE TlsSigner::~TlsSigner() = default;

REEF_INLINE const Identity& TlsSigner::own() const& { return state_->own; }

REEF_INLINE TextSignature TlsSigner::sign(std::string_view text) const {
  const DigestContext digest(EVP_MD_CTX_new());
  EVP_PKEY* const key = SSL_CTX_get0_privatekey(state_->context.handle());
  std::size_t size = 0;
  std::string signature;
  bool good = digest && EVP_DigestSignInit(digest.get(), nullptr, EVP_sha256(), nullptr, key) == 1 &&
              EVP_DigestSign(digest.get(), nullptr, &size, bytes_of_text(text), text.size()) == 1;
  signature.resize(size);
  good = good && EVP_DigestSign(digest.get(), reinterpret_cast<unsigned char*>(signature.data()), &size,
                                bytes_of_text(text), text.size()) == 1;
  if (!good) {
    throw Error("reef::swarm: a text cannot be signed: ", tls_error("OpenSSL does not say why"),
                ".\n  fix: a key of EC P-256, as `reef-swarm keys` writes.");
  }
  signature.resize(size);
  return {state_->own_certificate, std::move(signature)};
}

REEF_INLINE SignedBy TlsSigner::verify(std::string_view text, const TextSignature& signature) const {
  const State::Known known = state_->known(signature.certificate);
  if (!known.by.why.empty()) return known.by;
  const DigestContext digest(EVP_MD_CTX_new());
  EVP_PKEY* const key = X509_get0_pubkey(known.certificate.get());
  const bool good = digest &&
                    EVP_DigestVerifyInit(digest.get(), nullptr, EVP_sha256(), nullptr, key) == 1 &&
                    EVP_DigestVerify(digest.get(), bytes_of_text(signature.signature), signature.signature.size(),
                                     bytes_of_text(text), text.size()) == 1;
  ERR_clear_error();
  if (good) return known.by;
  return {.who = {}, .serial = {}, .why = concat("its signature is not that of ", known.by.who.uri())};
}

}  // namespace detail
}  // namespace swarm
}  // namespace v0
}  // namespace reef
