// Every policy of an axis with every one of each other: what runs has the bits that it is to have, and what is refused says
// why. docs/pairs.md is what this program says of itself.

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdlib>
#include <fstream>
#include <initializer_list>
#include <iterator>
#include <map>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include <reef/codec/blockwise8.hpp>
#include <reef/codec/error_feedback.hpp>
#include <reef/codec/top_k.hpp>
#include <reef/comm/communicator.hpp>
#include <reef/comm/mpi.hpp>
#include <reef/compress/kinds.hpp>
#include <reef/core/kinds.hpp>
#include <reef/core/text.hpp>
#include <reef/optim/diloco.hpp>
#include <reef/pipeline/kinds.hpp>
#include <reef/plan/pipeline_schedules.hpp>
#include <reef/swap/atom.hpp>
#include <reef/swap/layer_streaming.hpp>
#include <reef/swap/paper_atom.hpp>
#include <reef/trace/span.hpp>
#include <reef/trainer/checkpoint.hpp>

#include "../support/same_bits.hpp"
#include "../support/overlapping_trainers.hpp"
#include "../support/small_gpt.hpp"
#include "any_policies.hpp"
#include "recipes.hpp"

namespace reef::test {
namespace {

namespace pairs {

using namespace test::pairs;
using optim::AdamW;

constexpr int steps = 4;

/// REEF_PAIRS: "all" for every cell, not the sample alone; or a part of the names of some. Then each is resumed, too.
std::string asked_for() {
  const char* const asked = std::getenv("REEF_PAIRS");
  return asked != nullptr ? asked : "";
}

nn::GptConfig config() {
  nn::GptConfig config = small_config();
  config.layers = 3;
  config.dropout = 0.2F;
  return config;
}

/// What a run leaves behind on a rank: losses and norms of its replica, and all weights.
struct Trained {
  std::vector<double> numbers{};
  std::vector<float> weights{};
};

template <class TrainerType>
void go_on(TrainerType& trainer, int count, Trained& trained) {
  for (int step = 0; step < count; ++step) {
    const StepResult done = trainer.step();
    trained.numbers.push_back(done.loss);
    trained.numbers.push_back(done.gradient_norm);
  }
}

template <class TrainerType>
void add_weights(TrainerType& trainer, Trained& trained) {
  trainer.gather_committed_weights();
  for (const graph::Parameter& parameter : trainer.model().dag().parameters) {
    const std::vector<float> values = trainer.gather_parameter(parameter.name);
    trained.weights.insert(trained.weights.end(), values.begin(), values.end());
  }
}

/// How a recipe is spread: replicas of stages, with so many micro-batches each.
struct Spread {
  int replicas = 1;
  int stages = 1;

