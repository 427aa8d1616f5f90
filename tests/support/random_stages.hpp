#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <reef/comm/communicator.hpp>
#include <reef/core/random.hpp>
#include <reef/core/text.hpp>
#include <reef/graph/remote_messages.hpp>
#include <reef/nn/add.hpp>
#include <reef/nn/class_head.hpp>
#include <reef/nn/cross_entropy.hpp>
#include <reef/nn/dropout.hpp>
#include <reef/nn/embedding.hpp>
#include <reef/nn/exact_gelu.hpp>
#include <reef/nn/gelu.hpp>
#include <reef/nn/grouped_attention.hpp>
#include <reef/nn/layer_norm.hpp>
#include <reef/nn/layer_prompt.hpp>
#include <reef/nn/linear.hpp>
#include <reef/nn/lora_linear.hpp>
#include <reef/nn/mean_squared_error.hpp>
#include <reef/nn/packed.hpp>
#include <reef/nn/prompt_cross_entropy.hpp>
#include <reef/nn/prompt_embedding.hpp>
#include <reef/nn/relu.hpp>
#include <reef/nn/rms_norm.hpp>
#include <reef/nn/rotary.hpp>
#include <reef/nn/silu.hpp>
#include <reef/nn/split_heads.hpp>
#include <reef/nn/swiglu.hpp>
#include <reef/nn/token_embedding.hpp>
#include <reef/pipeline/ordered.hpp>
#include <reef/pipeline/searched.hpp>
#include <reef/plan/pipeline_schedules.hpp>
#include <reef/trainer/trainer.hpp>

#include "trainers.hpp"

