#include <reef/trace/encoding.hpp>

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <span>
#include <string>
#include <vector>

#include <reef/core/random.hpp>
#include <reef/io/checksum.hpp>
#include <reef/trace/sink.hpp>

namespace {

using namespace reef;
using trace::Activity;

trace::Recording two_tracks() {
  trace::Sink sink(2);
  sink.track("compute").span(Activity::compute, "forward", 1, 2.5, 3, {.id = 5, .cause = 4});
  sink.track("send").span(Activity::communication, "send", 2, 3, 0,
                          {.message = 6, .role = trace::Role::sends});
  sink.track("send").span(Activity::wait, "", 3, 4);
  trace::Recording recording;
  sink.collect(recording);
  recording.dropped = 9;
  return recording;
}

/// Replaces the checksum by the right one, so that what lies behind it is what is tested.
std::vector<std::byte> sealed(std::vector<std::byte> bytes) {
  const std::uint32_t checksum = io::crc32c(std::span(bytes).first(bytes.size() - 4));
  std::memcpy(bytes.data() + bytes.size() - 4, &checksum, 4);
  return bytes;
}

TEST(Encoding, decoding_what_was_encoded_gives_the_same_recording) {
  const trace::Recording before = two_tracks();
  const trace::Recording after = trace::decode(trace::encode(before));
  EXPECT_EQ(after.rank, 2);
  EXPECT_EQ(after.dropped, 9U);
  EXPECT_EQ(after.tracks, before.tracks);
  EXPECT_EQ(after.names, before.names);
  ASSERT_EQ(after.spans.size(), before.spans.size());
  for (std::size_t i = 0; i < after.spans.size(); ++i) {
    const trace::Span& a = after.spans[i];
    const trace::Span& b = before.spans[i];
    EXPECT_EQ(a.begin, b.begin);
    EXPECT_EQ(a.end, b.end);
    EXPECT_EQ(a.bytes, b.bytes);
    EXPECT_EQ(a.message, b.message);
    EXPECT_EQ(a.id, b.id);
    EXPECT_EQ(a.cause, b.cause);
    EXPECT_EQ(a.name, b.name);
    EXPECT_EQ(a.track, b.track);
    EXPECT_EQ(a.activity, b.activity);
    EXPECT_EQ(a.role, b.role);
  }
  EXPECT_EQ(trace::encode(after), trace::encode(before));
}

TEST(Encoding, every_truncation_is_refused) {
  const std::vector<std::byte> whole = trace::encode(two_tracks());
  for (std::size_t size = 0; size < whole.size(); ++size) {
    std::vector<std::byte> part(whole.begin(), whole.begin() + static_cast<std::ptrdiff_t>(size));
    EXPECT_THROW(trace::decode(part), DecodeError) << size;
    if (size >= 4) {
      EXPECT_THROW(trace::decode(sealed(part)), DecodeError) << size;
    }
  }
}

TEST(Encoding, bytes_that_follow_are_refused) {
  std::vector<std::byte> bytes = trace::encode(two_tracks());
  bytes.push_back(std::byte{0});
  EXPECT_THROW(trace::decode(bytes), DecodeError);
  EXPECT_THROW(trace::decode(sealed(bytes)), DecodeError);
}

TEST(Encoding, every_flipped_bit_is_refused) {
  const std::vector<std::byte> whole = trace::encode(two_tracks());
  for (std::size_t bit = 0; bit < whole.size() * 8; ++bit) {
    std::vector<std::byte> bytes = whole;
    bytes[bit / 8] ^= static_cast<std::byte>(1U << (bit % 8));
    EXPECT_THROW(trace::decode(bytes), DecodeError) << bit;
  }
}

TEST(Encoding, a_message_that_lies_under_a_right_checksum_is_refused_or_stays_within_bounds) {
  const std::vector<std::byte> whole = trace::encode(two_tracks());
  int refused = 0;
  for (std::uint64_t trial = 0; trial < 20'000; ++trial) {
    std::vector<std::byte> bytes = whole;
    const DrawKey key{3, trial, 0, 0};
    for (std::uint64_t i = 0; i <= random_bits(key, 0) % 3; ++i) {
      bytes[random_bits(key, 2 * i + 1) % bytes.size()] =
          static_cast<std::byte>(random_bits(key, 2 * i + 2));
    }
    try {
      const trace::Recording recording = trace::decode(sealed(bytes));
      for (const trace::Span& span : recording.spans) {
        EXPECT_LT(static_cast<std::size_t>(span.name), recording.names.size());
        EXPECT_LT(span.track, recording.tracks.size());
        EXPECT_LT(static_cast<std::size_t>(span.role), trace::role_count);
      }
    } catch (const DecodeError&) {
      ++refused;
    }
  }
  EXPECT_GT(refused, 5'000);
}

TEST(Encoding, a_time_that_is_no_number_is_refused) {
  for (const double bad :
       {std::numeric_limits<double>::quiet_NaN(), std::numeric_limits<double>::infinity(), 1e300}) {
    trace::Recording recording = two_tracks();
    recording.spans[0].end = bad;
    EXPECT_THROW(trace::decode(trace::encode(recording)), DecodeError);
  }
}

TEST(Encoding, shifting_moves_all_spans_to_another_clock) {
  trace::Recording recording = two_tracks();
  trace::shift(recording, 100);
  EXPECT_EQ(recording.spans[0].begin, 101);
  EXPECT_EQ(recording.spans[0].end, 102.5);
  EXPECT_EQ(recording.spans[2].begin, 103);
}

}  // namespace
