// A safetensors file, all of its tensors, and what writing them again gives.
//
// An input that begins with '{' is a header alone: before it comes its length, and behind it as many
// zeros as its data_offsets end at, up to 4096. Any other input is the file.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>
#include <vector>

#include <reef/io/safetensors.hpp>

#include "target.hpp"

namespace {

namespace io = reef::io;

constexpr std::size_t most_zeros = 4096;

/// The largest number between a comma and a bracket, as the end of data_offsets is.
std::size_t largest_end(std::string_view header) {
  std::size_t largest = 0;
  for (std::size_t at = header.find(','); at < header.size(); at = header.find(',', at)) {
    std::size_t number = 0;
    for (++at; at < header.size() && header[at] >= '0' && header[at] <= '9'; ++at) {
      number = std::min(10 * number + static_cast<std::size_t>(header[at] - '0'), most_zeros + 1);
    }
    if (at < header.size() && header[at] == ']' && number <= most_zeros) {
      largest = std::max(largest, number);
    }
  }
  return largest;
}

std::string whole_file(std::string_view header) {
  const std::uint64_t length = header.size();
  std::string file(sizeof(length), '\0');
  std::memcpy(file.data(), &length, sizeof(length));
  file += header;
  file.append(largest_end(header), '\0');
  return file;
}

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
  memory.set(input.starts_with('{') ? whole_file(input) : std::string(input));
  reef::fuzz::reads([&] {
    const io::SafetensorsFile file(memory.path());
    read_all(file);
    reef::fuzz::reads([&] { (void)file.at("no such tensor"); });
  });
  return 0;
}
