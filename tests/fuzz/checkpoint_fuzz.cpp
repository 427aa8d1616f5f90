// The two shards of a checkpoint, and what a rank takes from them. The first line of an input is the
// header of the parameters, the rest that of the optimizer's state. All checksums are right, which
// hardly any change of a file leaves: what the headers say is all that there is to refuse.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <reef/io/manifest.hpp>
#include <reef/run/step_builder.hpp>
#include <reef/run/step_plan.hpp>
#include <reef/trainer/detail/loader.hpp>
#include <reef/trainer/model_state.hpp>

#include "../support/temporary_folder.hpp"
#include "safetensors_input.hpp"
#include "target.hpp"

namespace {

namespace io = reef::io;
using reef::Bytes;
using reef::Element;
using reef::Shape;
using reef::fuzz::demand;
using reef::run::StateRange;

/// A model of two parameters, a state in two buckets, and one more, for a part of the weights, that is not in the host's
/// memory.
class Target {
public:
  Target() {
    const auto add = [&](const char* name, std::int64_t begin, std::int64_t elements, Element of) {
      StateRange range;
      range.storage = static_cast<reef::run::StorageId>(first_of_state + ranges_.size());
      range.name = name;
      range.begin = begin;
      range.elements = elements;
      range.element = of;
      memory_[range.storage].resize(static_cast<std::size_t>(range.bytes()));
      ranges_.push_back(range);
    };
    add("m", 0, 6, Element::float32);
    add("m", 6, 4, Element::float32);
    add("v", 3, 5, Element::float64);
    for (reef::run::StorageId id = 0; id < builder_.program.storages.size(); ++id)
      memory_[id].resize(static_cast<std::size_t>(builder_.program.storages[id].bytes));
    reef::ModelState::Memory reached;
    reached.at = [this](reef::run::StorageId id) { return memory_.at(id).data(); };
    reached.on_host = [this](reef::run::StorageId id) { return id != ranges_.back().storage; };
    reached.copy = [this](void* to, const void* from, Bytes bytes, reef::device::Copy) {
      const std::vector<std::byte>& of = memory_.at(ranges_.back().storage);
      const auto* const begin = static_cast<const std::byte*>(to);
      demand(begin >= of.data() && begin + bytes <= of.data() + of.size(), "what is set is inside its range");
      std::memcpy(to, from, static_cast<std::size_t>(bytes));
    };
    state_.emplace(plan_, builder_, ranges_, reef::ModelState::Layout{}, std::move(reached), [](std::string_view) {});
  }

  [[nodiscard]] const reef::graph::Dag& dag() const { return dag_; }
  [[nodiscard]] reef::ModelState& state() { return *state_; }
  [[nodiscard]] const std::vector<std::byte>& memory(const StateRange& range) const { return memory_.at(range.storage); }

  [[nodiscard]] bool is_untouched() const {
    for (const auto& [id, bytes] : memory_) {
      for (const std::byte byte : bytes) {
        if (byte != std::byte{0}) return false;
      }
    }
    return true;
  }

private:
  static constexpr std::size_t first_of_state = 1000;

  static reef::graph::Dag model() {
    reef::graph::Dag dag;
    reef::graph::Signature node;
    node.outputs = {{Shape{}, Element::float32}};
    node.parameters = {{"w", {2, 3}, {}, false}, {"b", {4}, {}, false}};
    const int x = dag.add_input("x", {{4}, Element::float32});
    dag.set_loss(dag.node_at(dag.add_node("node", "Node", {x}, std::move(node), {"w", "b"})).outputs[0]);
    return dag;
  }

  reef::graph::Dag dag_ = model();
  reef::run::StepPlan plan_ = reef::run::make_step_plan(dag_, {0, dag_.node_count()}, reef::run::Topology(), 1, {1}, false);
  reef::run::StepBuilder builder_{plan_, 0, reef::run::Purpose::training};
  std::map<reef::run::StorageId, std::vector<std::byte>> memory_;
  std::vector<StateRange> ranges_;
  std::optional<reef::ModelState> state_;
};

/// A folder with the two shards that a header each says.
class Checkpoint {
public:
  Checkpoint() {
    std::filesystem::create_symlink(model_.path(), folder_ / "model.safetensors");
    std::filesystem::create_symlink(state_.path(), folder_ / "optimizer-0.safetensors");
  }
  [[nodiscard]] const std::filesystem::path& folder() const { return folder_.path(); }

