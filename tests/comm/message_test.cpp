#include <reef/comm/message.hpp>

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <span>
#include <vector>

#include <gtest/gtest.h>

#include <reef/io/checksum.hpp>

namespace reef::comm {
namespace {

/// A message as it is awaited, and as it comes in.
struct Incoming : testing::Test {
  Incoming() {
    expected = Header::of(operation_id(Kind::receive, "activation"), 7, payload.size());
    expected.origin = {0x1122334455667788, 6, 9, 3, Direction::activation, 2};
    sent = expected;
    sent.checksum = io::crc32c(payload);
    sent.seal = seal_of(sent);
  }

  [[nodiscard]] Fault fault_of(std::span<const std::byte> message, bool checksummed = true) const {
    const auto head = message.first(std::min<std::size_t>(message.size(), header_bytes));
    return examine(expected, head, message.subspan(head.size()), checksummed);
  }

  /// With a right seal.
  [[nodiscard]] std::vector<std::byte> message_of(Header header) const {
    header.seal = seal_of(header);
    std::vector<std::byte> message(header_bytes + payload.size());
    std::memcpy(message.data(), &header, header_bytes);
    std::memcpy(message.data() + header_bytes, payload.data(), payload.size());
    return message;
  }

  std::vector<std::byte> payload = std::vector<std::byte>(48, std::byte{5});
  Header expected;
  Header sent;
};

TEST_F(Incoming, the_one_that_is_next_is_believed_whenever_it_arrives) {
  EXPECT_EQ(fault_of(message_of(sent)), Fault::none);
  sent.arrival = 1'000'000;
  EXPECT_EQ(fault_of(message_of(sent)), Fault::none);
  EXPECT_EQ(decode_header(message_of(sent)).header.arrival, 1'000'000);
}

TEST_F(Incoming, no_bit_may_be_another_one) {
  for (std::size_t at = 0; at < header_bytes + payload.size(); ++at) {
    for (int bit = 0; bit < 8; ++bit) {
      std::vector<std::byte> message = message_of(sent);
      message[at] ^= std::byte{static_cast<unsigned char>(1 << bit)};
      const Fault right = at < 2              ? Fault::foreign
                          : at == 2           ? Fault::version
                          : at < header_bytes ? Fault::header
                                              : Fault::payload;
      EXPECT_EQ(fault_of(message), right) << "bit " << bit << " of byte " << at;
    }
  }
}

TEST_F(Incoming, none_that_was_cut_or_has_more_behind_it_is_believed) {
  std::vector<std::byte> message = message_of(sent);
  for (std::size_t size = 0; size < message.size(); ++size) {
    EXPECT_EQ(fault_of(std::span(message).first(size)),
              size < 2 ? Fault::foreign : Fault::truncated)
        << size;
  }
  message.push_back(std::byte{0});
  EXPECT_EQ(fault_of(message), Fault::longer);
}

TEST_F(Incoming, none_that_belongs_elsewhere_is_believed_though_it_is_as_it_was_sent) {
  const auto with = [&](const auto& change) {
    Header other = sent;
    change(other);
    return fault_of(message_of(other));
  };
  EXPECT_EQ(with([](Header& h) { ++h.operation; }), Fault::unexpected);
  EXPECT_EQ(with([](Header& h) { --h.sequence; }), Fault::unexpected);
  EXPECT_EQ(with([](Header& h) { ++h.piece; }), Fault::unexpected);
  EXPECT_EQ(with([](Header& h) { ++h.codec; }), Fault::unexpected);
  EXPECT_EQ(with([](Header& h) { ++h.origin.plan; }), Fault::unexpected);
  EXPECT_EQ(with([](Header& h) { --h.origin.step; }), Fault::unexpected);
  EXPECT_EQ(with([](Header& h) { ++h.origin.round; }), Fault::unexpected);
  EXPECT_EQ(with([](Header& h) { ++h.origin.edge; }), Fault::unexpected);
  EXPECT_EQ(with([](Header& h) { ++h.origin.micro_batch; }), Fault::unexpected);
  EXPECT_EQ(with([](Header& h) { h.origin.direction = Direction::activation_gradient; }),
            Fault::unexpected);
  EXPECT_EQ(with([](Header& h) { h.bytes += 8; }), Fault::truncated);
  EXPECT_EQ(with([](Header& h) { h.bytes -= 8; }), Fault::longer);
  expected.bytes += 8;
  EXPECT_EQ(fault_of(message_of(sent)), Fault::unexpected) << "it is as long as it says";
}

TEST_F(Incoming, a_collective_has_no_checksum) {
  EXPECT_FALSE(has_checksum(Kind::all_reduce));
  EXPECT_EQ(fault_of(message_of(sent), false), Fault::payload);
  sent.checksum = 0;
  EXPECT_EQ(fault_of(message_of(sent), false), Fault::none);
  EXPECT_EQ(fault_of(message_of(sent)), Fault::payload);
}

TEST(Header, of_which_no_bit_is_known_may_have_any_direction) {
  EXPECT_EQ(name_of(Direction::activation_gradient), "activation gradient");
  EXPECT_EQ(name_of(static_cast<Direction>(200)), "unknown direction");
}

}  // namespace
}  // namespace reef::comm
