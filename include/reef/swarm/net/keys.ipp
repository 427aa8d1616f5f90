#pragma once

#include <arpa/inet.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <memory>
#include <string>
#include <tuple>
#include <utility>

#include <openssl/bio.h>
#include <openssl/bn.h>
#include <openssl/ec.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/x509.h>
#include <openssl/x509v3.h>

#include <reef/core/error.hpp>
#include <reef/core/inline.hpp>
#include <reef/io/atomic_file.hpp>
#include <reef/io/file.hpp>
#include <reef/io/json.hpp>
#include <reef/swarm/net/detail/no_passphrase.hpp>
#include <reef/swarm/net/keys.hpp>

namespace reef {
inline namespace v0 {
namespace swarm {
namespace detail {

/// Calls OpenSSL's function that frees an object of the keys.
template <auto free_function>
struct FreedKey {
  template <class T>
  void operator()(T* object) const {
    free_function(object);
  }
};

using KeyPair = std::unique_ptr<EVP_PKEY, FreedKey<EVP_PKEY_free>>;
using Certificate = std::unique_ptr<X509, FreedKey<X509_free>>;
using MemoryBio = std::unique_ptr<BIO, FreedKey<BIO_free>>;

/// Throws unless OpenSSL has done what is named.
REEF_INLINE void require_made(bool done, std::string_view what) {
  if (!done) throw Error("reef::swarm::Keys: OpenSSL cannot ", what, ".\n  fix: OpenSSL 3 with EC P-256 and SHA-256.");
}

/// Writes a file of mode 0600, whole or not at all.
REEF_INLINE void write_private(const std::filesystem::path& path, std::string_view text) {
  const std::filesystem::path temporary = path.string() + ".new";
  ::unlink(temporary.c_str());
  io::detail::Descriptor file(::open(temporary.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600));
  bool good = static_cast<bool>(file);
  while (good && !text.empty()) {
    const ::ssize_t written = ::write(file.get(), text.data(), text.size());
    good = written > 0 || (written < 0 && errno == EINTR);
    if (written > 0) text.remove_prefix(static_cast<std::size_t>(written));
  }
  good = good && ::fsync(file.get()) == 0;
  if (!good || ::rename(temporary.c_str(), path.c_str()) != 0) {
    const int code = errno;
    ::unlink(temporary.c_str());
    io::detail::throw_file_error("write", path, code, "a folder that this user can write to, with room.");
  }
  io::detail::sync_folder(path.parent_path());
}

REEF_INLINE std::string text_of(BIO* bio) {
  char* data = nullptr;
  const long size = BIO_get_mem_data(bio, &data);
  return {data, static_cast<std::size_t>(size)};
}

REEF_INLINE std::string pem_of(EVP_PKEY* key) {
  const MemoryBio bio(BIO_new(BIO_s_mem()));
  require_made(bio && PEM_write_bio_PrivateKey(bio.get(), key, nullptr, nullptr, 0, nullptr, nullptr) == 1,
               "write a private key");
  return text_of(bio.get());
}

REEF_INLINE std::string pem_of(X509* certificate) {
  const MemoryBio bio(BIO_new(BIO_s_mem()));
  require_made(bio && PEM_write_bio_X509(bio.get(), certificate) == 1, "write a certificate");
  return text_of(bio.get());
}

/// Returns the serial number of a certificate in hexadecimal, and the end of its validity.
REEF_INLINE std::pair<std::string, std::string> serial_and_end(const X509* certificate) {
  const std::unique_ptr<BIGNUM, FreedKey<BN_free>> number(
      ASN1_INTEGER_to_BN(X509_get0_serialNumber(certificate), nullptr));
  char* const hex = number ? BN_bn2hex(number.get()) : nullptr;
  require_made(hex != nullptr, "write a serial number");
  const std::string serial = hex;
  OPENSSL_free(hex);
  const MemoryBio bio(BIO_new(BIO_s_mem()));
  require_made(bio && ASN1_TIME_print(bio.get(), X509_get0_notAfter(certificate)) == 1, "write a time");
  return {serial, text_of(bio.get())};
}

REEF_INLINE void extend(X509* certificate, X509* issuer, int kind, const std::string& value) {
  X509V3_CTX context;
  X509V3_set_ctx_nodb(&context);
  X509V3_set_ctx(&context, issuer, certificate, nullptr, nullptr, 0);
  const std::unique_ptr<X509_EXTENSION, FreedKey<X509_EXTENSION_free>> extension(
      X509V3_EXT_conf_nid(nullptr, &context, kind, value.c_str()));
  require_made(extension && X509_add_ext(certificate, extension.get(), -1) == 1, concat("add the extension ", value));
}

/// Returns a certificate for a new key, without extensions and signature. `common_name`: empty for all but a CA.
REEF_INLINE Certificate begin_certificate(EVP_PKEY* key, const std::string& organization,
                                          const std::string& common_name, const CertificateOptions& options) {
  Certificate certificate(X509_new());
  unsigned char number[16];
  const std::unique_ptr<BIGNUM, FreedKey<BN_free>> serial(BN_new());
  require_made(certificate && serial && BN_rand(serial.get(), 8 * sizeof number - 1, BN_RAND_TOP_ONE, 0) == 1,
               "draw a serial number");
  X509* const made = certificate.get();
  BN_to_ASN1_INTEGER(serial.get(), X509_get_serialNumber(made));
  X509_NAME* const subject = X509_get_subject_name(made);
  const auto add = [&](const char* field, const std::string& text) {
    return X509_NAME_add_entry_by_txt(subject, field, MBSTRING_UTF8,
                                      reinterpret_cast<const unsigned char*>(text.c_str()), -1, -1, 0) == 1;
  };
  const long begins = static_cast<long>(options.begins.count());
  const long ends = static_cast<long>((options.begins + options.lasts).count());
  require_made(X509_set_version(made, 2) == 1 && X509_set_pubkey(made, key) == 1 && add("O", organization) &&
                   (common_name.empty() || add("CN", common_name)) &&
                   X509_gmtime_adj(X509_getm_notBefore(made), begins) != nullptr &&
                   X509_gmtime_adj(X509_getm_notAfter(made), ends) != nullptr,
               "make a certificate");
  return certificate;
}

/// Returns the hosts as a subjectAltName spells them behind the URI.
REEF_INLINE std::string alternative_names(const Identity& identity, const std::vector<std::string>& hosts) {
  std::string text = "URI:" + identity.uri();
  for (const std::string& host : hosts) {
    unsigned char address[16];
    const bool numeric =
        ::inet_pton(AF_INET, host.c_str(), address) == 1 || ::inet_pton(AF_INET6, host.c_str(), address) == 1;
    const bool named = !host.empty() && host.size() <= 253 && std::ranges::all_of(host, [](char c) {
      return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '.' || c == '-';
    });
    if (!numeric && !named) {
      throw OptionError("reef::swarm::Keys: the host ", in_quotes(host), " is neither a name nor an address.",
                        "\n  fix: such as keeper1.example or 10.0.0.1, without a port.");
    }
    text += (numeric ? ",IP:" : ",DNS:") + host;
  }
  return text;
}

/// Returns true for keeper_host in any case of its letters, with dots behind it or without.
REEF_INLINE bool is_keeper_host(std::string host) {
  for (char& c : host) c = c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  while (host.ends_with('.')) host.pop_back();
  return host == keeper_host;
}

/// Reads the CA's certificate and key.
REEF_INLINE std::pair<Certificate, KeyPair> read_authority(const std::filesystem::path& folder) {
  const std::string certificate_text = io::read_file(folder / "ca.pem", 1_MiB);
  const std::string key_text = io::read_file(folder / "ca.key", 1_MiB);
  const MemoryBio certificate_bio(BIO_new_mem_buf(certificate_text.data(), static_cast<int>(certificate_text.size())));
  const MemoryBio key_bio(BIO_new_mem_buf(key_text.data(), static_cast<int>(key_text.size())));
  Certificate certificate(PEM_read_bio_X509(certificate_bio.get(), nullptr, detail::no_passphrase, nullptr));
  KeyPair key(PEM_read_bio_PrivateKey(key_bio.get(), nullptr, detail::no_passphrase, nullptr));
  if (!certificate || !key || X509_check_private_key(certificate.get(), key.get()) != 1) {
    throw OptionError("reef::swarm::Keys: ca.pem and ca.key in ", folder.string(),
                      " are not a certificate and its key.\n  fix: both files as Keys::make wrote them.");
  }
  return {std::move(certificate), std::move(key)};
}

}  // namespace detail

REEF_INLINE Keys Keys::make(const std::filesystem::path& folder, std::string_view job, std::chrono::seconds lasts) {
  require_identity({std::string(job), "peer", "ca"}, "reef::swarm::Keys");
  std::error_code ignored;
  if (std::filesystem::exists(folder / "keys.json", ignored) || std::filesystem::exists(folder / "ca.key", ignored)) {
    throw OptionError("reef::swarm::Keys: ", folder.string(), " has a CA already.\n  why: another one would shut out ",
                      "everybody who has a certificate of the first.\n  fix: Keys(folder) opens it; or another ",
                      "folder.");
  }
  io::create_folders(folder);
  ::chmod(folder.c_str(), 0700);
  const detail::KeyPair key(EVP_EC_gen("P-256"));
  detail::require_made(key != nullptr, "make a key");
  CertificateOptions options;
  options.lasts = lasts;
  const detail::Certificate made =
      detail::begin_certificate(key.get(), "reef", concat("reef job ", job), options);
  X509* const certificate = made.get();
  detail::require_made(X509_set_issuer_name(certificate, X509_get_subject_name(certificate)) == 1, "name an issuer");
  detail::extend(certificate, certificate, NID_basic_constraints, "critical,CA:TRUE,pathlen:0");
  detail::extend(certificate, certificate, NID_key_usage, "critical,keyCertSign,cRLSign");
  detail::extend(certificate, certificate, NID_subject_key_identifier, "hash");
  detail::require_made(X509_sign(certificate, key.get(), EVP_sha256()) > 0, "sign a certificate");
  detail::write_private(folder / "ca.key", detail::pem_of(key.get()));
  detail::write_private(folder / "ca.pem", detail::pem_of(certificate));
  Keys keys(folder, std::string(job));
  keys.write_list();
  return keys;
}

REEF_INLINE Keys::Keys(const std::filesystem::path& folder) : folder_(folder) {
  const std::filesystem::path path = folder / "keys.json";
  std::error_code ignored;
  if (!std::filesystem::exists(path, ignored)) {
    throw OptionError("reef::swarm::Keys: ", folder.string(), " has no CA.\n  fix: Keys::make makes one.");
  }
  const std::string name = path.string();
  const io::Json json = io::read_json(path);
  job_ = io::require<std::string>(json, "job", name);
  for (const io::Json& entry : io::require<std::vector<io::Json>>(json, "issued", name)) {
    IssuedCertificate issued;
    issued.identity = {job_, io::require<std::string>(entry, "role", name),
                       io::require<std::string>(entry, "name", name)};
    require_identity(issued.identity, name);
    issued.serial = io::require<std::string>(entry, "serial", name);
    issued.until = io::require<std::string>(entry, "until", name);
    issued.revoked = io::require<bool>(entry, "revoked", name);
    issued_.push_back(std::move(issued));
  }
}

REEF_INLINE void Keys::write_list() const {
  io::Json json;
  json["job"] = job_;
  json["issued"] = io::Json::array();
  for (const IssuedCertificate& issued : issued_) {
    json["issued"].push_back({{"role", issued.identity.role},
                              {"name", issued.identity.name},
                              {"serial", issued.serial},
                              {"until", issued.until},
                              {"revoked", issued.revoked}});
  }
  detail::write_private(folder_ / "keys.json", json.dump(1) + "\n");
}

REEF_INLINE IssuedCertificate Keys::issue(std::string_view role, std::string_view name,
                                          const CertificateOptions& options) {
  IssuedCertificate issued;
  issued.identity = {job_, std::string(role), std::string(name)};
  require_identity(issued.identity, "reef::swarm::Keys");
  const bool present = std::ranges::any_of(
      issued_, [&](const IssuedCertificate& one) { return one.identity.name == name && !one.revoked; });
  if (present || name == "ca") {
    throw OptionError("reef::swarm::Keys: there is a certificate of ", in_quotes(name),
                      " already.\n  fix: revoke it first, or another name.");
  }
  const auto [authority, authority_key] = detail::read_authority(folder_);
  std::vector<std::string> hosts = options.hosts;
  if (role == "keeper") {
    hosts.emplace_back(keeper_host);
    hosts.emplace_back("127.0.0.1");
  } else if (std::ranges::any_of(hosts, detail::is_keeper_host)) {
    throw OptionError("reef::swarm::Keys: ", in_quotes(name), " is no keeper, and cannot have the host ", keeper_host,
                      ".\n  fix: the role keeper, or another host.");
  }
  const std::string names = detail::alternative_names(issued.identity, hosts);
  const detail::KeyPair key(EVP_EC_gen("P-256"));
  detail::require_made(key != nullptr, "make a key");
  const detail::Certificate made = detail::begin_certificate(key.get(), "reef", {}, options);
  X509* const certificate = made.get();
  X509* const issuer = authority.get();
  detail::require_made(X509_set_issuer_name(certificate, X509_get_subject_name(issuer)) == 1, "name an issuer");
  detail::extend(certificate, issuer, NID_basic_constraints, "critical,CA:FALSE");
  detail::extend(certificate, issuer, NID_key_usage, "critical,digitalSignature");
  detail::extend(certificate, issuer, NID_ext_key_usage, role == "client" ? "clientAuth" : "clientAuth,serverAuth");
  detail::extend(certificate, issuer, NID_subject_key_identifier, "hash");
  detail::extend(certificate, issuer, NID_authority_key_identifier, "keyid:always");
  detail::extend(certificate, issuer, NID_subject_alt_name, names);
  detail::require_made(X509_sign(certificate, authority_key.get(), EVP_sha256()) > 0, "sign a certificate");
  std::tie(issued.serial, issued.until) = detail::serial_and_end(certificate);
  // Listed before its files are there: what exists can be revoked.
  issued_.push_back(issued);
  write_list();
  detail::write_private(folder_ / (std::string(name) + ".key"), detail::pem_of(key.get()));
  detail::write_private(folder_ / (std::string(name) + ".pem"), detail::pem_of(certificate));
  return issued;
}

REEF_INLINE std::vector<std::string> Keys::revoke(std::string_view name_or_serial) {
  std::vector<std::string> fresh;
  bool found = false;
  for (IssuedCertificate& issued : issued_) {
    if (issued.identity.name != name_or_serial && issued.serial != name_or_serial) continue;
    found = true;
    if (!std::exchange(issued.revoked, true)) fresh.push_back(issued.serial);
  }
  if (!found) {
    throw OptionError("reef::swarm::Keys: nothing was issued to ", in_quotes(name_or_serial),
                      ", nor under that serial number.\n  fix: a name or serial number of keys.json.");
  }
  write_list();
  return fresh;
}

REEF_INLINE std::vector<std::string> Keys::revoked() const {
  std::vector<std::string> serials;
  for (const IssuedCertificate& issued : issued_) {
    if (issued.revoked) serials.push_back(issued.serial);
  }
  return serials;
}

REEF_INLINE TlsFiles Keys::files(std::string_view name) const {
  const std::string begin = (folder_ / name).string();
  return {folder_ / "ca.pem", begin + ".pem", begin + ".key", revoked()};
}

}  // namespace swarm
}  // namespace v0
}  // namespace reef