  void set(std::string_view model, std::string_view state) {
    model_.set(with_data(model));
    state_.set(with_data(state));
  }

  /// What a manifest would say of a shard.
  [[nodiscard]] io::Shard shard(const std::string& name) const {
    const io::SafetensorsFile file(folder_ / name);
    io::Shard shard{name, file.size(), file.header_crc32c(), {}};
    for (const io::StoredTensor& tensor : file.tensors()) {
      shard.tensors.push_back({tensor.name, io::crc32c(bytes_of(file, tensor))});
    }
    return shard;
  }

  [[nodiscard]] static std::vector<std::byte> bytes_of(const io::SafetensorsFile& file,
                                                       const io::StoredTensor& tensor) {
    std::vector<std::byte> bytes(static_cast<std::size_t>(tensor.bytes()));
    file.read(tensor, bytes);
    return bytes;
  }

private:
  /// No byte of the data is zero, and neighbours differ.
  static std::string with_data(std::string_view header) {
    std::string file = reef::fuzz::whole_file(header);
    for (std::size_t i = sizeof(std::uint64_t) + header.size(); i < file.size(); ++i) {
      file[i] = static_cast<char>(1 + i % 251);
    }
    return file;
  }

  reef::test::TemporaryFolder folder_;
  reef::fuzz::MemoryFile model_;
  reef::fuzz::MemoryFile state_;
};

/// Element by element, what the files say is what the trainer has.
void compare(const Checkpoint& checkpoint, Target& target) {
  const io::SafetensorsFile model(checkpoint.folder() / "model.safetensors");
  for (const reef::graph::Parameter& parameter : target.dag().parameters) {
    const auto bytes = Checkpoint::bytes_of(model, model.at(parameter.name));
    std::vector<std::byte> room(static_cast<std::size_t>(parameter.spec.bytes()));
    const auto weights = target.state().weights(parameter.name, 0, room);
    demand(std::equal(bytes.begin(), bytes.end(), weights.begin(), weights.end()), "a parameter is the file's");
  }
  const io::SafetensorsFile file(checkpoint.folder() / "optimizer-0.safetensors");
  for (const StateRange& range : target.state().ranges()) {
    const Bytes width = reef::size_of(range.element);
    std::vector<bool> found(static_cast<std::size_t>(range.elements));
    for (const io::StoredTensor& tensor : file.tensors()) {
      const std::string stem = range.name + ".from.";
      if (!tensor.name.starts_with(stem) || tensor.shape.size() != 1) continue;
      const std::int64_t begin = std::stoll(tensor.name.substr(stem.size()));
      const auto bytes = Checkpoint::bytes_of(file, tensor);
      for (std::int64_t at = 0; at < range.elements; ++at) {
        const std::int64_t of_tensor = range.begin + at - begin;
        if (of_tensor < 0 || of_tensor >= tensor.shape[0]) continue;
        demand(!found[static_cast<std::size_t>(at)], "an element of the state is there once");
        found[static_cast<std::size_t>(at)] = true;
        demand(std::memcmp(target.memory(range).data() + static_cast<Bytes>(at) * width,
                           bytes.data() + static_cast<Bytes>(of_tensor) * width, width) == 0,
               "an element of the state is the file's");
      }
    }
    for (const bool is_there : found) demand(is_there, "every element of the state is there");
  }
}

}  // namespace

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static Checkpoint checkpoint;
  const std::string_view input = reef::fuzz::text_of(data, size);
  const std::size_t line = std::min(input.find('\n'), input.size());
  checkpoint.set(input.substr(0, line), input.substr(std::min(line + 1, input.size())));
  Target target;
  reef::checkpoint::detail::Loader loader(target.dag(), target.state(), target.state().ranges());
  std::vector<io::Shard> shards;
  const bool is_good = reef::fuzz::reads([&] {
    shards = {checkpoint.shard("optimizer-0.safetensors"), checkpoint.shard("model.safetensors")};
    loader.check_shards(checkpoint.folder(), shards, "the checkpoint", "one", "another");
  });
  demand(target.is_untouched(), "a check changes nothing");
  if (!is_good) return 0;
  loader.fill(checkpoint.folder(), shards);
  compare(checkpoint, target);
  return 0;
}
