// Measures the links between all ranks of an MPI job and the speed of their devices, and writes them as a case
// that reef-plan and reef-train --network read.
//
//   mpiexec -n 4 build/release/examples/reef-measure --output network.json
//
// `reef-measure --help` lists everything.

#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <CLI/CLI.hpp>

#include <reef/comm/agreement.hpp>
#include <reef/comm/communicator.hpp>
#include <reef/comm/environment.hpp>
#include <reef/comm/gather.hpp>
#include <reef/comm/network_file.hpp>
#include <reef/comm/node_cores.hpp>
#include <reef/comm/progress.hpp>
#include <reef/core/text.hpp>
#include <reef/core/version.hpp>
#include <reef/io/atomic_file.hpp>
#include <reef/io/file.hpp>

#include "../support/earlier_files.hpp"
#include "../support/file_roles.hpp"
#include "../support/input_files.hpp"
#include "../support/model_shape.hpp"
#include "../support/number_option.hpp"
#include "../support/output_places.hpp"
#include "../support/progress.hpp"
#include "../support/standard_output.hpp"
#include "case_text.hpp"
#include "links.hpp"
#include "speeds.hpp"

namespace {

using namespace reef_examples;
using reef::concat;
namespace comm = reef::comm;

/// The exit status for options that cannot be.
constexpr int refused_status = 2;

struct Options {
  std::string output;
  std::string network;
  std::string model;
  std::vector<reef::Bytes> sizes{1 << 10, 1 << 12, 1 << 14, 1 << 16, 1 << 18, 1 << 20, 1 << 22};
  int repeats = 10;
  double seconds = 60;
  double deadline = 30;
  int threads = 0;
  bool links_only = false;
};

void add_options(CLI::App& app, Options& o) {
  app.add_option("--output", o.output,
                 "the file to write; default: standard output of rank 0. What an earlier run left "
                 "there is renamed");
  app.add_option("--network", o.network, "case file of a network to emulate")
      ->check(readable_file());
  app.add_option_function<std::vector<std::string>>(
         "--sizes",
         [&o](const std::vector<std::string>& lists) {
           o.sizes.clear();
           for (const std::string& list : lists) {
             for (const reef::Bytes size : numbers_of<reef::Bytes>(list)) o.sizes.push_back(size);
           }
         },
         "bytes of the messages, ascending, two at least: N N ... or N,N,...")
      ->transform(numbers_from<reef::Bytes>(8, reef::Bytes{1} << 30))
      ->default_str("1024,4096,16384,65536,262144,1048576,4194304");
  app.add_option("--repeats", o.repeats, "how often each size is sent, if there is time")
      ->transform(number_from<int>(1, 1'000'000))
      ->capture_default_str();
  app.add_option("--seconds", o.seconds,
                 "for all links together: where that is little, repeats are fewer and large sizes "
                 "are left out, but of two sizes a message is always sent")
      ->transform(number_from<double>(0, 1e9))
      ->capture_default_str();
  app.add_option("--model", o.model,
                 "LAYERSxHEADSxCHANNELS of a GPT, whose operators are to be timed too");
  app.add_option("--threads", o.threads,
                 "a rank; default: its cores, shared with the ranks bound to the same")
      ->transform(number_from<int>(1, 1024));
  app.add_option("--deadline", o.deadline, "seconds without a sign of a rank, 0 for none")
      ->transform(number_from<double>(0, 1e9))
      ->capture_default_str();
  app.add_flag("--links-only", o.links_only, "without the speeds of the devices");
  const std::vector<std::pair<const char*, std::vector<const char*>>> groups{
      {"What is written", {"--output"}},
      {"The job", {"--network", "--threads", "--deadline"}},
      {"Links", {"--sizes", "--repeats", "--seconds", "--links-only"}},
      {"Devices", {"--model"}}};
  for (const auto& [group, names] : groups) {
    for (const char* const name : names) app.get_option(name)->group(group);
  }
}

/// Throws CLI::ValidationError for what no run can be of.
std::optional<ModelShape> checked(const Options& o) {
  if (o.sizes.size() < 2 ||
      std::adjacent_find(o.sizes.begin(), o.sizes.end(), std::greater_equal<>()) != o.sizes.end()) {
    throw CLI::ValidationError("--sizes", "must be two at least, each above the one before");
  }
  std::optional<ModelShape> model;
  if (!o.model.empty()) {
    model = parse_model_shape(o.model);
    if (!model) throw CLI::ValidationError("--model", "must be LAYERSxHEADSxCHANNELS");
    if (o.links_only) throw CLI::ValidationError("--model", "is timed without --links-only");
  }
  FileRoles files;
  files.reads("--network", o.network);
  files.writes("--output", o.output);
  if (const auto clash = files.clash()) throw CLI::ValidationError(clash->first, clash->second);
  if (const auto why = in_the_way(Output::network, o.output))
    throw CLI::ValidationError("--output", *why);
  return model;
}

std::string host_name() {
  std::array<char, 256> name{};
  return ::gethostname(name.data(), name.size() - 1) == 0 ? name.data() : "unknown";
}

void require_same_options(comm::Progress& progress, const Options& o) {
  std::vector<comm::SharedFact> mine{
      {"version of reef-measure", std::string(reef::version)},
      {"--repeats", concat(o.repeats)},
      {"--seconds", concat(o.seconds)},
      {"--model", o.model},
      {"--links-only", o.links_only ? "given" : "not given"},
  };
  std::string sizes;
  for (const reef::Bytes size : o.sizes) sizes += concat(sizes.empty() ? "" : " ", size);
  mine.push_back({"--sizes", sizes});
  comm::require_alike(progress, "reef-measure", "command lines", mine,
                      "start every rank with the same options.");
}

/// Throws FileError on every rank where rank 0 cannot write the case: before it is measured. All ranks call it.
void require_output(comm::Progress& progress, const Options& o) {
  std::string problem;
  if (progress.rank() == 0 && !o.output.empty()) {
    try {
      require_room_in_file(o.output);
    } catch (const reef::FileError& error) {
      problem = error.what();
    }
  }
  problem = comm::broadcast_text(progress, "output that cannot be written", std::move(problem));
  if (problem.empty()) return;
  comm::barrier(progress, "the output is told");  // they end together
  throw reef::FileError(problem);
}

void measure(const Options& o, const std::optional<ModelShape>& model) {
  const comm::Communicator ranks;
  const int threads = o.threads > 0 ? o.threads : comm::share_of_cores(ranks);
  comm::ProgressOptions options;
  options.deadline = o.deadline;
  options.transport = comm::Transport::messages;
  if (!o.network.empty()) options.network = comm::read_network(o.network, ranks.size());
  comm::Progress progress(ranks, options);
  require_same_options(progress, o);
  require_output(progress, o);
  const bool tells = progress.rank() == 0;
  Progress bar;

  const std::string ranks_text = concat(ranks.size(), ranks.size() == 1 ? " rank" : " ranks");
  MeasuredCase measured;
  measured.note = concat(ranks_text, ", messages of ", o.sizes.front(), " to ",
                         o.sizes.back(), " bytes", o.network.empty() ? "" : ", emulated network");
  measured.names = unique_names(comm::gather_texts(progress, "host", host_name()));
  Speed own;
  if (!o.links_only) {
    if (tells) bar.show("measuring the devices");
    comm::barrier(progress, "before the devices");
    own = measure_speed(threads, model);
  }
  const auto begin = std::chrono::steady_clock::now();
  const Links links =
      measure_links(progress, {o.sizes, o.repeats, o.seconds}, [&](int round, int rounds) {
        const std::chrono::duration<double> so_far = std::chrono::steady_clock::now() - begin;
        bar.show(concat("measuring the links: round ", round + 1, " of ", rounds, ", ",
                        ranks.size() / 2, " pairs, ", clock_text(so_far.count())));
      });
  measured.matrices = {{"latency_ms", links.latencies, 1e-3},
                       {"bandwidth_gbps", links.rates, 1e9 / 8},
                       {"reciprocal_gbps", links.reciprocal_rates, 1e9 / 8}};
  if (!o.links_only) {
    measured.lists.push_back(
        {"device_flops", comm::gather_numbers(progress, "product", own.product)});
    measured.lists.push_back(
        {"device_memory_gbps", comm::gather_numbers(progress, "memory", own.memory), 1e9});
  }
  if (model) {
    measured.note += concat("; model_flops: of a GPT of ", o.model);
    measured.lists.push_back({"model_flops", comm::gather_numbers(progress, "model", own.model)});
  }
  if (!tells) return;
  if (ranks.size() == 1)
    bar.say("one rank alone has no links, and none was measured: mpiexec -n P starts P of them, one a machine");
  const std::string text = case_text(measured);
  if (o.output.empty()) {
    bar.finish();
    print(text, "the case");
    return;
  }
  std::string aside;
  try {
    aside = write_in_place(o.output, [&] { reef::io::write_atomically(o.output, text); });
  } catch (const reef::FileError&) {
    bar.finish();
    print(text, "the case");  // rather than lose it
    throw;
  }
  bar.say(concat("the network of ", ranks_text, " is in ", o.output, aside));
}

}  // namespace

