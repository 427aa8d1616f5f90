#include <reef/swarm/net/frame.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <reef/core/error.hpp>
#include <reef/core/random.hpp>
#include <reef/io/checksum.hpp>

namespace {

using namespace reef;
using swarm::Frame;
using swarm::FrameDecoder;
using swarm::FrameFault;
using swarm::FrameHeader;
using swarm::FrameKind;

std::vector<std::byte> random_message(std::uint64_t seed, std::size_t size) {
  std::vector<std::byte> bytes(size);
  for (std::size_t i = 0; i < size; ++i) bytes[i] = static_cast<std::byte>(random_bits({seed, 0, 0, 0}, i));
  return bytes;
}

struct ReadFrames {
  std::vector<Frame> frames{};
  FrameFault fault = FrameFault::none;
  std::string why{};
  bool inside = false;
  Bytes most_held = 0;
};

ReadFrames read_all(std::span<const std::byte> bytes, std::size_t part, swarm::FrameLimits limits = {}) {
  FrameDecoder decoder(limits);
  ReadFrames read;
  while (!bytes.empty()) {
    std::span<const std::byte> now = bytes.first(std::min(part, bytes.size()));
    bytes = bytes.subspan(now.size());
    while (!now.empty() && decoder.fault() == FrameFault::none) {
      now = now.subspan(decoder.read(now));
      if (decoder.has_frame()) read.frames.push_back(decoder.take());
      read.most_held = std::max(read.most_held, decoder.held());
    }
  }
  read.fault = decoder.fault();
  read.why = decoder.why();
  read.inside = decoder.is_inside();
  return read;
}

/// Writes frames as one connection sends them.
struct Written {
  std::vector<std::byte> bytes{};
  std::vector<std::size_t> begins{};  ///< of frames and slices

  Written& add(const Frame& frame, std::uint32_t total = 0) {
    if (frame.kind != FrameKind::bulk) {
      begins.push_back(bytes.size());
      append_frame(bytes, frame, next(), total);
      return *this;
    }
    for (Bytes at = 0; at < frame.size();) at += slice(frame, at);
    return *this;
  }

  Bytes slice(const Frame& frame, Bytes at) {
    begins.push_back(bytes.size());
    return append_slice(bytes, frame, next(), at);
  }

  [[nodiscard]] std::uint32_t next() const { return static_cast<std::uint32_t>(begins.size()) - 1; }

