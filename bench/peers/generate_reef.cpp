// Reads a prompt and continues it, by a model of Hugging Face's form: generate.py starts this beside llama.cpp.
//
//   peers-generate_reef-bench FOLDER FORM THREADS BATCHES PROMPT NEW     BATCHES: such as 1,4,16
//   peers-generate_reef-bench FOLDER FORM THREADS TEXT                   TEXT: such as 5,17,80, or the number of tokens to be drawn
//
// The second prints the text, the model's perplexity of its tokens behind the first, and the bits of a weight.
//
// Prints one JSON object: tokens/s of reading the prompt (of one sequence), GB/s that as many threads read from memory, the
// greedy tokens of a sequence; and by batch tokens/s of continuing so many sequences, and bytes that a pass reads.

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <span>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

#include <reef/core/error.hpp>
#include <reef/device/host.hpp>
#include <reef/io/json.hpp>
#include <reef/nn/generate.hpp>
#include <reef/nn/host.hpp>
#include <reef/nn/model_folder.hpp>
#include <reef/nn/session.hpp>

#include "support/measure.hpp"
#include "support/read_rate.hpp"

namespace {

using namespace reef;
using device::Host;
using Tokens = std::vector<std::int32_t>;

constexpr int rounds = 3;

/// Returns the GB/s at which the threads of a device read memory.
double read_rate(Host& host) {
  const reef_bench::Reading reading(host);
  Host::Lane lane(host, "read");
  double best = 0;
  lane.submit([&](Host::Lane& own) { best = reading.rate(own, rounds); });
  lane.synchronize();
  return best;
}

graph::WeightForm form_of(const std::string& name) {
  if (name == "fp32") return graph::WeightForm::as_given;
  if (name == "bf16") return graph::WeightForm::bf16;
  if (name == "int8") return graph::WeightForm::int8;
  if (name == "blockwise8") return graph::WeightForm::blockwise8;
  if (name == "nf4") return graph::WeightForm::nf4;
  throw OptionError("no form of weights: ", name, ".\n  fix: fp32, bf16, int8, blockwise8 or nf4.");
}

std::int32_t likeliest(std::span<const float> logits) {
  return static_cast<std::int32_t>(std::max_element(logits.begin(), logits.end()) - logits.begin());
}

/// Returns the numbers of a list such as 1,4,16.
std::vector<std::int64_t> numbers_of(const std::string& list) {
  std::vector<std::int64_t> numbers;
  std::istringstream words(list);
  for (std::string word; std::getline(words, word, ',');) numbers.push_back(std::stoll(word));
  return numbers;
}

/// A model whose weights have been read from a folder.
struct Model {
  Model(const std::string& folder, const std::string& form_name, int threads, nn::SessionOptions options)
      : host({.threads = threads}),
        graph(nn::model_of<Host, float>(folder, {.batch = 1, .sequence = 1}, threads)),
        session(host, graph, [&] {
          options.weights = form_of(form_name);
          options.outliers = options.weights == graph::WeightForm::int8 ? 1 : 0;  // as reef-generate
          return options;
        }()) {
    nn::read_weights<float>(folder, graph.dag(), [&](const std::string& name, const std::vector<float>& values) {
      session.set_parameter(name, values);
    });
  }

