#pragma once

#include <string>
#include <string_view>

#include <reef/io/json.hpp>
#include <reef/swarm/core/entry.hpp>
#include <reef/swarm/core/ledger.hpp>
#include <reef/swarm/core/message.hpp>

namespace reef {
inline namespace v0 {
namespace swarm {

/// Returns an entry as the text that stands in the log: one JSON object with the key "kind".
std::string to_text(const Entry& entry);

/// Returns the entry that a text of the log says. Never throws: a text that is no entry is `Unreadable`, on every
/// reader alike.
///
/// \code
/// const swarm::Entry entry = swarm::entry_from_text("{}");
/// const bool readable = !std::holds_alternative<swarm::Unreadable>(entry.what);  // false: it has no author
/// \endcode
Entry entry_from_text(std::string_view text);

/// Returns the identity that a text such as "garage/5eed" says. Throws DecodeError, naming `source`, for any other
/// text.
PeerId peer_id_from_text(std::string_view text, std::string_view source);

/// Returns a control message as JSON. Of a request for missing pieces (Want, WantState) the JSON has at most the first
/// 250 pieces, since the message must fit in a network frame; the sender asks for the others later.
io::Json to_json(const Beat& beat);
io::Json to_json(const Offer& offer);
io::Json to_json(const Want& want);
io::Json to_json(const WantState& want);

/// Return the message that JSON says. Throw DecodeError for values of other types or beyond their range.
Beat beat_from_json(const io::Json& json);
Offer offer_from_json(const io::Json& json);
Want want_from_json(const io::Json& json);
WantState want_state_from_json(const io::Json& json);

/// Returns the account of a ledger as JSON: the numbers of committed indices, holes and quarantined ones, which add
/// up to `open`, the first index that nobody has taken; `retried`, how many holes another peer tries again; and the
/// rounds with the indices of each contributor.
io::Json to_json(const Ledger& ledger);

}  // namespace swarm
}  // namespace v0
}  // namespace reef

#ifndef REEF_COMPILED
#include <reef/swarm/core/entry_json.ipp>
#endif
