// Saving and resuming a Trainer's checkpoint: weights and AdamW's two moments, one rank. Files lie in
// TMPDIR; a checkpoint is two files of tensors and a manifest, each durable under its name.
//
//   save     roof: write() and fsync of as many bytes to one file; buffered: std::ofstream and no fsync,
//            which a power cut undoes
//   resume   roof: read() of as many bytes from one file in the page cache; mapped: copying them out of
//            a mapping, as a program does that reads tensors in place. Neither checks anything; resume
//            checks a CRC-32C of every tensor

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include <reef/comm/environment.hpp>
#include <reef/data/sampler.hpp>
#include <reef/device/host.hpp>
#include <reef/io/mapped_file.hpp>
#include <reef/nn/gpt.hpp>
#include <reef/optim/adamw.hpp>
#include <reef/optim/ddp.hpp>
#include <reef/trainer/checkpoint.hpp>
#include <reef/trainer/trainer.hpp>

#include "support/compare.hpp"
#include "support/files.hpp"

namespace {

using namespace reef;
using Tested = Trainer<optim::Ddp<optim::AdamW>>;

constexpr int rounds = 9;

struct Size {
  const char* name;
  int layers, channels;
};

const Size sizes[] = {{"small", 2, 64}, {"large", 4, 384}};

std::unique_ptr<Tested> trainer(const Size& size) {
  nn::GptConfig config;
  config.vocabulary = 256;
  config.layers = size.layers;
  config.heads = 4;
  config.channels = size.channels;
  config.context = 64;
  static const std::vector<std::uint8_t> text(1 << 12, 'x');
  const run::Source source = [sampler = data::Sampler(text, config.context, 3)](
                                 std::uint64_t first, std::span<const AnyView> inputs) {
    sampler.fill(first, inputs);
    return 1.0;
  };
  return std::make_unique<Tested>(nn::gpt<device::Host, float>(config, 1), source,
                                  Tested::Options{});
}

std::size_t bytes_below(const std::filesystem::path& folder) {
  std::size_t bytes = 0;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(folder)) {
    if (entry.is_regular_file()) bytes += entry.file_size();
  }
  return bytes;
}

void save(benchmark::State& state, const Size& size) {
  const reef_bench::Folder folder;
  const auto tested = trainer(size);
  const auto run = folder.path / "run";
  checkpoint::save(*tested, run);
  const std::vector<std::byte> raw(bytes_below(run), std::byte{1});
  reef_bench::compare(
      state, [&] { return reef_bench::seconds_of([&] { checkpoint::save(*tested, run); }); },
      {{"roof", [&] { return reef_bench::plain_write(folder.path / "roof", raw); }},
       {"buffered", [&] { return reef_bench::buffered_write(folder.path / "buffered", raw); }}},
      {.bytes = static_cast<double>(raw.size())});
}

void resume(benchmark::State& state, const Size& size) {
  const reef_bench::Folder folder;
  const auto tested = trainer(size);
  const auto run = folder.path / "run";
  checkpoint::save(*tested, run);
  std::vector<std::byte> raw(bytes_below(run), std::byte{1});
  const auto file = folder.path / "roof";
  reef_bench::plain_write(file, raw);
  reef_bench::compare(
      state, [&] { return reef_bench::seconds_of([&] { checkpoint::resume(*tested, run); }); },
      {{"roof", [&] { return reef_bench::plain_read(file, raw); }},
       {"mapped",
        [&] {
          return reef_bench::seconds_of([&] {
            const io::MappedFile mapped(file);
            std::memcpy(raw.data(), mapped.bytes().data(), raw.size());
          });
        }}},
      {.bytes = static_cast<double>(raw.size())});
}

void register_all() {
  for (const Size& size : sizes) {
    const std::string suffix = std::string("/") + size.name;
    reef_bench::add("save" + suffix, rounds, [&size](auto& state) { save(state, size); });
    reef_bench::add("resume" + suffix, rounds, [&size](auto& state) { resume(state, size); });
  }
}

}  // namespace

int main(int argc, char** argv) {
  const comm::Environment mpi(argc, argv);
  return reef_bench::run(argc, argv, register_all);
}
