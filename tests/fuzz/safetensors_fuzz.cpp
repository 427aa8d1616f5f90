// A safetensors file, all of its tensors, and what writing them again gives.
//
// An input that begins with '{' is a header alone: before it comes its length, and behind it as many
// zeros as its data_offsets end at, up to 4096. Any other input is the file.

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include <reef/io/safetensors.hpp>

#include "safetensors_input.hpp"
#include "target.hpp"

namespace {

namespace io = reef::io;

/// Reads the tensors that Reef computes with into views, and the others as bytes.
void read_all(const io::SafetensorsFile& file) {
  reef::Bytes next = 0;
  for (const io::StoredTensor& tensor : file.tensors()) {
    reef::fuzz::demand(tensor.begin == next && tensor.end <= file.size(),
                       "tensors lie side by side inside the file");
    reef::fuzz::demand(&file.at(tensor.name) == &tensor, "every tensor is found by its name");
    next = tensor.end;
    std::vector<std::byte> bytes(static_cast<std::size_t>(tensor.bytes()));
    file.read(tensor, bytes);
    if (tensor.dtype != "F32" || tensor.shape.size() > 2) continue;
    std::vector<float> values(bytes.size() / sizeof(float));
    if (tensor.shape.size() == 1) {
      file.read(tensor.name, reef::TensorView<float>(values.data(), {tensor.shape[0]}));
    }
    reef::fuzz::reads([&] {  // right for a scalar, which takes one element, alone
      std::vector<float> one(1);
      file.read(tensor.name, reef::TensorView<float>(one.data(), {1}));
    });
  }
}

}  // namespace

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static reef::fuzz::MemoryFile memory;
  const std::string_view input = reef::fuzz::text_of(data, size);
  memory.set(input.starts_with('{') ? reef::fuzz::whole_file(input) : std::string(input));
  reef::fuzz::reads([&] {
    const io::SafetensorsFile file(memory.path());
    read_all(file);
    reef::fuzz::reads([&] { (void)file.at("no such tensor"); });
  });
  return 0;
}
