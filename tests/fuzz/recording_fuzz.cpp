// A recording that another rank sent: as it came, and with the checksum that it should have.

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <vector>

#include <reef/trace/encoding.hpp>

#include "target.hpp"

namespace {

void decode(std::span<const std::byte> bytes) {
  reef::fuzz::reads([&] {
    const reef::trace::Recording recording = reef::trace::decode(bytes);
    for (const reef::trace::Span& span : recording.spans) {
      reef::fuzz::demand(!recording.tracks.at(span.track).empty() ||
                             !recording.name_of(span).empty() ||
                             reef::trace::name_of(span.activity) != "?",
                         "every index is in range");
    }
    const std::vector<std::byte> again = reef::trace::encode(recording);
    reef::fuzz::demand(
        again.size() == bytes.size() && std::memcmp(again.data(), bytes.data(), bytes.size()) == 0,
        "what was decoded has the bytes that it came from");
  });
}

}  // namespace

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto input = std::as_bytes(std::span(data, size));
  decode(input);
  if (size < sizeof(std::uint32_t)) return 0;
  std::vector<std::byte> corrected(input.begin(), input.end());
  const auto body = std::span(corrected).first(size - sizeof(std::uint32_t));
  const std::uint32_t checksum = reef::io::crc32c(body);
  std::memcpy(corrected.data() + body.size(), &checksum, sizeof(checksum));
  decode(corrected);
  return 0;
}
