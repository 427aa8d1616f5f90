// Purpose  The program of a step, printed: what rank 0 of 2 does under Zero1, reads -> writes, with + for what it accumulates into;
//          and when, as it is foreseen, in a picture if a name for it is given (docs/concepts.md).
// Command  build/release/examples/print-program [timeline.svg]
// links: reef::compiled
// prints: source   Batch:  -> x v0, labels v0, loss weight v0
// prints: compute  Forward(0): weights 0 v0, x v0 -> h v0, saved of segment 0 v0
// prints: compute  Forward(1): weights 1 v0, labels v0, h v0 -> loss v0, saved of segment 1 v0
// prints: compute  Backward(1): weights 1 v0, labels v0, h v0, saved of segment 1 v0, loss weight v0 -> gradient of h v0, gradients 1 v0
// prints: compute  Backward(0): weights 0 v0, x v0, saved of segment 0 v0, gradient of h v0 -> gradients 0 v0
// prints: reduce   ReduceScatter(1): gradients 1 v0 -> gradient shard 1 v0
// prints: reduce   ReduceScatter(0): gradients 0 v0 -> gradient shard 0 v0
// prints: compute  Norms(0): gradient shard 0 v0 -> sums of squares 0 v0
// prints: compute  Norms(1): gradient shard 1 v0 -> sums of squares 1 v0
// prints: reduce   Scalars: loss v0, loss weight v0, sums of squares 0 v0, sums of squares 1 v0 -> scalars v0
// prints: reduce   Decide: scalars v0 -> verdict v0
// prints: compute  Update(0): gradient shard 0 v0, verdict v0, weights 0 v0 -> weight shard 0 v1 + state.0 of weights 0 v0, state.1 of weights 0 v0
// prints: reduce   GatherWeights(0): weight shard 0 v1 -> weights 0 v1
// prints: compute  Update(1): gradient shard 1 v0, verdict v0, weights 1 v0 -> weight shard 1 v1 + state.0 of weights 1 v0, state.1 of weights 1 v0
// prints: reduce   GatherWeights(1): weight shard 1 v1 -> weights 1 v1
// prints: a step takes 11.73 ms
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <exception>
#include <fstream>
#include <string>
#include <string_view>
#include <vector>

#include <reef/nn/cross_entropy.hpp>
#include <reef/nn/gelu.hpp>
#include <reef/nn/linear.hpp>
#include <reef/optim/adamw.hpp>
#include <reef/optim/zero1.hpp>
#include <reef/schedule/simulate.hpp>
#include <reef/trainer/trainer.hpp>

using namespace reef;
using MyTrainer = Trainer<optim::Zero1<optim::AdamW>>;

/// Two segments: h = gelu(x first), and loss = cross entropy(h second).
graph::Graph<device::Host, float> model() {
  graph::Graph<device::Host, float> g(1);
  const int x = g.input("x", {{64, 512}, Element::float32}),
            labels = g.input("labels", {{64}, Element::int32});
  const int h = g.add("gelu", nn::Gelu{}, {g.add("first", nn::Linear{512}, {x})[0]})[0];
  g.rename(h, "h");
  g.loss(g.add("loss", nn::CrossEntropy{}, {g.add("second", nn::Linear{512}, {h})[0], labels})[0]);
  return g;
}

/// Without the micro-batch, which there is one of, and without the scratch memory of operators.
std::string names(const schedule::Program& program, const std::vector<schedule::Value>& values) {
  std::string all;
  for (const schedule::Value& value : values) {
    const std::string& name = program.storages[value.storage].name;
    if (name.find("workspace") != std::string::npos) continue;
    all += concat(all.empty() ? "" : ", ", name.substr(0, name.find(" of micro-batch")), " v",
                  value.version);
  }
  return all;
}

/// The letter of an instruction, and its number where it has one.
std::string label(const schedule::Instruction& instruction) {
  return instruction.kind.substr(0, 1) +
         (instruction.index < 0 ? "" : std::to_string(instruction.index));
}

