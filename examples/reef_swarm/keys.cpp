#include <string>

#include <reef/core/text.hpp>
#include <reef/swarm/net/keys.hpp>

#include "../support/standard_output.hpp"
#include "options.hpp"

namespace reef_examples {

namespace {

using reef::swarm::IssuedCertificate;
using reef::swarm::Keys;

std::string text_of(const IssuedCertificate& one) {
  return reef::concat(one.identity.role, " ", one.identity.name, ", serial ", one.serial, ", until ", one.until,
                      one.revoked ? ", revoked" : "", "\n");
}

}  // namespace

int run_keys_make(const KeysOptions& options) {
  const Keys keys = Keys::make(options.folder, options.job);
  print(reef::concat("made the CA of ", keys.job(), " in ", options.folder, "\n"), "the answer");
  return 0;
}

int run_keys_issue(const KeysOptions& options) {
  Keys keys(options.folder);
  reef::swarm::CertificateOptions certificate;
  certificate.hosts = options.hosts;
  print(text_of(keys.issue(options.role, options.name, certificate)), "the answer");
  return 0;
}

int run_keys_revoke(const KeysOptions& options) {
  Keys keys(options.folder);
  const auto revoked = keys.revoke(options.name);
  std::string text;
  for (const std::string& serial : revoked) text += reef::concat("revoked ", serial, "\n");
  print(text.empty() ? "nothing is new: all of that name are revoked\n" : text, "the answer");
  return 0;
}

int run_keys_list(const KeysOptions& options) {
  std::string text;
  for (const IssuedCertificate& one : Keys(options.folder).issued()) text += text_of(one);
  print(text.empty() ? "nothing is issued\n" : text, "the answer");
  return 0;
}

}  // namespace reef_examples
