#pragma once

#include <mutex>
#include <optional>
#include <utility>

#include <reef/core/error.hpp>
#include <reef/core/inline.hpp>
#include <reef/core/text.hpp>
#include <reef/swarm/log/detail/append_gate.hpp>
#include <reef/swarm/log/detail/envelope_signer.hpp>
#include <reef/swarm/log/envelope.hpp>

namespace reef {
inline namespace v0 {
namespace swarm {
namespace detail {

struct AppendGate::State {
  State(const TlsFiles& files, DecisionLog& of) : log(of), signer(files) {}

  /// Returns why an envelope may not stand at an index; empty where it may.
  [[nodiscard]] std::string refusal(const ClientCertificate& client, LogIndex at, const LogEnvelope& envelope) const {
    if (std::string why = why_not_append(client.who, signer.own().job, envelope.entry); !why.empty()) return why;
    const SignedBy by = signer.verify(envelope, at);
    if (!by.why.empty()) return concat("the entry is refused: ", by.why);
    if (by.who != client.who || by.serial != client.serial)
      return concat("the entry is signed with another certificate than that of the connection, of ", by.who.uri());
    return {};
  }

  [[nodiscard]] std::optional<Digest> before(LogIndex at) const {
    if (at == 0) return Digest{};
    const std::lock_guard lock(mutex);
    if (last_at + 1 != at) return std::nullopt;
    return last;
  }

  DecisionLog& log;
  const EnvelopeSigner signer;
  mutable std::mutex mutex{};
  LogIndex last_at = ~LogIndex{0} - 1;  ///< the newest index that was read
  Digest last{};                        ///< the digest of its text
};

REEF_INLINE AppendGate::AppendGate(const TlsFiles& files, DecisionLog& log)
    : state_(std::make_shared<State>(files, log)) {}

REEF_INLINE AppendGate::~AppendGate() = default;

REEF_INLINE void AppendGate::note(LogIndex at, std::string_view text) {
  const Digest digest = digest_of_text(text);
  const std::lock_guard lock(state_->mutex);
  state_->last_at = at;
  state_->last = digest;
}

REEF_INLINE void AppendGate::append(const ClientCertificate& client, LogIndex at, std::string text,
                                    std::function<void(ServedAnswer)> done) {
  LogEnvelope envelope;
  try {
    envelope = envelope_from_text(text);
  } catch (const Error& error) {
    return done(served_error(403, concat("the text is no entry: ", error.what()), "swarm::ChainedLog with keys."));
  }
  if (const std::string why = state_->refusal(client, at, envelope); !why.empty())
    return done(served_error(403, why, "an entry of this version, signed by the certificate's owner."));
  const auto follow = [state = state_, at, text = std::move(text), previous = envelope.previous,
                       done](const Digest& stands) {
    if (previous != stands) {
      return done(served_error(403, concat("the entry follows another one than stands at ", at - 1),
                               "read the log from its begin, and append what follows it."));
    }
    state->log.append(at, text, [done](const Appended& answer) { done(served_append(answer)); });
  };
  if (const std::optional<Digest> stands = state_->before(at)) return follow(*stands);
  state_->log.read(at - 1, [at, follow, done](const LogPage& page) {
    if (!page.answered) return done(served_page(page));
    if (!page.entries.empty()) return follow(digest_of_text(page.entries.front()));
    done(served_append({AppendOutcome::early, {}, concat("no entry stands at ", at - 1, " yet.")}));
  });
}

}  // namespace detail
}  // namespace swarm
}  // namespace v0
}  // namespace reef