/// Two rows, of the lanes compute and reduce, to scale over an axis in ms; each instruction by its label, which is above where
/// there is no room inside.
void draw(const char* file, const schedule::Program& program,
          const schedule::Simulation& foreseen) {
  double end = 0;
  for (const schedule::SimulatedSpan& span : foreseen.spans)
    end = std::max(end, span.rank == 0 && span.round == 0 ? span.end : 0);
  const auto place = [&](double seconds) { return std::lround(seconds / end * 720); };
  std::ofstream svg(file);
  svg << "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 820 144\" "
         "font-family=\"sans-serif\" font-size=\"12\" fill=\"#1f2937\" role=\"img\" "
         "aria-labelledby=\"title\">\n"
         "<title id=\"title\">Rank 0 of 2 over a step: what runs on the lanes compute and reduce, "
         "and when</title>\n"
         "<rect width=\"820\" height=\"144\" fill=\"#fff\"/>\n<text x=\"8\" "
         "y=\"41\">compute</text><text x=\"8\" y=\"97\">reduce</text>\n";
  std::string narrow[2];  // of each lane, and where the first of them begins
  long begins[2] = {0, 0};
  for (const schedule::SimulatedSpan& span : foreseen.spans) {
    const schedule::Instruction& i = program.round[span.instruction];
    const long x = 80 + place(span.begin), width = place(span.end - span.begin);
    if (span.rank > 0 || span.round > 0 || width == 0) continue;
    const bool computes = i.lane == schedule::Lane::compute;
    const char* const colour = !computes                  ? "#86efac"
                               : i.kind.ends_with("ward") ? "#93c5fd"
                                                          : "#fcd34d";
    svg << "<rect x=\"" << x << "\" y=\"" << (computes ? 22 : 78) << "\" width=\"" << width
        << "\" height=\"30\" fill=\"" << colour << "\" stroke=\"#6b7280\"><title>" << i.text()
        << "</title></rect>\n";
    if (width > 16) {
      svg << "<text x=\"" << x + 3 << "\" y=\"" << (computes ? 41 : 97) << "\">" << label(i)
          << "</text>\n";
    } else {
      std::string& all = narrow[computes ? 0 : 1];
      if (all.empty()) begins[computes ? 0 : 1] = x;
      all += concat(all.empty() ? "" : " ", label(i));
    }
  }
  for (const int lane : {0, 1})
    svg << "<text x=\"" << begins[lane] << "\" y=\"" << (lane == 0 ? 17 : 73) << "\">"
        << narrow[lane] << "</text>\n";
  svg << "<path d=\"M80 118H800\" stroke=\"#6b7280\"/>\n";
  for (int ms = 0; ms <= 1e3 * end; ms += 2)
    svg << "<path d=\"M" << 80 + place(1e-3 * ms) << " 118v4\" stroke=\"#6b7280\"/><text x=\""
        << 80 + place(1e-3 * ms) << "\" y=\"136\" text-anchor=\"middle\">" << ms
        << (ms == 0 ? " ms" : "") << "</text>\n";
  svg << "</svg>\n";
}

int main(int argc, char** argv) try {
  MyTrainer::Options options;
  options.cuts = {2};
  const auto programs = MyTrainer::programs(model(), options, 2);
  for (const schedule::Instruction& i : programs[0].round) {
    const std::string sums = names(programs[0], i.accumulates), waits = names(programs[0], i.after),
                      index = i.index < 0 ? "" : concat("(", i.index, ")");
    std::printf("%-8s %s%s: %s -> %s%s%s%s%s\n", std::string(name_of(i.lane)).c_str(),
                i.kind.c_str(), index.c_str(), names(programs[0], i.reads).c_str(),
                names(programs[0], i.writes).c_str(), sums.empty() ? "" : " + ", sums.c_str(),
                waits.empty() ? "" : ", after ", waits.c_str());
  }
  const auto world =
      schedule::World::uniform(2, {.flops_per_second = 2e10, .memory_bytes_per_second = 1e10},
                               {.latency = 1e-4, .bytes_per_second = 1.25e9});
  const schedule::Simulation foreseen = schedule::simulate(programs, world);
  std::printf("a step takes %.2f ms on two machines of 20 GFLOP/s\n", 1e3 * foreseen.step);
  if (argc > 1) draw(argv[1], programs[0], foreseen);
} catch (const std::exception& error) {
  std::fprintf(stderr, "print-program: %s\n", error.what());
  return 1;
}
