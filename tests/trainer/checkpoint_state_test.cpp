// An optimizer's state, of which a checkpoint's files have parts: any parts that make a whole, and no others.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <reef/comm/mpi.hpp>
#include <reef/io/manifest.hpp>
#include <reef/optim/adamw.hpp>
#include <reef/optim/zero1.hpp>
#include <reef/trainer/checkpoint.hpp>

#include "../support/small_gpt.hpp"

namespace reef::test {

namespace {

using StateTrainer = Trainer<optim::Zero1<optim::AdamW>>;

/// Elements [first, second) of what a tensor of a shard holds.
using Part = std::pair<std::int64_t, std::int64_t>;

/// Writes a shard once more, as `name`, with the tensor of that number in parts.
io::Shard in_parts(const std::filesystem::path& folder, const io::Shard& shard, std::size_t number,
                   const std::vector<Part>& parts, const std::string& name) {
  const io::CheckedShard whole(folder, shard);
  std::vector<std::vector<float>> values;
  std::vector<io::NamedView> views;
  for (const io::StoredTensor& tensor : whole.file().tensors()) {
    std::vector<float>& of_tensor = values.emplace_back(static_cast<std::size_t>(tensor.shape.at(0)));
    whole.read(tensor.name, {of_tensor.data(), Shape{tensor.shape[0]}, Element::float32});
    if (values.size() - 1 != number) {
      views.push_back({tensor.name, {of_tensor.data(), Shape{tensor.shape[0]}, Element::float32}});
      continue;
    }
    const std::size_t digits = tensor.name.rfind('.') + 1;
    const std::int64_t begin = std::stoll(tensor.name.substr(digits));
    for (const auto& [from, to] : parts) {
      views.push_back({tensor.name.substr(0, digits) + std::to_string(begin + from),
                       {of_tensor.data() + from, Shape{to - from}, Element::float32}});
    }
  }
  return io::write_safetensors(folder / name, views);
}

}  // namespace

TEST(CheckpointState, is_taken_in_any_parts_and_refused_where_an_element_is_missing_or_there_twice) {
  const SharedFolder folder("state-parts");
  const comm::Communicator world;
  StateTrainer trainer = small_trainer<StateTrainer>(uneven_options<StateTrainer>(), world);
  outcome_of(trainer, 2);
  const std::filesystem::path place = checkpoint::save(trainer, folder.path());
  const auto undisturbed = outcome_of(trainer, 1);
  const io::Manifest good = io::read_manifest(place);
  std::size_t shard = 0;
  while (good.shards.at(shard).file != "optimizer-0.safetensors") ++shard;
  const io::CheckedShard saved(place, good.shards[shard]);
  const std::span<const io::StoredTensor> tensors = saved.file().tensors();
  ASSERT_FALSE(tensors.empty());

  struct Case {
    const char* what;
    std::vector<Part> parts;
    bool is_whole;
  };
  for (const std::size_t number : {std::size_t{0}, tensors.size() - 1}) {
    const std::int64_t n = tensors[number].shape.at(0);
    ASSERT_GE(n, 4) << tensors[number].name;
    for (const auto& [what, parts, is_whole] :
         {Case{"in three parts, the last of them first", {{3, n}, {0, 1}, {1, 3}}, true},
          Case{"without its last element", {{0, n - 1}}, false},
          Case{"without its first element", {{1, n}}, false},
          Case{"without one in the middle", {{0, 2}, {3, n}}, false},
          Case{"with its last element twice", {{0, n}, {n - 1, n}}, false},
          Case{"with its second element twice", {{0, 2}, {1, n}}, false},
          Case{"nowhere", {}, false}}) {
      SCOPED_TRACE(tensors[number].name + " " + what);
      MPI_Barrier(MPI_COMM_WORLD);
      if (world.rank() == 0) {
        io::Manifest manifest = good;
        manifest.shards[shard] = in_parts(place, good.shards[shard], number, parts, "optimizer-0.1.safetensors");
        io::write_manifest(place, manifest);
      }
      MPI_Barrier(MPI_COMM_WORLD);
      StateTrainer resumed = small_trainer<StateTrainer>(uneven_options<StateTrainer>(), world);
      std::string refusal;
      try {
        checkpoint::resume(resumed, folder.path());
      } catch (const FileError& error) {
        refusal = error.what();
      }
      if (is_whole) {
        EXPECT_EQ(refusal, "");
        EXPECT_EQ(outcome_of(resumed, 1), undisturbed);
      } else {
        const std::string stem = tensors[number].name.substr(0, tensors[number].name.find(".from."));
        EXPECT_THAT(refusal, testing::HasSubstr("there is no whole '" + stem + "'"));
      }
    }
  }
}

}  // namespace reef::test
