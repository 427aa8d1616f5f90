// A message that another rank sent, held against one that is awaited: as it came, with the seal that it should have, and
// with the header that is awaited.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <vector>

#include <reef/comm/message.hpp>
#include <reef/io/checksum.hpp>

#include "target.hpp"

namespace {

using namespace reef;
using reef::fuzz::demand;
using Message = std::vector<std::byte>;

/// As a receiver has it: apart, and of no more than came.
comm::Fault fault_of(const comm::Header& expected, std::span<const std::byte> message) {
  const auto head = message.first(std::min<std::size_t>(message.size(), comm::header_bytes));
  return comm::examine(expected, head, message.subspan(head.size()), true);
}

void receive(const comm::Header& expected, std::span<const std::byte> message) {
  const comm::Decoded decoded = comm::decode_header(message);
  const comm::Fault fault = fault_of(expected, message);
  if (decoded.fault != comm::Fault::none) {
    demand(fault == decoded.fault, "what cannot be read is not believed");
    demand(message.size() >= comm::header_bytes || fault != comm::Fault::header, "what was cut is no bit's fault");
    const comm::Header nothing;
    comm::Header said = decoded.header;
    said.version = 0;
    demand(std::memcmp(&said, &nothing, sizeof said) == 0, "of what cannot be read the version alone is said");
    return;
  }
  demand(message.size() >= comm::header_bytes &&
             std::memcmp(&decoded.header, message.data(), comm::header_bytes) == 0,
         "what was read has the bytes that it came from");
  demand(!name_of(decoded.header.origin.direction).empty(), "every direction has a name");
  if (fault != comm::Fault::none) return;
  // Of what is believed no bit but those of the arrival could have been another one.
  comm::Header sent = expected;
  sent.arrival = decoded.header.arrival;
  sent.checksum = io::crc32c(message.subspan(comm::header_bytes));
  sent.seal = comm::seal_of(sent);
  demand(message.size() == comm::header_bytes + expected.bytes &&
             std::memcmp(&sent, message.data(), comm::header_bytes) == 0,
         "what is believed is what was awaited");
}

Message with_header(const comm::Header& header, std::span<const std::byte> payload) {
  Message message(comm::header_bytes + payload.size());
  std::memcpy(message.data(), &header, comm::header_bytes);
  std::copy(payload.begin(), payload.end(), message.begin() + comm::header_bytes);
  return message;
}

}  // namespace

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto input = std::as_bytes(std::span(data, size));
  // What most of the corpus is.
  comm::Header expected = comm::Header::of(
      comm::operation_id(comm::Kind::receive, "activation 3 'layer1.act' of micro-batch 2"), 7, 16);
  expected.origin = {0x1122334455667788, 7, 8, 3, comm::Direction::activation, 2};
  receive(expected, input);
  if (size < comm::header_bytes) return 0;
  const auto payload = input.subspan(comm::header_bytes);
  comm::Header header;
  std::memcpy(&header, input.data(), sizeof header);
  header.seal = comm::seal_of(header);
  receive(expected, with_header(header, payload));
  header.magic = comm::Header::magic_number;
  header.version = comm::Header::current_version;
  header.seal = comm::seal_of(header);
  receive(header, with_header(header, payload));

  expected.bytes = static_cast<std::uint32_t>(payload.size());
  comm::Header sent = expected;
  sent.arrival = header.arrival;
  sent.checksum = io::crc32c(payload);
  sent.seal = comm::seal_of(sent);
  const Message message = with_header(sent, payload);
  receive(expected, message);
  demand(fault_of(expected, message) == comm::Fault::none, "the message that is awaited is believed");
  // Any byte of it that is another one, which the input chooses, any cut and any addition is found.
  const std::size_t at = header.operation % message.size();
  Message other = message;
  other[at] ^= std::byte{static_cast<unsigned char>(1U << header.piece % 8)};
  demand(fault_of(expected, other) != comm::Fault::none, "a bit that is another one is found");
  demand(fault_of(expected, std::span(message).first(at)) != comm::Fault::none, "what was cut is found");
  other = message;
  other.push_back(std::byte{0});
  demand(fault_of(expected, other) == comm::Fault::longer, "what was added is found");
  return 0;
}
