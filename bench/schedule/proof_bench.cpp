// What it takes to prove the programs of many ranks: of pipelines of 1F1B with replicas, as plain data; see
// pipeline_programs.hpp. As many replicas as stages. Times are what a
// processor spends, on one core.
//
//   rank       what each rank does of its own: placing its program, proving it by itself, its skeleton as bytes,
//              its hash, and the program of the rank behind it, built and hashed
//       bytes    of the skeleton; peak_MB: of the heap
//       roof     copying the program: each instruction is touched once
//   together   what rank 0 does for all: decoding the skeletons and proving them together
//       MB       of all skeletons; peak_MB: of the heap, with these
//       roof     copying the skeletons' bytes
//   The rival of both is `whole`, where the machine has the memory and the time: what every rank did before, building
//   the programs of all ranks, placing and hashing them, and proving all instructions together.

#include <malloc.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <functional>
#include <map>
#include <new>
#include <span>
#include <string>
#include <vector>

#include <reef/schedule/hash.hpp>
#include <reef/schedule/skeleton_encoding.hpp>
#include <reef/schedule/skeleton_of.hpp>
#include <reef/schedule/verify.hpp>

#include "../../tests/schedule/rendezvous_graph.hpp"
#include "pipeline_programs.hpp"
#include "support/compare.hpp"

namespace {

std::size_t live_bytes = 0;
std::size_t peak_bytes = 0;

void* counted(void* memory) {
  if (memory == nullptr) throw std::bad_alloc();
  live_bytes += malloc_usable_size(memory);
  peak_bytes = std::max(peak_bytes, live_bytes);
  return memory;
}

}  // namespace

void* operator new(std::size_t size) { return counted(std::malloc(size)); }
void operator delete(void* memory) noexcept {
  if (memory != nullptr) live_bytes -= malloc_usable_size(memory);
  std::free(memory);
}
void operator delete(void* memory, std::size_t) noexcept { operator delete(memory); }

namespace {

using namespace reef;
using reef_bench::PipelineStep;
using schedule::Program;

/// The most that an action had of the heap beside what was there before, in MB.
double peak_of(const std::function<void()>& action) {
  const std::size_t before = live_bytes;
  peak_bytes = before;
  action();
  return static_cast<double>(peak_bytes - before) * 1e-6;
}

std::uint64_t hash_of(const Program& program) { return schedule::hash_of(std::span(&program, 1)); }

std::string prove_own(const Program& program, int ranks) {
  const schedule::Placement placement = schedule::place(program);
  schedule::verify_rank(program, placement, ranks);
  return schedule::encode(schedule::skeleton_of(program, schedule::derive(program, placement)));
}

void do_own_part(const PipelineStep& step, const Program& own) {
  benchmark::DoNotOptimize(prove_own(own, step.ranks()).data());
  benchmark::DoNotOptimize(hash_of(own) + hash_of(step.program((own.rank + 1) % step.ranks())));
}

void prove_together(const std::vector<std::string>& texts) {
  std::vector<schedule::Skeleton> skeletons;
  for (const std::string& text : texts) {
    skeletons.push_back(schedule::decode_skeleton(text, static_cast<int>(texts.size())));
  }
  schedule::verify_together(skeletons);
}

void do_the_whole(const PipelineStep& step) {
  std::vector<Program> programs;
  for (int rank = 0; rank < step.ranks(); ++rank) programs.push_back(step.program(rank));
  std::vector<schedule::Dependencies> dependencies;
  for (const Program& program : programs) {
    const schedule::Placement placement = schedule::place(program);
    schedule::verify_rank(program, placement, step.ranks());
    dependencies.push_back(schedule::derive(program, placement));
  }
  test::reference::RendezvousGraph(programs, dependencies).check();
  benchmark::DoNotOptimize(schedule::hash_of(programs));
}

/// Of a processor: others may run beside.
std::function<double()> timed(const std::function<void()>& work) {
  return [work] {
    const double begin = reef_bench::processor_seconds();
    work();
    return reef_bench::processor_seconds() - begin;
  };
}

/// What a rank did before: measured once for each case, since it takes long.
struct Whole {
  double seconds = 0;
  double megabytes = 0;
};
const Whole& whole_of(const PipelineStep& step, const std::string& name) {
  static std::map<std::string, Whole> known;
  const auto [entry, is_new] = known.try_emplace(name);
  if (is_new) {
    entry->second.megabytes =
        peak_of([&] { entry->second.seconds = timed([&] { do_the_whole(step); })(); });
  }
  return entry->second;
}

void add_case(int side, int micro_batches, bool posted) {
  const PipelineStep step{side, side, micro_batches, posted};
  const std::string name = std::string(posted ? "/posted" : "/held") +
                           "/ranks:" + std::to_string(step.ranks()) +
                           "/micro_batches:" + std::to_string(micro_batches);
  const auto contenders = [=](const std::function<void()>& roof) {
    std::vector<reef_bench::Contender> all{{"roof", timed(roof)}};
    if (step.ranks() * micro_batches <= 32768) {
      all.push_back({"whole", [=] { return whole_of(step, name).seconds; }});
    }
    return all;
  };
  reef_bench::add("rank" + name, 3, [=](benchmark::State& state) {
    const Program own = step.program(side / 2);  // in the middle of a pipeline
    reef_bench::compare(state, timed([&] { do_own_part(step, own); }), contenders([&] {
                          const Program copy = own;
                          benchmark::DoNotOptimize(copy.round.data());
                        }),
                        {.items = static_cast<double>(own.round.size())});
    state.counters["bytes"] = static_cast<double>(prove_own(own, step.ranks()).size());
    state.counters["peak_MB"] = peak_of([&] { do_own_part(step, own); });
  });
  reef_bench::add("together" + name, 3, [=](benchmark::State& state) {
    std::vector<std::string> texts;
    double bytes = 0;
    for (int rank = 0; rank < step.ranks(); ++rank) {
      texts.push_back(prove_own(step.program(rank), step.ranks()));
      bytes += static_cast<double>(texts.back().size());
    }
    const auto all = contenders([&] {
      const auto copy = texts;
      benchmark::DoNotOptimize(copy.data());
    });
    reef_bench::compare(state, timed([&] { prove_together(texts); }), all, {.bytes = bytes});
    state.counters["MB"] = bytes * 1e-6;
    state.counters["peak_MB"] = bytes * 1e-6 + peak_of([&] { prove_together(texts); });
    if (all.size() > 1) state.counters["whole_MB"] = whole_of(step, name).megabytes;
  });
}

void register_all() {
  for (const bool posted : {true, false}) {
    for (const int side : {8, 16, 32}) {
      for (const int micro_batches : {32, 64, 256, 1024}) add_case(side, micro_batches, posted);
    }
  }
}

}  // namespace

int main(int argc, char** argv) { return reef_bench::run(argc, argv, register_all); }