int main(int argc, char** argv) {
  ::signal(SIGXFSZ, SIG_IGN);  // a file that may not grow is an error of that file, and what was measured is told
  Options options;
  std::optional<ModelShape> model;
  CLI::App app(
      "Measures the links between all ranks of an MPI job, and the speed of their devices: a case "
      "for reef-plan and reef-train --network.",
      "reef-measure");
  app.set_version_flag("--version", std::string("reef-measure ") + reef::version);
  app.footer(
      "One rank a machine: those of one share its network. The case has square matrices, from a "
      "row's device to a column's: latency_ms and bandwidth_gbps (10^9 bits per second), of a line "
      "through the least times of all sizes, and reciprocal_gbps, while as much goes the other "
      "way. By device: device_flops (operations per second of a matrix product), "
      "device_memory_gbps (GB/s), and with --model model_flops, of its operators, forward and "
      "backward.\n"
      "Status 0: all is done; 1: something failed, and is told; 2: options that cannot be.");
  try {
    add_options(app, options);
    app.parse(argc, argv);
    model = checked(options);
  } catch (const CLI::ParseError& error) {
    return reef_examples::end_parsing(app, error, refused_status,
                                      [](const std::string& text) { comm::report_failure(text); });
  }
  try {
    const comm::Environment environment(argc, argv);
    measure(options, model);
    return EXIT_SUCCESS;
  } catch (const std::exception& error) {
    return comm::report_failure("reef-measure", error);
  }
}