  [[nodiscard]] std::vector<std::byte> frame(std::size_t i) const {
    const std::size_t end = i + 1 < begins.size() ? begins[i + 1] : bytes.size();
    return {bytes.begin() + static_cast<std::ptrdiff_t>(begins[i]), bytes.begin() + static_cast<std::ptrdiff_t>(end)};
  }
};

/// Bytes of a header that is sealed, whatever its fields are.
std::vector<std::byte> sealed(FrameHeader header, std::span<const std::byte> payload = {}) {
  header.seal = io::crc32c(std::as_bytes(std::span(&header, 1)).first(60));
  const auto head = std::as_bytes(std::span(&header, 1));
  std::vector<std::byte> bytes(head.begin(), head.end());
  bytes.insert(bytes.end(), payload.begin(), payload.end());
  return bytes;
}

Written conversation() {
  Written written;
  const Frame part = Frame::bulk({1, 7, 12, 3, 99}, random_message(1, 200000));
  const Frame result = Frame::bulk({2, 8, 12, 3, 99}, random_message(2, 65472));
  written.add(Frame::control(FrameKind::beat, R"({"count": 3})", {0, 0, 12, 3, 99}));
  Bytes at = written.slice(part, 0);
  written.add(Frame::control(FrameKind::offer, "{\"numbers\": \"" + std::string(60000, 'x') + "\"}"));
  at += written.slice(part, at);
  written.slice(result, 0);
  written.add(Frame{FrameKind::credit, {.stream = 5}, {}, {}}, 4321);
  at += written.slice(part, at);
  written.slice(part, at);
  written.add(Frame::control(FrameKind::leave, "{}"));
  return written;
}

void expect_conversation(const ReadFrames& read) {
  ASSERT_EQ(read.fault, FrameFault::none) << read.why;
  ASSERT_EQ(read.frames.size(), 6U);
  EXPECT_FALSE(read.inside);
  EXPECT_EQ(read.frames[0].kind, FrameKind::beat);
  EXPECT_EQ(read.frames[0].text, R"({"count": 3})");
  EXPECT_EQ(read.frames[0].head, (swarm::FrameHead{0, 0, 12, 3, 99}));
  EXPECT_EQ(read.frames[1].text.size(), 60000U + 15);
  EXPECT_EQ(*read.frames[2].bytes, random_message(2, 65472));
  EXPECT_EQ(read.frames[2].head, (swarm::FrameHead{2, 8, 12, 3, 99}));
  EXPECT_EQ(read.frames[3].kind, FrameKind::credit);
  EXPECT_EQ(*read.frames[4].bytes, random_message(1, 200000));
  EXPECT_EQ(read.frames[5].kind, FrameKind::leave);
}

TEST(SwarmFrame, of_bulk_begins_with_its_text_and_takes_no_more_memory_than_its_bytes) {
  for (const std::size_t before : {0U, 32U, 65472U, 70000U}) {
    SCOPED_TRACE(before);
    const std::vector<std::byte> shared = random_message(1, 140000);
    Written written;
    written.add(Frame::bulk({.stream = 1}, std::make_shared<const std::vector<std::byte>>(shared),
                            std::string(before, 'x')));
    std::vector<std::byte> expected(before, std::byte{'x'});
    expected.insert(expected.end(), shared.begin(), shared.end());
    const ReadFrames read = read_all(written.bytes, 1000);
    ASSERT_EQ(read.frames.size(), 1U) << read.why;
    EXPECT_EQ(*read.frames[0].bytes, expected);
    EXPECT_EQ(read.frames[0].bytes->capacity(), expected.size());
  }
}

TEST(SwarmFrame, arrives_whole_however_the_bytes_are_cut) {
  const Written written = conversation();
  for (const std::size_t part : {1U, 2U, 63U, 64U, 65U, 1000U, 65472U, 65536U, 10000000U}) {
    SCOPED_TRACE(part);
    expect_conversation(read_all(written.bytes, part));
  }
}

TEST(SwarmFrame, that_is_cut_off_is_no_fault_but_unfinished) {
  const Written written = conversation();
  for (std::size_t size = 1; size < written.bytes.size(); size += 1009) {
    const ReadFrames read = read_all(std::span(written.bytes).first(size), 100000);
    EXPECT_EQ(read.fault, FrameFault::none);
    EXPECT_LT(read.frames.size(), 6U);
  }
  EXPECT_TRUE(read_all(std::span(written.bytes).first(10), 100).inside);
  const ReadFrames between = read_all(std::span(written.bytes).first(written.begins[2]), 100000);
  EXPECT_TRUE(between.inside) << "a bulk message has begun";
}

TEST(SwarmFrame, with_any_damaged_bit_is_refused_and_nothing_of_it_is_delivered) {
  Written written;
  written.add(Frame::control(FrameKind::beat, R"({"count": 3})"));
  written.add(Frame::bulk({1, 7, 12, 3, 99}, random_message(3, 100)));
  for (std::size_t bit = 0; bit < 8 * written.bytes.size(); ++bit) {
    std::vector<std::byte> damaged = written.bytes;
    damaged[bit / 8] ^= std::byte{1} << bit % 8;
    const ReadFrames read = read_all(damaged, 1000);
    const bool first = bit / 8 < written.begins[1];
    const std::size_t at = bit / 8 - (first ? 0 : written.begins[1]);
    ASSERT_EQ(read.frames.size(), first ? 0U : 1U) << bit;
    const FrameFault expected = at < 2    ? FrameFault::foreign
                                : at == 2 ? FrameFault::version
                                : at < 64 ? FrameFault::header
                                          : FrameFault::payload;
    ASSERT_EQ(read.fault, expected) << "byte " << at << ": " << read.why;
    ASSERT_FALSE(read.why.empty());
  }
}

TEST(SwarmFrame, that_is_doubled_lost_or_reordered_is_named_by_its_number) {
  const Written written = conversation();
  for (std::size_t i = 0; i < written.begins.size(); ++i) {
    std::vector<std::byte> doubled(written.bytes.begin(),
                                   written.bytes.begin() + static_cast<std::ptrdiff_t>(written.begins[i]));
    std::vector<std::byte> lost = doubled;
    for (int times = 0; times < 2; ++times) {
      const auto frame = written.frame(i);
      doubled.insert(doubled.end(), frame.begin(), frame.end());
    }
    const ReadFrames twice = read_all(doubled, 100000);
    EXPECT_EQ(twice.fault, FrameFault::sequence);
    EXPECT_NE(twice.why.find("has the number " + std::to_string(i)), std::string::npos) << twice.why;
    if (i + 1 == written.begins.size()) break;
    const auto frame = written.frame(i + 1);
    lost.insert(lost.end(), frame.begin(), frame.end());
    EXPECT_EQ(read_all(lost, 100000).fault, FrameFault::sequence);
  }
}

TEST(SwarmFrame, of_any_wrong_field_is_refused_although_it_is_sealed) {
  const auto fault_of = [](FrameHeader header) { return read_all(sealed(header), 100).fault; };
  FrameHeader beat;
  beat.kind = FrameKind::beat;
  beat.bytes = 4097;
  EXPECT_EQ(fault_of(beat), FrameFault::length);
  beat.bytes = 0xffffffff;
  EXPECT_EQ(fault_of(beat), FrameFault::length);
  beat.bytes = 0;
  EXPECT_EQ(fault_of(beat), FrameFault::text) << "empty text is no object";
  beat.total = 1;
  EXPECT_EQ(fault_of(beat), FrameFault::header);
  beat.total = 0;
  beat.offset = 1;
  EXPECT_EQ(fault_of(beat), FrameFault::header);
  beat.offset = 0;
  beat.reserved = 1;
  EXPECT_EQ(fault_of(beat), FrameFault::header);
  beat.reserved = 0;
  for (const int kind : {0, 5, 15, 25, 63, 65, 255}) {
    beat.kind = static_cast<FrameKind>(kind);
    EXPECT_EQ(fault_of(beat), FrameFault::kind) << kind;
  }
  FrameHeader bulk;
  bulk.kind = FrameKind::bulk;
  EXPECT_EQ(fault_of(bulk), FrameFault::total);
  bulk.total = 0xffffffff;
  bulk.bytes = 65472;
  EXPECT_EQ(fault_of(bulk), FrameFault::total);
  bulk.total = 65472;
  bulk.bytes = 65471;
  EXPECT_EQ(fault_of(bulk), FrameFault::slice);
  bulk.bytes = 65473;
  EXPECT_EQ(fault_of(bulk), FrameFault::length);
  bulk.bytes = 65472;
  bulk.offset = 65472;
  EXPECT_EQ(fault_of(bulk), FrameFault::slice);
}

TEST(SwarmFrame, slices_that_do_not_continue_their_message_are_refused) {
  const Frame message = Frame::bulk({.stream = 1, .round = 4}, random_message(4, 200000));
  const Frame other = Frame::bulk({.stream = 1, .round = 5}, random_message(4, 200000));
  const Frame shorter = Frame::bulk({.stream = 1, .round = 4}, random_message(4, 150000));
  for (const auto& [second, at] : std::vector<std::pair<const Frame*, Bytes>>{
           {&other, 65472}, {&shorter, 65472}, {&message, 0}, {&message, 130944}}) {
    Written written;
    written.slice(message, 0);
    written.slice(*second, at);
    const ReadFrames read = read_all(written.bytes, 100000);
    EXPECT_EQ(read.fault, FrameFault::slice);
    EXPECT_TRUE(read.frames.empty());
  }
}

TEST(SwarmFrame, a_length_reserves_nothing_and_unfinished_messages_are_bounded) {
  const Bytes limit = 8_MiB;
  const Frame message = Frame::bulk({.stream = 1}, random_message(5, limit));
  Written written;
  written.slice(message, 0);
  EXPECT_LT(read_all(written.bytes, 100000, {.message = limit}).most_held, 200000U);
  EXPECT_EQ(read_all(written.bytes, 100000, {.message = limit - 1}).fault, FrameFault::total);
  Written many;
  for (std::uint32_t stream = 0; stream < 4; ++stream) {
    Frame of_stream = message;
    of_stream.head.stream = stream;
    many.slice(of_stream, 0);
  }
  EXPECT_EQ(read_all(many.bytes, 100000, {.message = limit, .streams = 4}).fault, FrameFault::none);
  EXPECT_EQ(read_all(many.bytes, 100000, {.message = limit, .streams = 3}).fault, FrameFault::streams);
}

TEST(SwarmFrame, text_that_is_no_json_object_is_refused) {
  for (const std::string text : {"", "null", "[]", "{", "{}x", R"({"a": 1, "a": 2})", "{\"a\": \"\xff\"}"}) {
    Written written;
    written.add(Frame::control(FrameKind::beat, text));
    const ReadFrames read = read_all(written.bytes, 100);
    EXPECT_EQ(read.fault, FrameFault::text) << text;
    EXPECT_TRUE(read.frames.empty());
  }
  std::string deep = "0";
  for (int i = 0; i < 17; ++i) deep = "{\"a\":" + deep + "}";
  EXPECT_EQ(read_all(Written().add(Frame::control(FrameKind::beat, deep)).bytes, 100).fault, FrameFault::text);
}

TEST(SwarmFrame, noise_and_splices_never_pass_as_frames) {
  const Written written = conversation();
  const auto good = read_all(written.bytes, 100000).frames;
  for (std::uint64_t seed = 0; seed < 3000; ++seed) {
    std::vector<std::byte> bytes = written.bytes;
    const auto draw = [&](std::uint64_t i, std::uint64_t below) { return random_bits({seed, 9, 0, 0}, i) % below; };
    const std::size_t at = draw(0, bytes.size());
    const std::size_t size = 1 + draw(1, 200);
    if (seed % 3 == 0) {  // noise over bytes
      for (std::size_t i = at; i < std::min(at + size, bytes.size()); ++i) {
        bytes[i] ^= static_cast<std::byte>(1 + draw(i, 255));
      }
    } else if (seed % 3 == 1) {  // bytes are missing
      const std::size_t end = std::min(at + size, bytes.size());
      bytes.erase(bytes.begin() + static_cast<std::ptrdiff_t>(at), bytes.begin() + static_cast<std::ptrdiff_t>(end));
    } else {  // bytes are inserted
      const auto noise = random_message(seed, size);
      bytes.insert(bytes.begin() + static_cast<std::ptrdiff_t>(at), noise.begin(), noise.end());
    }
    const ReadFrames read = read_all(bytes, 1 + draw(2, 70000));
    ASSERT_LT(read.frames.size(), 6U) << seed;
    ASSERT_TRUE(read.fault != FrameFault::none || read.inside) << seed;
    for (std::size_t i = 0; i < read.frames.size(); ++i) {
      ASSERT_EQ(read.frames[i].text, good[i].text) << seed;
      if (good[i].bytes != nullptr) {
        ASSERT_EQ(*read.frames[i].bytes, *good[i].bytes) << seed;
      }
    }
    if (seed % 3 == 1) continue;
    ASSERT_EQ(read_all(random_message(seed, size), 64).frames.size(), 0U);
  }
}

TEST(SwarmFrame, too_long_control_is_not_written) {
  std::vector<std::byte> out;
  EXPECT_THROW(append_frame(out, Frame::control(FrameKind::beat, std::string(4097, ' ')), 0), OptionError);
  EXPECT_THROW(append_frame(out, Frame::control(FrameKind::offer, std::string(65537, ' ')), 0), OptionError);
  EXPECT_THROW(append_frame(out, Frame::bulk({}, random_message(1, 1)), 0), OptionError);
  EXPECT_THROW(append_slice(out, Frame::bulk({}, random_message(1, 1)), 0, 1), OptionError);
  EXPECT_THROW(append_slice(out, Frame::bulk({}, swarm::SharedBytes()), 0, 0), OptionError);
  EXPECT_TRUE(out.empty());
}

}  // namespace