  Host host;
  graph::Graph<Host, float> graph;
  nn::Session<Host, float> session;
};

/// Returns the bytes of a device that are held by `name`.
Bytes bytes_of(const Host& host, std::string_view name) {
  for (const auto& [holder, bytes] : host.memory().holders) {
    if (holder == name) return bytes;
  }
  return 0;
}

int print_perplexity(const std::string& folder, const std::string& form, int threads, const std::string& list) {
  std::vector<std::int64_t> numbers = numbers_of(list);
  const bool draws = numbers.size() == 1;
  Model model(folder, form, threads, {.positions = draws ? numbers[0] : std::ssize(numbers), .sequences = 2});
  Tokens text(numbers.begin(), numbers.end());
  if (draws) {
    text = {17};
    const auto drawn = nn::generate(model.session, std::span(&text, 1), {.tokens = numbers[0] - 1, .temperature = 1});
    text.insert(text.end(), drawn[0].tokens.begin(), drawn[0].tokens.end());
  }
  const nn::Logits logits = model.session.append({{model.session.open(), text, true}});
  double loss = 0;
  for (std::size_t i = 0; i + 1 < text.size(); ++i) {
    const std::span<const float> row = logits.row(static_cast<std::int64_t>(i));
    const double largest = *std::max_element(row.begin(), row.end());
    double sum = 0;
    for (const float logit : row) sum += std::exp(logit - largest);
    loss += std::log(sum) - (row[static_cast<std::size_t>(text[i + 1])] - largest);
  }
  double parameters = 0;
  for (const auto& parameter : model.graph.dag().parameters) parameters += static_cast<double>(parameter.spec.shape.size());
  const io::Json answer{{"text", text},
                        {"perplexity", std::exp(loss / static_cast<double>(text.size() - 1))},
                        {"bits", 8 * static_cast<double>(bytes_of(model.host, "weights")) / parameters}};
  std::printf("%s\n", answer.dump().c_str());
  return 0;
}

int main_of(int argc, char** argv) {
  if (argc != 7 && argc != 5) {
    std::fprintf(stderr, "peers-generate_reef-bench FOLDER FORM THREADS BATCHES PROMPT NEW, or FOLDER FORM THREADS TEXT\n");
    return 2;
  }
  const std::string folder = argv[1];
  const int threads = std::atoi(argv[3]);
  if (argc == 5) return print_perplexity(folder, argv[2], threads, argv[4]);
  const std::vector<std::int64_t> batches = numbers_of(argv[4]);
  const std::int64_t largest = *std::max_element(batches.begin(), batches.end());
  const std::int64_t length = std::atoll(argv[5]);
  const std::int64_t added = std::atoll(argv[6]);

  Model model(folder, argv[2], threads, {.positions = length + added, .sequences = largest + 1});
  auto& [host, graph, session] = model;
  Tokens prompt(static_cast<std::size_t>(length));
  for (std::size_t i = 0; i < prompt.size(); ++i) {
    prompt[i] = static_cast<std::int32_t>((i * 7919 + 17) % static_cast<std::size_t>(session.vocabulary()));
  }

  std::vector<double> prefill;
  for (int round = 0; round < rounds; ++round) {
    const int sequence = session.open();
    prefill.push_back(reef_bench::seconds_of([&] { session.append({{sequence, prompt}}); }));
    session.close(sequence);
  }
  const Bytes weights = bytes_of(host, "weights");
  const Bytes pages = bytes_of(host, "pages of sequences");
  // A pass reads the weights, but one row of a table of tokens that is no head and of a table of positions, and of each
  // sequence what it holds of the pages.
  double parameters = 0;
  double table = 0;
  double positions = 0;  // bytes: this table is never packed
  bool own_head = false;
  for (const auto& parameter : graph.dag().parameters) {
    const auto size = static_cast<double>(parameter.spec.shape.size());
    parameters += size;
    if (parameter.name.ends_with("embed_tokens.weight")) table = size;
    if (parameter.name.ends_with("wpe.weight")) positions = size * sizeof(float);
    if (parameter.name == "lm_head.weight") own_head = true;
  }
  const double read = (static_cast<double>(weights) - positions) * (own_head ? 1 - table / parameters : 1);
  const double held = static_cast<double>(length + added / 2) / static_cast<double>((length + added + 63) / 64 * 64);
  const double cache = static_cast<double>(pages) / static_cast<double>(largest + 1) * held;  // of a sequence

  // Each sequence reads the prompt itself, so that none shares pages with another.
  std::vector<int> sequences;
  std::vector<Tokens> first;
  for (std::int64_t i = 0; i < largest; ++i) {
    sequences.push_back(session.open());
    first.push_back({likeliest(session.append({{sequences.back(), prompt}}).row(0))});
  }
  io::Json decode = io::Json::array();
  Tokens greedy;
  for (const std::int64_t batch : batches) {
    std::vector<Tokens> last(first.begin(), first.begin() + batch);
    greedy = last[0];
    std::vector<double> steps;
    for (std::int64_t step = 1; step < added; ++step) {
      std::vector<nn::Append> appends;
      for (std::size_t i = 0; i < last.size(); ++i) appends.push_back({sequences[i], last[i]});
      steps.push_back(reef_bench::seconds_of([&] {
        const nn::Logits logits = session.append(appends);
        for (std::size_t i = 0; i < last.size(); ++i) last[i][0] = likeliest(logits.row(static_cast<std::int64_t>(i)));
      }));
      greedy.push_back(last[0][0]);
    }
    for (const int sequence : sequences) session.truncate(sequence, length);
    decode.push_back({{"batch", batch},
                      {"decode_tps", static_cast<double>(batch) / reef_bench::median(steps)},
                      {"pass_bytes", read + cache * static_cast<double>(batch)}});
  }
  const io::Json answer{{"prefill_tps", static_cast<double>(length) / reef_bench::median(prefill)},
                        {"read_gbps", read_rate(host)},
                        {"greedy", greedy},
                        {"batches", decode}};
  std::printf("%s\n", answer.dump().c_str());
  return 0;
}

}  // namespace

int main(int argc, char** argv) try {
  return main_of(argc, argv);
} catch (const std::exception& error) {
  std::fprintf(stderr, "peers-generate_reef-bench: %s\n", error.what());
  return EXIT_FAILURE;
}
