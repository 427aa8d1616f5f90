#include <reef/trainer/model_state.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <reef/io/checksum.hpp>
#include <reef/optim/adamw.hpp>
#include <reef/optim/zero1.hpp>

#include "../support/small_gpt.hpp"

// What a rank keeps between steps, read and written as bytes with names.

namespace reef::test {

namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using Tested = Trainer<optim::Zero1<optim::AdamW>>;

/// The same, of parts joined.
std::uint32_t joined(const std::vector<std::uint32_t>& parts, std::int64_t first,
                     std::int64_t elements, Bytes width) {
  std::uint32_t all = 0;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    const std::int64_t end = first / ModelState::checksum_numbers * ModelState::checksum_numbers +
                             static_cast<std::int64_t>(i + 1) * ModelState::checksum_numbers;
    const std::int64_t begin = std::max(first, end - ModelState::checksum_numbers);
    const auto bytes = static_cast<Bytes>(std::min(end, first + elements) - begin) * width;
    all = i == 0 ? parts[0] : io::crc32c_joined(all, parts[i], bytes);
  }
  return all;
}

TEST(ModelState, has_checksums_of_parts_that_join_to_that_of_all) {
  const comm::Communicator world;
  auto trainer = small_trainer<Tested>(small_options<Tested>(), world);
  trainer.step();
  const ModelState& state = trainer.model_state();
  for (const graph::Parameter& parameter : trainer.plan().dag->parameters) {
    const std::vector<float> values = trainer.parameter(parameter.name);
    const auto bytes = std::as_bytes(std::span(values));
    EXPECT_EQ(state.checksum(parameter.name), io::crc32c(bytes)) << parameter.name;
    EXPECT_EQ(joined(state.checksums(parameter.name), 0, std::ssize(values), sizeof(float)),
              io::crc32c(bytes))
        << parameter.name;
  }
  EXPECT_FALSE(state.ranges().empty());
  for (const ModelState::Range& range : state.ranges()) {
    const std::vector<std::uint32_t> parts = state.checksums(range);
    const std::int64_t first = range.begin / ModelState::checksum_numbers;
    const std::int64_t last = (range.begin + range.elements - 1) / ModelState::checksum_numbers;
    EXPECT_EQ(std::ssize(parts), range.elements == 0 ? 0 : last - first + 1) << range.name;
    EXPECT_EQ(joined(parts, range.begin, range.elements, size_of(range.element)),
              state.checksum(range))
        << range.name;
  }
}

TEST(ModelState, is_told_after_each_update_as_it_is_then) {
  const comm::Communicator world;
  auto options = small_options<Tested>();
  std::vector<std::int64_t> steps;
  std::vector<std::uint32_t> told;
  const std::string name = "transformer.ln_f.weight";
  options.after_update = [&](std::int64_t committed, const ModelState& state) {
    steps.push_back(committed);
    told.push_back(state.checksum(name));
  };
  auto trainer = small_trainer<Tested>(options, world);
  std::vector<std::uint32_t> found;
  for (int step = 0; step < 3; ++step) {
    trainer.step();
    const std::vector<float> values = trainer.parameter(name);
    found.push_back(io::crc32c(std::as_bytes(std::span(values))));
  }
  EXPECT_THAT(steps, ElementsAre(1, 2, 3));
  EXPECT_EQ(told, found);
  EXPECT_NE(told[0], told[1]) << "the weights stay as they were";
}

TEST(ModelState, takes_numbers_of_a_parameter_and_of_a_range) {
  const comm::Communicator world;
  auto trainer = small_trainer<Tested>(small_options<Tested>(), world);
  ModelState& state = trainer.model_state();
  const std::string name = "transformer.ln_f.bias";
  const std::vector<float> two{3, 4};
  state.set_weights(name, 1, std::as_bytes(std::span(two)), Element::float32);
  const std::vector<float> values = trainer.parameter(name);
  EXPECT_THAT(std::vector(values.begin(), values.begin() + 3), ElementsAre(0, 3, 4));
  try {
    state.set_weights(name, std::ssize(values) - 1, std::as_bytes(std::span(two)),
                      Element::float32);
    ADD_FAILURE() << "no exception";
  } catch (const ShapeError& error) {
    EXPECT_THAT(error.what(), HasSubstr("'" + name + "' has"));
  }
  EXPECT_THROW(state.set_weights(name, 0, std::as_bytes(std::span(two)), Element::float64), OptionError)
      << "two floats are one double, but this model has none";
  EXPECT_THROW(state.set_weights(name, 0, std::as_bytes(std::span(two)).first(7), Element::float32), OptionError);
  for (const ModelState::Range& range : state.ranges()) {
    if (range.elements == 0) continue;
    const std::vector<std::byte> bytes(static_cast<std::size_t>(size_of(range.element)),
                                       std::byte{0x3f});
    state.write(range, range.bytes() - bytes.size(), bytes);
    std::vector<std::byte> room(bytes.size());
    const auto read = state.read(range, range.bytes() - bytes.size(), room);
    EXPECT_TRUE(std::equal(read.begin(), read.end(), bytes.begin())) << range.name;
    EXPECT_THROW(state.write(range, range.bytes(), bytes), ShapeError) << range.name;
  }
  trainer.step();  // weights are alike on all ranks
}

}  // namespace

}  // namespace reef::test