/// Random models with skips, ties and values without gradient, cut anywhere, on random stages and in random orders.
namespace reef::test::random_stages {

template <class Optim>
using Piped = Trainer<pipeline::Ordered, Optim>;
using Model = graph::Graph<device::Host, float>;
using plan::PipelineTaskKind;

/// Draws of one instance, the same on all ranks.
class Draws {
public:
  explicit Draws(std::uint64_t seed) : seed_(seed) {}
  int below(int n) {
    return static_cast<int>(random_bits({seed_, 0, 7, 0}, next_++) % static_cast<std::uint32_t>(n));
  }
  bool one_in(int n) { return below(n) == 0; }
  template <class T>
  const T& of(const std::vector<T>& all) {
    return all[static_cast<std::size_t>(below(static_cast<int>(all.size())))];
  }

private:
  std::uint64_t seed_;
  std::uint64_t next_ = 0;
};

inline constexpr std::int64_t batch = 2, length = 4, channels = 20, vocabulary = 12;

/// An embedding, operators that read whatever is there, a head that may be the embedding's, and a loss to which all leads.
/// `is_tuned`: with what fine-tuning adds, of which graph files have no operators.
inline Model random_model(std::uint64_t seed, bool is_tuned = true) {
  Draws draws(seed);
  Model g(1);
  const int tokens = g.input("tokens", {{batch, length}, Element::int32});
  const int angles = g.input("angles", {{batch, length, channels}, Element::float32});
  const int targets = g.input("targets", {{batch, length}, Element::int32});
  const int marked = g.input("marked", {{batch, length}, Element::int32});  // tokens, and marks where samples begin
  Draws additions(seed + 4'000'000);
  const auto tuned = [&](int n) { return is_tuned && additions.one_in(n); };
  const bool prompted = tuned(4);
  std::vector<int> values = prompted ? g.add("embedding", nn::PromptEmbedding<nn::TokenEmbedding>{{vocabulary, channels}, 2}, {tokens})
                            : seed % 2 == 0 ? g.add("embedding", nn::TokenEmbedding{vocabulary, channels}, {tokens})
                                            : g.add("embedding", nn::Embedding{vocabulary, length, channels}, {tokens});
  if (prompted) g.freeze("embedding.weight");
  std::vector<std::string> linears;
  const auto add = [&](auto op, std::vector<int> inputs, std::vector<std::string> names = {}) {
    return g.add(concat("node", g.dag().node_count()), op, std::move(inputs), std::move(names))[0];
  };
  std::vector<int> fixed{add(nn::Gelu{}, {angles})};  // no gradient leads to them
  const int nodes = 8 + draws.below(7);
  const bool everywhere = !draws.one_in(4);  // the embedding is read all over the model
  for (int n = 0; n < nodes; ++n) {
    const int x = draws.one_in(3) ? draws.of(values) : values.back();
    if (seed % 3 == 0 && n == 4) {  // one head of keys for two of queries, and a window
      const int q = add(nn::Rotary{channels / 2}, {add(nn::Linear{channels}, {x})});
      const int k = add(nn::Rotary{channels / 2}, {add(nn::RmsNorm{}, {add(nn::Linear{channels / 2, false}, {x})})});
      values.push_back(add(nn::GroupedAttention{2, 1, 3}, {q, k, add(nn::Linear{channels / 2, false}, {x})}));
    }
    if (seed % 3 == 1 && n == 4) {  // three parts of one tensor, two of them turned in part, and scores that fall
      const std::vector<int> parts = g.add("parts", nn::SplitHeads{2}, {add(nn::Linear{3 * channels}, {x})});
      const nn::Rotary rotary{.head_size = channels / 2, .turned = 4};
      const int q = add(rotary, {parts[0]});
      const int k = add(rotary, {parts[1]});
      values.push_back(add(nn::ExactGelu{}, {add(nn::GroupedAttention{.heads = 2, .kv_heads = 2, .alibi = true}, {q, k, parts[2]})}));
    }
    if (n == 5 && tuned(2)) {  // few parameters beside a frozen map
      const std::string name = concat("node", g.dag().node_count());
      values.push_back(add(nn::LoraLinear{.linear = {channels}, .rank = 3, .alpha = 6}, {x}));
      g.freeze(name + ".weight");
      g.freeze(name + ".bias");
    }
    if (n == 6 && tuned(3)) values.push_back(add(nn::LayerPrompt{2}, {x}));
    if (n == 7 && tuned(2)) {  // several samples in a row
      const int embedded = add(nn::Packed<nn::TokenEmbedding>{{vocabulary, channels}}, {marked});
      const int mixed = add(nn::Add{}, {x, embedded});
      values.push_back(add(nn::Packed<nn::GroupedAttention>{{.heads = 2, .kv_heads = 2}}, {mixed, x, embedded, marked}));
    }
    if (everywhere && draws.one_in(2)) {
      values.push_back(add(nn::Add{}, {x, values.front()}));
      continue;
    }
    switch (draws.below(7)) {
      case 0:
        values.push_back(n % 4 == 0   ? add(nn::Gelu{}, {x})
                         : n % 4 == 1 ? add(nn::Silu{}, {x})
                         : n % 4 == 2 ? add(nn::Relu{}, {x})
                                      : add(nn::SwiGlu{}, {x, values.front()}));
        break;
      case 1: values.push_back(n % 2 == 0 ? add(nn::LayerNorm{}, {x}) : add(nn::RmsNorm{1e-5, 5}, {x})); break;
      case 2: values.push_back(add(nn::Dropout{0.2F}, {x})); break;
      case 3: values.push_back(add(nn::Add{}, {x, draws.of(values)})); break;
      case 4: values.push_back(add(nn::Add{}, {x, draws.of(fixed)})); break;
      default:
        if (!linears.empty() && draws.one_in(3)) {
          values.push_back(add(nn::Linear{channels, false}, {x}, {draws.of(linears)}));
        } else {
          linears.push_back(concat("w", linears.size()));
          values.push_back(add(nn::Linear{channels, false}, {x}, {linears.back()}));
        }
    }
  }
  int x = values.back();
  for (const int value : values) {
    if (value != x && g.dag().tensor_at(value).consumers.empty()) x = add(nn::Add{}, {x, value});
  }
  if (!draws.one_in(4)) x = add(nn::Add{}, {x, values.front()});
  if (!draws.one_in(4)) x = add(nn::Add{}, {x, fixed.front()});
  std::vector<std::string> head;
  if (draws.one_in(2)) head = {g.dag().parameters[0].name};
  if (tuned(8)) {
    g.loss(g.add("loss", nn::MeanSquaredError{}, {x, angles})[0]);
  } else {
    x = g.add("head", nn::Linear{vocabulary, false, nn::Transpose::yes}, {x}, head)[0];
    g.loss(prompted ? g.add("loss", nn::PromptCrossEntropy{2}, {x, targets})[0]
                    : g.add("loss", nn::CrossEntropy{}, {x, targets})[0]);
    if (!prompted && head.empty() && tuned(3)) g = nn::with_class_head(g, {.classes = vocabulary});
  }
  if (Draws frozen(seed + 3'000'000); frozen.one_in(3)) {  // half of the parameters; the last is trained
    for (std::size_t p = 0; p + 1 < g.dag().parameters.size(); ++p) {
      if (frozen.one_in(2)) g.freeze(g.dag().parameters[p].name);
    }
  }
  return g;
}

/// The inputs of random_model. Of the last, each third token is a mark, at which another sample begins.
inline double fill(std::uint64_t first, std::span<const AnyView> inputs) {
  std::uint64_t number = 7 * first;
  for (const AnyView& input : inputs) {
    if (input.element() == Element::float32) {
      for (float& value : input.as<float>().span()) value = static_cast<float>(number++ % 5) * 0.25F;
    } else {
      for (std::int32_t& token : input.as<std::int32_t>().span()) {
        token = static_cast<std::int32_t>(number++ % vocabulary);
        if (&input == &inputs.back() && token % 3 == 0) token = ~token;
      }
    }
  }
  return 1.0 + static_cast<double>(first % 3);
}

/// Tasks in some order in which one process could run them; of a chunk and kind micro-batches ascend. Backwards run
/// whole, in halves, or as each falls.
inline plan::PipelineOrder random_order(Draws& draws, const std::vector<int>& rank_of_chunk, int ranks, int m) {
  plan::PipelineOrder order{m, rank_of_chunk, {}};
  order.tasks.resize(static_cast<std::size_t>(ranks));
  const auto chunks = static_cast<int>(rank_of_chunk.size());
  const int splits = draws.below(3);  // never, always, half of them
  std::vector<int> forwards(rank_of_chunk.size()), backwards(rank_of_chunk.size()), weights(rank_of_chunk.size());
  for (int left = 3 * chunks * m; left > 0;) {
    const auto c = static_cast<std::size_t>(draws.below(chunks));
    const auto add = [&](PipelineTaskKind kind, int j) {
      order.tasks[static_cast<std::size_t>(rank_of_chunk[c])].push_back({kind, static_cast<int>(c), j});
      --left;
    };
    const bool last = c + 1 == rank_of_chunk.size();
    switch (draws.below(3)) {
      case 0:
        if (forwards[c] < m && (c == 0 || forwards[c] < forwards[c - 1])) {
          add(PipelineTaskKind::forward, forwards[c]++);
        }
        break;
      case 1: {
        const bool ready = backwards[c] < forwards[c] && (last || backwards[c] < backwards[c + 1]);
        if (!ready) break;
        const bool half = splits == 1 || (splits == 2 && draws.one_in(2)) || weights[c] < backwards[c];
        add(half ? PipelineTaskKind::input_backward : PipelineTaskKind::backward, backwards[c]++);
        if (half) break;
        ++weights[c];
        --left;
        break;
      }
      default:
        if (weights[c] < backwards[c]) add(PipelineTaskKind::weight_backward, weights[c]++);
    }
  }
  return order;
}

struct Instance {
  int replicas = 1;
  int stages = 1;
  int micro_batches = 1;
  int unit = 1;
  std::vector<int> cuts{};
  std::vector<int> stage_of_segment{};
  bool a_segment_is_a_chunk = false;  ///< else runs of segments of one stage are
  bool recomputes = false;
  std::string optimizer{};
  std::string schedule{};
  plan::PipelineOrder order{};
  std::string text{};
};

/// The stages of runs of segments.
inline std::vector<int> chunks_of(const std::vector<int>& stage_of_segment) {
  std::vector<int> chunks = stage_of_segment;
  chunks.erase(std::unique(chunks.begin(), chunks.end()), chunks.end());
  return chunks;
}

/// Of every three instances one has a random order, the others these, in turn.
inline const std::vector<std::string> drawn_schedules{"gpipe",          "1f1b",       "1f1b-eager", "interleaved", "looped-bfs",
                                                      "zb-h1",          "zb-h2",      "zb-v",       "v-half",      "v-min",
                                                      "interleaved-zb", "dualpipe-v", "searched"};

/// One that is found for random times and slow links.
inline plan::PipelineOrder searched_order(Draws& draws, std::uint64_t seed, int stages, int m) {
  plan::PipelineModel model{plan::one_f_one_b_order(stages, m)};
  model.times = plan::PipelineTimes::even(model.order, 1, 1, 1, {0.5 * draws.below(4), 0});
  for (auto* const times : {&model.times.forward, &model.times.input_backward, &model.times.weight_backward}) {
    for (Seconds& time : *times) time *= 1 + draws.below(3);
  }
  pipeline::SearchedOptions options;
  options.seed = seed;
  options.effort = 1;
  options.splits_backward = !draws.one_in(3);
  return pipeline::Searched::order(model, m, options);
}

/// `number`: of the instance among those that are drawn.
inline Instance random_instance(std::uint64_t seed, int number, const graph::Dag& dag, int ranks) {
  Draws draws(seed + 1'000'000);
  Instance one;
  std::vector<int> divisors;
  for (int stages = 2; stages <= ranks; ++stages) {
    if (ranks % stages == 0) divisors.push_back(stages);
  }
  one.stages = draws.of(divisors);
  one.replicas = ranks / one.stages;
  one.micro_batches = 1 + draws.below(9);
  one.recomputes = draws.one_in(3);
  one.optimizer = draws.of<std::string>({"zero1", "acco", "ddp"});

  const int nodes = dag.node_count();
  const auto cut = [&](int segments) {
    std::set<int> cuts;
    while (static_cast<int>(cuts.size()) < segments - 1) cuts.insert(1 + draws.below(nodes - 1));
    one.cuts.assign(cuts.begin(), cuts.end());
  };
  const int p = one.stages;
  one.unit = Draws(seed + 2'000'000).below(4);  // 0: all
  const int unit = one.unit == 0 ? one.micro_batches : one.unit;
  const int m = (one.micro_batches + unit - 1) / unit;  // what the order counts
  const auto looped = [&](int chunks, bool folded) {
    cut(chunks);
    for (int c = 0; c < chunks; ++c) {
      one.stage_of_segment.push_back(folded && c >= p ? 2 * p - 1 - c : c % p);
    }
  };
  const auto turn = static_cast<std::size_t>(2 * (number / 3) + number % 3 - 1);
  const std::string name = number % 3 == 0 ? "random" : drawn_schedules[turn % drawn_schedules.size()];
  one.schedule = name;
  if (name == "random") {
    const int segments = std::min(nodes, p + draws.below(6));
    cut(segments);
    const bool ascends = draws.one_in(3);
    for (int s = 0; s < segments; ++s) {
      one.stage_of_segment.push_back(ascends ? s * p / segments : s < p ? s : draws.below(p));
    }
    one.order = random_order(draws, chunks_of(one.stage_of_segment), p, m);
  } else {
    const bool folded = name == "zb-v" || name == "v-half" || name == "v-min" || name == "dualpipe-v";
    const bool two = folded || name == "interleaved" || name == "looped-bfs" || name == "interleaved-zb";
    one.a_segment_is_a_chunk = true;
    looped(two ? 2 * p : p, folded);
    one.order = name == "searched" ? searched_order(draws, seed, p, m)
                                   : plan::pipeline_order_of(name, p, m, two ? 2 : 1);
  }
  one.text = concat("seed ", seed, ": ", name, ", ", one.optimizer, ", ", one.replicas, " replicas of ", p, " stages, ",
                    one.micro_batches, " micro-batches in units of ", one.unit,
                    one.recomputes ? ", recomputed" : "", ", stages of segments");
  for (const int stage : one.stage_of_segment) one.text += concat(" ", stage);
  one.text += concat("\n", plan::text_of(one.order));
  return one;
}

/// What of a model goes between stages.
struct Reach {
  bool skips = false;       ///< a tensor goes to another stage past a chunk that lies between
  bool alternates = false;  ///< its readers go back to a stage
  bool unlearned = false;   ///< it has no gradient
  bool tied = false;        ///< a parameter is used by several
};

inline Reach reach_of(const graph::Dag& dag, const Instance& one) {
  const auto segment_of = [&](int node) { return std::upper_bound(one.cuts.begin(), one.cuts.end(), node) - one.cuts.begin(); };
  const auto stage_of = [&](int node) { return one.stage_of_segment[static_cast<std::size_t>(segment_of(node))]; };
  const auto chunk_of = [&](int node) {
    const auto first = one.stage_of_segment.begin();
    return chunks_of({first, first + segment_of(node) + 1}).size();
  };
  Reach reach;
  for (const graph::Tensor& tensor : dag.tensors) {
    if (tensor.producer < 0) continue;
    std::vector<int> stages{stage_of(tensor.producer)};
    for (const int reader : tensor.consumers) {
      stages.push_back(stage_of(reader));
      reach.skips |= stages.back() != stages.front() && chunk_of(reader) > chunk_of(tensor.producer) + 1;
    }
    stages.erase(std::unique(stages.begin(), stages.end()), stages.end());
    reach.alternates |= std::set<int>(stages.begin(), stages.end()).size() < stages.size();
    reach.unlearned |= !tensor.differentiable && stages.size() > 1;
  }
  for (const graph::Parameter& parameter : dag.parameters) {
    for (const int use : parameter.uses) {
      reach.tied |= stage_of(dag.use_at(use).node) != stage_of(dag.use_at(parameter.uses[0]).node);
    }
  }
  return reach;
}

/// By receiver and kind: how many messages, and their bytes.
using Sent = std::map<std::pair<int, schedule::Traffic>, std::pair<std::uint64_t, Bytes>>;

inline void add(Sent& sent, int to, schedule::Traffic traffic, Bytes bytes, int times) {
  const comm::Cost cost = comm::message_cost(bytes);
  auto& [messages, all] = sent[{to, traffic}];
  messages += cost.messages * static_cast<std::uint64_t>(times);
  all += cost.bytes * static_cast<Bytes>(times);
}

/// What a program sends between stages.
inline Sent sent_by(const schedule::Program& program) {
  Sent sent;
  for (const schedule::Instruction& i : program.round) {
    if (i.lane != schedule::Lane::send) continue;
    for (const schedule::Message& message : i.sends) {
      auto& [messages, all] = sent[{message.peer, i.traffic}];
      messages += message.pieces;
      all += message.bytes;
    }
  }
  return sent;
}

/// What a step sends that has one phase, by the planner that has neither program nor Trainer.
inline Sent foreseen(const run::StepPlan& plan, int rank, int micro_batches) {
  using schedule::Traffic;
  const int replica = plan.topology.replica_of(rank);
  std::vector<int> places;
  for (std::size_t s = 0; s < plan.segments.size(); ++s) {
    const int place = plan.topology.rank(replica, plan.stage_of_segment[s]);
    places.resize(static_cast<std::size_t>(plan.segments[s].last), place);
  }
  const graph::RemoteMessages messages = graph::remote_messages(*plan.dag, places);
  Sent sent;
  const auto add_all = [&](const std::vector<graph::RemoteMessage>& all, Traffic traffic, int times) {
    for (const graph::RemoteMessage& message : all) {
      if (message.from == rank) add(sent, message.to, traffic, message.bytes, times);
    }
  };
  add_all(messages.forward, Traffic::activation, micro_batches);
  std::vector<graph::RemoteMessage> alone = messages.backward;  // of tensors that one place reads
  for (const graph::ChainedSum& sum : messages.chained) {
    add_all(sum.messages, Traffic::activation_gradient, micro_batches);
    std::erase_if(alone, [&](const graph::RemoteMessage& message) { return message.of == sum.tensor; });
  }
  add_all(alone, Traffic::activation_gradient, micro_batches);
  for (const graph::TiedParameter& tied : messages.tied) {
    add_all(tied.gradients, Traffic::gradient, 1);
    add_all(tied.weights, Traffic::parameter, 1);
  }
  return sent;
}

struct Trained {
  std::vector<double> numbers{};
  std::map<std::string, std::vector<float>> weights{};  ///< of this rank
};

template <class Tested, class... Ranks>
Trained train(std::uint64_t seed, const Instance& one, typename Tested::Options options,
              const Ranks&... ranks) {
  options.micro_batches = {one.micro_batches};
  options.cuts = one.cuts;
  options.learning_rate = {.peak = 0.02, .warmup = 0};
  options.clip_norm = 0.5;
  options.device.threads = 1;
  if (one.recomputes) options.activations = {Activations::recompute};
  Tested trainer(random_model(seed), fill, options, run::Source(fill), ranks...);
  Trained result;
  for (int step = 0; step < 3; ++step) {
    if (step == 2) result.numbers.push_back(trainer.evaluate(2));
    const StepResult done = trainer.step();
    result.numbers.push_back(done.loss);
    result.numbers.push_back(done.gradient_norm);
  }
  trainer.gather_committed_weights();
  const run::StepPlan& plan = trainer.plan();
  if (plan.phases_per_step == 1 && plan.topology.stages > 1) {
    EXPECT_EQ(sent_by(trainer.program()), foreseen(plan, trainer.rank(), one.micro_batches));
  }
  for (const graph::Parameter& parameter : plan.dag->parameters) {
    if (trainer.holds(parameter.name)) result.weights[parameter.name] = trainer.parameter(parameter.name);
  }
  return result;
}

template <class Optim>
Trained train_spread(std::uint64_t seed, const Instance& one, const comm::Communicator& world) {
  typename Piped<Optim>::Options options;
  options.topology = run::Topology(one.replicas, one.stages);
  if (!one.a_segment_is_a_chunk) options.topology->stage_of_segment = one.stage_of_segment;
  options.pipeline.order = one.order;
  options.pipeline.unit = one.unit;
  return train<Piped<Optim>>(seed, one, options, world);
}

/// Ddp has the bits of Zero1.
template <class Optim>
Trained train_alone(std::uint64_t seed, const Instance& one, const comm::Communicator& self) {
  typename Trainer<Optim>::Options options;
  options.virtual_ranks = one.replicas;
  return train<Trainer<Optim>>(seed, one, options, self);
}

}  // namespace reef::test::random_stages
