#include <reef/swarm/net/keys.hpp>

#include <gtest/gtest.h>

#include <sys/stat.h>

#include <cstdio>
#include <filesystem>
#include <fstream>
#include <memory>
#include <sstream>
#include <string>

#include <openssl/pem.h>
#include <openssl/x509v3.h>

#include <reef/core/error.hpp>
#include <reef/swarm/net/detail/tls.hpp>

#include "support/temporary_folder.hpp"

namespace {

using namespace reef;
using swarm::Identity;
using swarm::Keys;

std::shared_ptr<X509> read_certificate(const std::filesystem::path& path) {
  std::FILE* const file = std::fopen(path.c_str(), "r");
  X509* const certificate = file == nullptr ? nullptr : PEM_read_X509(file, nullptr, nullptr, nullptr);
  if (file != nullptr) std::fclose(file);
  return {certificate, X509_free};
}

unsigned mode_of(const std::filesystem::path& path) {
  struct stat found{};
  EXPECT_EQ(::stat(path.c_str(), &found), 0) << path;
  return found.st_mode & 0777U;
}

TEST(SwarmIdentity, is_read_from_its_uri_and_from_nothing_else) {
  const Identity identity{"job-1", "peer", "garage.2"};
  EXPECT_EQ(identity.uri(), "reef://job-1/peer/garage.2");
  EXPECT_EQ(swarm::identity_of(identity.uri()), identity);
  for (const std::string uri :
       {"", "reef://", "reef://j/peer", "reef://j/peer/", "reef://j/other/a", "reef:///peer/a", "http://j/peer/a",
        "reef://j/peer/a/b", "reef://j/peer/a b", "reef://../peer/a", "REEF://j/peer/a"}) {
    EXPECT_FALSE(swarm::identity_of(uri)) << uri;
  }
  EXPECT_FALSE(swarm::is_name(std::string(65, 'a')));
  EXPECT_TRUE(swarm::is_name(std::string(64, 'a')));
  EXPECT_FALSE(swarm::is_name(std::string("a\0b", 3)));
}

TEST(SwarmKeys, are_private_files_that_fit_together) {
  const test::TemporaryFolder folder;
  Keys keys = Keys::make(folder / "keys", "job");
  const auto issued = keys.issue("peer", "a");
  EXPECT_EQ(issued.identity.uri(), "reef://job/peer/a");
  EXPECT_EQ(mode_of(folder / "keys"), 0700U);
  for (const char* const name : {"ca.pem", "ca.key", "a.pem", "a.key", "keys.json"}) {
    EXPECT_EQ(mode_of(folder / "keys" / name), 0600U) << name;
  }
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder / "keys"), {}), 5) << "nothing else is left";
  const auto authority = read_certificate(folder / "keys" / "ca.pem");
  const auto certificate = read_certificate(keys.files("a").certificate);
  ASSERT_TRUE(authority && certificate);
  EXPECT_EQ(X509_verify(certificate.get(), X509_get0_pubkey(authority.get())), 1);
  EXPECT_EQ(X509_NAME_get_index_by_NID(X509_get_subject_name(certificate.get()), NID_commonName, -1), -1);
  EXPECT_EQ(X509_check_purpose(certificate.get(), X509_PURPOSE_SSL_CLIENT, 0), 1);
  EXPECT_EQ(X509_check_purpose(certificate.get(), X509_PURPOSE_SSL_SERVER, 0), 1);
  EXPECT_EQ(X509_check_ca(certificate.get()), 0);
  EXPECT_EQ(X509_check_ca(authority.get()), 1);
}

