// The two shards of a checkpoint, and what a trainer takes from them. The first line of an input is the
// header of the parameters, the rest that of the optimizer's state. All checksums are right, which
// hardly any change of a file leaves: what the headers say is all that there is to refuse.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <reef/trainer/detail/loader.hpp>

#include "../support/temporary_folder.hpp"
#include "safetensors_input.hpp"
#include "target.hpp"

namespace {

namespace io = reef::io;
using reef::Bytes;
using reef::Element;
using reef::Shape;
using reef::fuzz::demand;
using reef::optim::StateRange;

/// What a Loader needs of a trainer: two parameters, a state in two buckets, and one more, for a part of
/// the weights, that is not in the host's memory.
class Trainer {
public:
  using T = float;
  using Sum = float;

  Trainer() {
    reef::graph::Signature node;
    node.parameters = {{"w", {2, 3}, {}, false}, {"b", {4}, {}, false}};
    model_.dag_.add_node("node", "Node", {}, std::move(node), {"w", "b"});
    const auto add = [&](const char* name, std::int64_t begin, std::int64_t elements, Element of) {
      StateRange range;
      range.storage = static_cast<reef::run::StorageId>(ranges_.size());
      range.name = name;
      range.begin = begin;
      range.elements = elements;
      range.element = of;
      ranges_.push_back(range);
      states_.emplace_back(static_cast<std::size_t>(elements) * reef::size_of(of));
    };
    add("m", 0, 6, Element::float32);
    add("m", 6, 4, Element::float32);
    add("v", 3, 5, Element::float64);
    parameters_ = {std::vector<float>(6), std::vector<float>(4)};
  }

  [[nodiscard]] static bool holds(std::string_view /*name*/) { return true; }

  struct Model {
    reef::graph::Dag dag_;
    [[nodiscard]] const reef::graph::Dag& dag() const { return dag_; }
  };
  [[nodiscard]] const Model& model() const { return model_; }
  [[nodiscard]] const std::vector<StateRange>& state_ranges() const { return ranges_; }

  [[nodiscard]] std::byte* host_memory(const StateRange& range) {
    return range.name == "v" ? nullptr : state(range).data();
  }
  void set_state(const StateRange& range, Bytes offset, std::span<const std::byte> bytes) {
    demand(offset <= state(range).size() && bytes.size() <= state(range).size() - offset,
           "what is set is inside its range");
    std::memcpy(state(range).data() + offset, bytes.data(), bytes.size());
  }
  void set_parameter(std::string_view name, std::int64_t first, std::span<const float> values) {
    std::vector<float>& to = parameters_[static_cast<std::size_t>(model_.dag().parameter(name))];
    demand(first == 0 && values.size() == to.size(), "a small parameter comes in one piece");
    std::memcpy(to.data(), values.data(), values.size_bytes());
  }

  [[nodiscard]] std::vector<std::byte>& state(const StateRange& range) {
    return states_[static_cast<std::size_t>(range.storage)];
  }
  [[nodiscard]] std::vector<float>& parameter(std::size_t i) { return parameters_[i]; }

  [[nodiscard]] bool is_untouched() const {
    for (const auto& state : states_) {
      for (const std::byte byte : state) {
        if (byte != std::byte{0}) return false;
      }
    }
    for (const auto& parameter : parameters_) {
      for (const float value : parameter) {
        if (value != 0) return false;
      }
    }
    return true;
  }

private:
  Model model_;
  std::vector<StateRange> ranges_;
  std::vector<std::vector<std::byte>> states_;
  std::vector<std::vector<float>> parameters_;
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
void compare(const Checkpoint& checkpoint, Trainer& trainer) {
  const io::SafetensorsFile model(checkpoint.folder() / "model.safetensors");
  for (std::size_t i = 0; i < trainer.model().dag().parameters.size(); ++i) {
    const auto bytes =
        Checkpoint::bytes_of(model, model.at(trainer.model().dag().parameters[i].name));
    const std::vector<float>& values = trainer.parameter(i);
    demand(bytes.size() == values.size() * sizeof(float) &&
               std::memcmp(bytes.data(), values.data(), bytes.size()) == 0,
           "a parameter is the file's");
  }
  const io::SafetensorsFile file(checkpoint.folder() / "optimizer-0.safetensors");
  for (const StateRange& range : trainer.state_ranges()) {
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
        demand(std::memcmp(trainer.state(range).data() + static_cast<Bytes>(at) * width,
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
  Trainer trainer;
  reef::checkpoint::detail::Loader loader(trainer, trainer.state_ranges());
  std::vector<io::Shard> shards;
  const bool is_good = reef::fuzz::reads([&] {
    shards = {checkpoint.shard("optimizer-0.safetensors"), checkpoint.shard("model.safetensors")};
    loader.check_shards(checkpoint.folder(), shards, "the checkpoint", "one", "another");
  });
  demand(trainer.is_untouched(), "a check changes nothing");
  if (!is_good) return 0;
  loader.fill(checkpoint.folder(), shards);
  compare(checkpoint, trainer);
  return 0;
}