  [[nodiscard]] int count(int replica) const { return stages == 3 ? 3 : replica == 0 || stages > 1 ? 4 : 2; }
  [[nodiscard]] std::vector<int> counts() const {
    std::vector<int> all;
    for (int replica = 0; replica < replicas; ++replica) all.push_back(count(replica));
    return all;
  }
};

Spread spread_of(const Recipe& recipe) {
  const int ranks = world_size();
  if (recipe.pipeline == "Single") return {ranks, 1};
  if (updates_within(recipe.pipeline) || ranks < 4) return {1, ranks};
  return {ranks / 2, 2};
}

template <class TrainerType>
void set_common(typename TrainerType::Options& options) {
  options = small_options<TrainerType>();
  if constexpr (requires { options.optim.every; }) options.optim.every = 2;
}

profile::Network network_of(int ranks) { return profile::Network::uniform(ranks, 0, 1e7); }

template <class Options>
void set_compress(Options& options, const std::string& name) {
  const auto is = [&name](const char* text) { return name == text; };
  const Chosen top_k = Chosen::of("top-k:4"), blockwise8 = Chosen::of("blockwise8:64"), feedback = Chosen::of("ef+top-k:4");
  if (name.starts_with("Everywhere")) {
    options.kind = CompressKind::everywhere;
    options.activation = is("Everywhere<TopK>") ? top_k : is("Everywhere<Blockwise8>") ? blockwise8 : feedback;
    options.activation_gradient = options.gradient = options.parameter = options.pseudo_gradient = options.activation;
  }
  if (is("Channels<Activation<TopK>>")) options.activation = top_k;
  if (is("Channels<ActivationGradient<Blockwise8>>")) options.activation_gradient = blockwise8;
  if (is("Channels<Gradient<ErrorFeedback<TopK>>>")) options.gradient = feedback;
  if (is("Channels<Parameter<Blockwise8>>")) options.parameter = blockwise8;
  if (is("Channels<PseudoGradient<ErrorFeedback<TopK>>>")) options.pseudo_gradient = feedback;
  if (is("AdaTopK")) {
    options.kind = CompressKind::ada_top_k;
    options.activation = top_k;
    options.activation_gradient = Chosen::of("dense");
    options.one_mask = true;
  }
}

/// The policies of a recipe, of this rank.
template <class TrainerType>
typename TrainerType::Options options_of_recipe(const Recipe& recipe, const Spread& spread) {
  typename TrainerType::Options options;
  set_common<TrainerType>(options);
  options.topology = run::Topology(spread.replicas, spread.stages);
  options.micro_batches = {spread.count(options.topology->replica_of(std::min(world_rank(), options.topology->ranks() - 1)))};
  options.pipeline.name = recipe.pipeline;
  if (recipe.pipeline == "Ordered") options.pipeline.order = plan::gpipe_order(spread.stages, spread.count(0));
  set_compress(options.compress, recipe.compress);
  if (options.compress.kind == CompressKind::ada_top_k) options.network = network_of(options.topology->ranks());
  if (updates_within(recipe.pipeline)) {
    options.non_finite = optim::NonFinite::ignore;
    options.clip_norm = 0;
  }
  if (recipe.swap == "Resident") return options;
  options.device.link_bytes_per_second = 4e9;
  options.device.poison_freed = true;
  if (recipe.pipeline != "Ordered") options.pipeline.unit = updates_within(recipe.pipeline) ? 1 : 2;
  options.activations = {Activations::keep};
  if (recipe.swap == "PaperAtom") {
    options.swapping = swap::PaperAtom::schedules().front();
    options.activations = {Activations::recompute};
  }
  if (recipe.swap == "LayerStreaming") {
    options.swapping = swap::LayerStreaming::schedules().front();
    options.activations = {Activations::stash};
  }
  return options;
}

/// One micro-batch after another goes through all chunks and back.
plan::PipelineOrder one_by_one(const std::vector<int>& rank_of_chunk, int ranks, int micro_batches) {
  plan::PipelineOrder order{micro_batches, rank_of_chunk, {}};
  order.tasks.resize(static_cast<std::size_t>(ranks));
  const auto chunks = static_cast<int>(rank_of_chunk.size());
  const auto add = [&](plan::PipelineTaskKind kind, int chunk, int j) {
    order.tasks[static_cast<std::size_t>(rank_of_chunk[static_cast<std::size_t>(chunk)])].push_back({kind, chunk, j});
  };
  for (int j = 0; j < micro_batches; ++j) {
    for (int chunk = 0; chunk < chunks; ++chunk) add(plan::PipelineTaskKind::forward, chunk, j);
    for (int chunk = chunks; chunk-- > 0;) add(plan::PipelineTaskKind::backward, chunk, j);
  }
  return order;
}

/// The program of a rank, of the outer step where pseudo-gradients are sent, does what the recipe says.
void expect_program_of(const Recipe& recipe, const Spread& spread, const schedule::Program& program) {
  const auto has = [&program](std::initializer_list<std::string_view> kinds) {
    return std::any_of(program.round.begin(), program.round.end(), [&](const schedule::Instruction& i) {
      return std::find(kinds.begin(), kinds.end(), i.kind) != kinds.end();
    });
  };
  EXPECT_EQ(has({kinds::load}), recipe.swap != "Resident");
  EXPECT_EQ(has({pipeline::kinds::send}), spread.stages > 1);
  const auto sends = [&recipe](std::string_view what) { return recipe.compress.find(what) != std::string::npos; };
  const bool of_outer = sends("<PseudoGradient");
  const bool of_edges = sends("Activation") || sends("AdaTopK") || (recipe.optim == "DiLoCo" && !of_outer);
  const bool of_replicas = of_outer || sends("<Gradient") || sends("<Parameter");
  const bool is_sent = (spread.stages > 1 && !of_replicas) || (spread.replicas > 1 && !of_edges);
  using namespace compress::kinds;
  EXPECT_EQ(has({encode, decode, encode_parts, encode_shard, decode_shards}), recipe.compress != "Dense" && is_sent);
}

/// Trains. Where it resumes, it also saves in the middle, and another Trainer goes on from there.
template <class TrainerType>
Trained train(const typename TrainerType::Options& options, const comm::Communicator& ranks, const Recipe* recipe = nullptr,
              bool resumes = false) {
  Trained trained;
  auto trainer = small_trainer<TrainerType>(options, ranks, config());
  if (recipe != nullptr) {
    const int variant = recipe->compress.find("<PseudoGradient") == std::string::npos ? 0 : 1;
    expect_program_of(*recipe, spread_of(*recipe), trainer.program(run::Purpose::training, variant));
  }
  if (!resumes) {
    go_on(trainer, steps, trained);
    add_weights(trainer, trained);
    return trained;
  }
  const SharedFolder folder("pairs");
  go_on(trainer, steps / 2, trained);
  checkpoint::save(trainer, folder.path());
  go_on(trainer, steps / 2, trained);
  add_weights(trainer, trained);
  auto other = small_trainer<TrainerType>(options, ranks, config());
  EXPECT_TRUE(checkpoint::resume(other, folder.path()).has_value());
  Trained resumed{{trained.numbers.begin(), trained.numbers.begin() + steps}, {}};
  go_on(other, steps / 2, resumed);
  add_weights(other, resumed);
  EXPECT_TRUE(same_bits(resumed.numbers, trained.numbers)) << "behind a resume";
  EXPECT_TRUE(same_bits(resumed.weights, trained.weights)) << "behind a resume";
  return trained;
}

template <class Optim>
using Stays = Trainer<AnyPipeline, AnyCompress, Optim>;
template <class Optim>
using Passes = Trainer<swap::Atom<>, AnyPipeline, AnyCompress, Optim>;

/// What rank r of a whole one leaves behind is what all of replica r are to have.
Trained of_replicas(Trained whole, const Spread& spread) {
  int sizes[2] = {static_cast<int>(whole.numbers.size()), static_cast<int>(whole.weights.size())};
  MPI_Bcast(sizes, 2, MPI_INT, 0, MPI_COMM_WORLD);
  whole.numbers.resize(static_cast<std::size_t>(sizes[0]));
  whole.weights.resize(static_cast<std::size_t>(sizes[1]));
  std::vector<double> all(whole.numbers.size() * static_cast<std::size_t>(world_size()));
  MPI_Allgather(whole.numbers.data(), sizes[0], MPI_DOUBLE, all.data(), sizes[0], MPI_DOUBLE, MPI_COMM_WORLD);
  const auto replica = all.begin() + world_rank() / spread.stages * sizes[0];
  whole.numbers.assign(replica, replica + sizes[0]);
  MPI_Bcast(whole.weights.data(), sizes[1], MPI_FLOAT, 0, MPI_COMM_WORLD);
  return whole;
}

/// Law and what a run is to leave behind by it.
struct Expected {
  std::string law{};
  Trained trained{};
};

/// Of a model that stays, and of one process where that can be said; each once.
template <class Optim>
const Expected& expected_of(const Recipe& recipe, const Spread& spread, const comm::Communicator& world,
                            const comm::Communicator& self) {
  static std::map<std::string, Expected> known;
  using Tested = Stays<Optim>;
  constexpr bool outer = optim::periodic_policy<Optim>;
  const bool dense = recipe.compress == "Dense";
  Recipe like = recipe;
  like.swap = "Resident";
  const auto once = [&](const std::string& key, const std::string& law, const auto& run) -> const Expected& {
    const auto found = known.find(key);
    return found != known.end() ? found->second : known.emplace(key, Expected{law, run()}).first->second;
  };
  if (updates_within(recipe.pipeline)) {
    // Its serial definition is in tests/pipeline/asynchronous_test.cpp, of Zero1 and Dense.
    const auto law = dense ? "the bits of Zero1, whose serial definition is tested" : "the bits of Zero1";
    return once(concat(recipe.pipeline, recipe.compress), law, [&] {
      using Reference = Stays<optim::Zero1<AdamW>>;
      return train<Reference>(options_of_recipe<Reference>(like, spread), world);
    });
  }
  if (outer && (dense || spread.stages == 1)) {  // one process does not stand for ranks that step on their own
    like.pipeline = "Single";
    const auto law = spread.stages > 1 ? "the bits of as many whole replicas" : "the bits of a model that stays";
    return once(concat(like.compress, " ", spread.replicas), law, [&] {
      const comm::Communicator few = world.split(world.rank() < spread.replicas ? 0 : 1, world.rank(), "whole replicas");
      Trained whole;
      if (world.rank() < spread.replicas) {
        auto options = options_of_recipe<Tested>(like, {spread.replicas, 1});
        options.micro_batches = {spread.count(world.rank())};
        whole = train<Tested>(options, few);
      }
      return of_replicas(std::move(whole), spread);
    });
  }
  if constexpr (!outer) {
    if (dense) {
      return once(concat(spread.replicas, " replicas of ", spread.stages), "the bits of one process", [&] {
        using Alone = Trainer<Optim>;
        auto options = alone_options<Alone>(spread.counts());
        options.serial = true;
        return train<Alone>(options, self);
      });
    }
  }
  if (spread.stages == 1) {
    return once(concat(recipe.compress, " on ", spread.replicas), "the bits of one process that stands for all ranks", [&] {
      like.pipeline = "Single";
      auto options = options_of_recipe<Tested>(like, spread);
      options.topology.reset();
      options.virtual_ranks = spread.replicas;
      options.micro_batches = spread.counts();
      if (options.network) options.network = network_of(1);
      return train<Tested>(options, self);
    });
  }
  auto options = options_of_recipe<Tested>(like, spread);
  std::vector<int> rank_of_chunk = AnyPipeline::stage_of_chunk(spread.stages, options.pipeline);
  for (int stage = 0; rank_of_chunk.empty() || static_cast<int>(rank_of_chunk.size()) < spread.stages; ++stage) {
    rank_of_chunk.push_back(stage);
  }
  options.pipeline.name = "Ordered";
  options.pipeline.order = one_by_one(rank_of_chunk, spread.stages, spread.count(0));
  return once(concat(recipe.compress, " ", plan::text_of(options.pipeline.order)), "the bits of one micro-batch after another",
              [&] { return train<Tested>(options, world); });
}

template <class Optim>
std::string run(const Recipe& recipe, const Spread& spread, const comm::Communicator& world, const comm::Communicator& self) {
  const Expected& expected = expected_of<Optim>(recipe, spread, world, self);
  Trained trained;
  const bool resumes = !asked_for().empty();
  if (recipe.swap == "Resident") {
    trained = train<Stays<Optim>>(options_of_recipe<Stays<Optim>>(recipe, spread), world, &recipe, resumes);
  } else {
    trained = train<Passes<Optim>>(options_of_recipe<Passes<Optim>>(recipe, spread), world, &recipe, resumes);
  }
  EXPECT_TRUE(same_bits(trained.numbers, expected.trained.numbers)) << expected.law;
  EXPECT_TRUE(same_bits(trained.weights, expected.trained.weights)) << expected.law;
  return expected.law + (resumes ? ", and behind a resume" : "");
}

constexpr std::tuple optimizer_types{
    Named<optim::Ddp<AdamW>>{"Ddp"},       Named<optim::Zero1<AdamW>>{"Zero1"},
    Named<optim::Dpu<AdamW, 1>>{"Dpu"},    Named<optim::DpuPredicted<AdamW>>{"DpuPredicted"},
    Named<optim::AccoWp<AdamW>>{"AccoWp"}, Named<optim::Acco<AdamW>>{"Acco"},
    Named<optim::DiLoCo<AdamW>>{"DiLoCo"}};

/// f(Named) of the optimizer of that name.
template <class F>
void with_optimizer(const std::string& name, const F& f) {
  const bool found = std::apply([&](const auto&... one) { return ((name == one.name && (f(one), true)) || ...); }, optimizer_types);
  EXPECT_TRUE(found) << "no optimizer is named " << name;
}

/// A line of what was checked, for pairs.py; by rank 0, where REEF_PAIRS_LOG names a file.
void log(const Recipe& recipe, const Spread& spread, const std::string& law, const Refusal& refusal, bool passed,
         Seconds seconds) {
  const char* const path = std::getenv("REEF_PAIRS_LOG");
  if (path == nullptr || world_rank() > 0) return;
  std::ofstream file(path, std::ios::app);
  file << "{\"swap\": \"" << recipe.swap << "\", \"pipeline\": \"" << recipe.pipeline << "\", \"compress\": \""
       << recipe.compress << "\", \"optim\": \"" << recipe.optim << "\", \"ranks\": " << world_size() << ", \"replicas\": " << spread.replicas
       << ", \"stages\": " << spread.stages << ", \"law\": \"" << law << "\", \"refused\": \"" << refusal.sentence
       << "\", \"rule\": \"" << refusal.rule << "\", \"result\": \"" << (passed ? "passed" : "failed")
       << "\", \"seconds\": " << seconds << "}\n";
}

/// The error of a Trainer, before there is one.
template <class TrainerType>
std::string error_of(const Recipe& recipe, const Spread& spread) {
  try {
    const auto model = nn::gpt<device::Host, float>(config(), 1);
    static_cast<void>(TrainerType::programs(model, options_of_recipe<TrainerType>(recipe, spread), world_size()));
  } catch (const OptionError& error) {
    return error.what();
  }
  return "none";
}

void check(const Recipe& asked, const comm::Communicator& world, const comm::Communicator& self) {
  const Recipe recipe = asked.whole();
  const Spread spread = spread_of(recipe);
  const Refusal refusal = refusal_of(recipe);
  SCOPED_TRACE(concat(asked.text(), " on ", spread.replicas, " replicas of ", spread.stages, " stages"));
  const auto parts = [] { return testing::UnitTest::GetInstance()->current_test_info()->result()->total_part_count(); };
  const int before = parts();
  const Seconds begin = trace::now();
  std::string law;
  try {
    with_optimizer(recipe.optim, [&]<class Optim>(const Named<Optim>&) {
      if (refusal.sentence.empty()) {
        law = run<Optim>(recipe, spread, world, self);
      } else {
        const bool stays = recipe.swap == "Resident";
        const std::string error = stays ? error_of<Stays<Optim>>(recipe, spread) : error_of<Passes<Optim>>(recipe, spread);
        EXPECT_NE(error.find(refusal.sentence), std::string::npos) << error;
      }
    });
  } catch (const Error& error) {
    ADD_FAILURE() << error.what();
  }
  log(asked, spread, law, refusal, parts() == before, trace::now() - begin);
}

/// Of those that an ordinary run has time for, every so many-th.
void check_all(const std::vector<Recipe>& recipes, std::size_t every) {
  const comm::Communicator world;
  const comm::Communicator self = world.split(world.rank(), 0, "self");
  const std::string asked = asked_for();
  for (std::size_t i = 0; i < recipes.size(); ++i) {
    const bool wanted = asked.empty() ? i % every == 0 : asked == "all" || recipes[i].text().find(asked) != std::string::npos;
    if (wanted) check(recipes[i], world, self);
  }
}

using codec::Blockwise8;
using codec::ErrorFeedback;
using codec::TopK;
template <class... C>
using Channels = compress::Channels<C...>;

/// Those that a rule may refuse.
constexpr std::tuple compressor_types{
    Named<compress::Dense>{"Dense"},
    Named<compress::Everywhere<TopK>>{"Everywhere<TopK>"},
    Named<Channels<compress::Activation<TopK>>>{"Channels<Activation<TopK>>"},
    Named<Channels<compress::Gradient<ErrorFeedback<TopK>>>>{"Channels<Gradient<ErrorFeedback<TopK>>>"},
    Named<Channels<compress::Parameter<Blockwise8>>>{"Channels<Parameter<Blockwise8>>"},
    Named<Channels<compress::PseudoGradient<ErrorFeedback<TopK>>>>{"Channels<PseudoGradient<ErrorFeedback<TopK>>>"},
    Named<compress::AdaTopK>{"AdaTopK"}};

template <class Tuple, class F>
void each(const Tuple& all, const F& f) {
  std::apply([&f](const auto&... one) { (f(one), ...); }, all);
}

/// f(Named, Named) of each two.
template <class First, class Second, class F>
void each_two(const First& first, const Second& second, const F& f) {
  each(first, [&](const auto& a) { each(second, [&](const auto& b) { f(a, b); }); });
}

TEST(Pairs, are_refused_by_the_compiler_where_a_rule_is_broken) {
  each_two(pipelines, optimizer_types, []<class P, class O>(const Named<P>& pipeline, const Named<O>& optim) {
    const Recipe recipe{"Resident", std::string(pipeline.name), "Dense", std::string(optim.name)};
    EXPECT_EQ((composable<P, O>), refusal_of(recipe).rule != "r5") << recipe.text();
  });
  each_two(compressor_types, optimizer_types, []<class C, class O>(const Named<C>& compress, const Named<O>& optim) {
    const Recipe recipe{"Resident", "Single", std::string(compress.name), std::string(optim.name)};
    EXPECT_EQ((composable<C, O>), refusal_of(recipe).rule != "r1") << recipe.text();
  });
}

TEST(Pairs, are_as_many_as_the_page_says) {
  const std::vector<Recipe> all = all_pairs();
  const auto refused = std::ranges::count_if(all, [](const Recipe& pair) { return !refusal_of(pair.whole()).rule.empty(); });
  std::ifstream file(REEF_PAIRS_PAGE);
  const std::string page((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  const std::string counted = concat(static_cast<std::ptrdiff_t>(all.size()) - refused, " pairs run, ", refused, " are refused.");
  EXPECT_NE(page.find(counted), std::string::npos) << counted << "\n  fix: write docs/pairs.md anew: tests/pairs/pairs.py";
}

TEST(Pairs, have_the_bits_that_they_are_to_have_or_are_refused) { check_all(all_pairs(), 17); }

TEST(Triples, of_each_schedule_have_the_bits_that_they_are_to_have) { check_all(triples(), 13); }

TEST(Quadruples, have_the_bits_that_they_are_to_have) { check_all(quadruples(), 11); }

}  // namespace pairs

}  // namespace
}  // namespace reef::test