TEST(SwarmKeys, of_keepers_name_their_hosts_and_those_of_clients_serve_nobody) {
  const test::TemporaryFolder folder;
  Keys keys = Keys::make(folder.path() / "keys", "job");
  keys.issue("keeper", "k", {.hosts = {"127.0.0.1", "::1", "keeper.example"}});
  keys.issue("client", "c");
  const auto keeper = read_certificate(keys.files("k").certificate);
  ASSERT_TRUE(keeper);
  EXPECT_EQ(X509_check_ip_asc(keeper.get(), "127.0.0.1", 0), 1);
  EXPECT_EQ(X509_check_ip_asc(keeper.get(), "::1", 0), 1);
  EXPECT_EQ(X509_check_ip_asc(keeper.get(), "127.0.0.2", 0), 0);
  EXPECT_EQ(X509_check_host(keeper.get(), "keeper.example", 0, 0, nullptr), 1);
  EXPECT_EQ(X509_check_purpose(keeper.get(), X509_PURPOSE_SSL_CLIENT, 0), 1) << "etcd's gateway is its own client";
  const auto client = read_certificate(keys.files("c").certificate);
  EXPECT_EQ(X509_check_purpose(client.get(), X509_PURPOSE_SSL_CLIENT, 0), 1);
  EXPECT_EQ(X509_check_purpose(client.get(), X509_PURPOSE_SSL_SERVER, 0), 0);
  EXPECT_THROW(keys.issue("keeper", "bad", {.hosts = {"a,URI:reef://job/peer/a"}}), OptionError);
  EXPECT_EQ(keys.issued().size(), 2U) << "what is refused is not issued";
}

TEST(SwarmKeys, remember_what_was_issued_and_revoked) {
  const test::TemporaryFolder folder;
  const auto path = folder.path() / "keys";
  std::string first;
  {
    Keys keys = Keys::make(path, "job");
    first = keys.issue("peer", "a").serial;
    keys.issue("peer", "b");
    EXPECT_THROW(keys.issue("client", "a"), OptionError);
    EXPECT_EQ(keys.revoke("a"), std::vector{first});
    EXPECT_TRUE(keys.revoke("a").empty());
  }
  Keys keys(path);
  EXPECT_EQ(keys.job(), "job");
  EXPECT_EQ(keys.revoked(), std::vector{first});
  const auto second = keys.issue("peer", "a");
  EXPECT_NE(second.serial, first);
  EXPECT_EQ(keys.revoke(second.serial), std::vector{second.serial});
  EXPECT_EQ(keys.files("b").revoked, (std::vector{first, second.serial}));
  EXPECT_THROW(keys.revoke("nobody"), OptionError);
  EXPECT_THROW(Keys::make(path, "other"), OptionError);
  EXPECT_THROW(Keys(folder / "nothing"), OptionError);
  EXPECT_THROW(keys.issue("peer", "../x"), OptionError);
  EXPECT_THROW(keys.issue("peer", "ca"), OptionError);
  EXPECT_THROW(keys.issue("king", "x"), OptionError);
  EXPECT_EQ(Keys(path).issued().size(), 3U);
}

TEST(SwarmKeys, are_not_asked_a_passphrase_for) {
  const test::TemporaryFolder folder;
  Keys keys = Keys::make(folder / "keys", "job");
  keys.issue("peer", "a");
  const auto encrypt = [](const std::filesystem::path& path) {
    std::FILE* file = std::fopen(path.c_str(), "r");
    ASSERT_NE(file, nullptr);
    const std::shared_ptr<EVP_PKEY> key(PEM_read_PrivateKey(file, nullptr, nullptr, nullptr), EVP_PKEY_free);
    std::fclose(file);
    file = std::fopen(path.c_str(), "w");
    ASSERT_NE(file, nullptr);
    std::string word = "word";
    EXPECT_EQ(PEM_write_PKCS8PrivateKey(file, key.get(), EVP_aes_128_cbc(), word.data(), 4, nullptr, nullptr), 1);
    std::fclose(file);
  };
  // Of a program at a terminal OpenSSL would ask, and wait.
  encrypt(keys.files("a").key);
  EXPECT_THROW(swarm::detail::TlsContext(keys.files("a")), OptionError);
  encrypt(folder / "keys" / "ca.key");
  EXPECT_THROW(keys.issue("peer", "b"), OptionError);
}

}  // namespace
