#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <queue>
#include <tuple>
#include <utility>
#include <vector>

#include <reef/plan/detail/free_pipeline.hpp>
#include <reef/plan/pipeline_search.hpp>

namespace reef {
inline namespace v0 {
namespace plan::detail {

/// How a rank chooses of what it could run now.
struct GreedyRules {
  bool backward_first = true;  ///< ahead of a forward
  double patience = 0;         ///< a W does not begin where something else comes within so many W
  std::vector<int> most{};     ///< by rank: activations beyond which no forward begins
};

/// Orders by rule: whenever a rank is free it runs a backward or a forward that has all it needs, else a W.
class PipelineGreedy {
public:
  explicit PipelineGreedy(const PipelineOrderProblem& problem)
      : problem_(problem),
        m_(static_cast<std::size_t>(problem.micro_batches)),
        chunks_(problem.rank_of_chunk.size()),
        model_(problem.model({})),
        outs_(2 * chunks_),
        needs_(2 * chunks_, 0),
        of_rank_(static_cast<std::size_t>(problem.ranks())) {
    for (const bool back : {false, true}) {
      for (const PipelineEdge& edge : back ? model_.backward_edges() : model_.forward_edges()) {
        outs_[node(back, edge.from)].push_back(edge);
        ++needs_[node(back, edge.to)];
      }
    }
    for (std::size_t c = chunks_; c-- > 0;) of_rank_[rank_of(c)].push_back(c);
  }

  /// The tasks by rank; fewer than all where ranks with several chunks got stuck.
  std::vector<std::vector<PipelineTask>> run(const GreedyRules& rules) {
    rules_ = &rules;
    const std::size_t ranks = of_rank_.size();
    missing_.clear();
    for (const int needed : needs_) missing_.insert(missing_.end(), m_, needed);
    arrived_.assign(2 * chunks_ * m_, 0);
    progress_.assign(chunks_, {});
    held_.assign(ranks, 0);
    free_.assign(ranks, 0);
    links_.assign(ranks * ranks, 0);
    tasks_.assign(ranks, {});
    events_ = {};
    for (std::size_t r = 0; r < ranks; ++r) events_.emplace(0, r);
    while (!events_.empty()) {
      const auto [time, rank] = events_.top();
      events_.pop();
      if (time >= free_[rank]) decide(time, rank);
    }
    return std::move(tasks_);
  }

private:
  using Kind = PipelineTaskKind;
  struct Progress {
    std::size_t forward = 0, input = 0, weight = 0;
  };
  using Event = std::pair<Seconds, std::size_t>;

  [[nodiscard]] std::size_t node(bool back, int chunk) const {
    return (back ? chunks_ : 0) + static_cast<std::size_t>(chunk);
  }
  [[nodiscard]] std::size_t rank_of(std::size_t chunk) const {
    return static_cast<std::size_t>(problem_.rank_of_chunk[chunk]);
  }

  void decide(Seconds now, std::size_t rank) {
    Seconds soon = FreePipeline::never;  // when something else comes, as far as is known
    const auto comes = [&](bool back, std::size_t chunk, std::size_t j) {
      const std::size_t slot = node(back, static_cast<int>(chunk)) * m_ + j;
      if (missing_[slot] > 0) return false;
      if (arrived_[slot] <= now) return true;
      soon = (std::min)(soon, arrived_[slot]);
      return false;
    };
    std::size_t forward = chunks_;
    std::size_t input = chunks_;
    std::size_t weight = chunks_;
    for (const std::size_t c : of_rank_[rank]) {  // from the last chunk on
      const Progress& p = progress_[c];
      // The chunks of this rank that a micro-batch still has ahead must fit, too.
      const auto ahead = static_cast<int>(std::count_if(
          of_rank_[rank].begin(), of_rank_[rank].end(), [&](std::size_t d) { return d > c; }));
      const bool fits = held_[rank] + 1 + ahead <= rules_->most[rank];
      if (p.forward < m_ && fits && comes(false, c, p.forward) && forward == chunks_) forward = c;
      if (p.input < p.forward && comes(true, c, p.input) && input == chunks_) input = c;
      if (p.weight < p.input && weight == chunks_) weight = c;
    }
    if (input < chunks_ && (rules_->backward_first || forward == chunks_)) {
      return start(now, rank,
                   {problem_.splits ? Kind::input_backward : Kind::backward,
                    static_cast<int>(input), static_cast<int>(progress_[input].input)});
    }
    if (forward < chunks_) {
      return start(
          now, rank,
          {Kind::forward, static_cast<int>(forward), static_cast<int>(progress_[forward].forward)});
    }
    if (weight == chunks_) return;  // until a message comes
    if (soon < now + rules_->patience * problem_.times.weight_backward[weight]) return;
    start(now, rank,
          {Kind::weight_backward, static_cast<int>(weight),
           static_cast<int>(progress_[weight].weight)});
  }

  void start(Seconds now, std::size_t rank, const PipelineTask& task) {
    Progress& p = progress_[static_cast<std::size_t>(task.chunk)];
    const Seconds end = free_[rank] = now + problem_.times.of(task);
    tasks_[rank].push_back(task);
    if (task.kind == Kind::forward) {
      ++p.forward;
      ++held_[rank];
    } else {
      if (task.kind != Kind::weight_backward) ++p.input;
      if (task.kind != Kind::input_backward) {
        ++p.weight;
        --held_[rank];
      }
    }
    if (task.kind != Kind::weight_backward) {
      const bool back = task.kind != Kind::forward;
      for (const PipelineEdge& edge : outs_[node(back, task.chunk)]) {
        hand_on(end, back, edge, static_cast<std::size_t>(task.micro_batch));
      }
    }
    events_.emplace(end, rank);
  }

  void hand_on(Seconds made, bool back, const PipelineEdge& edge, std::size_t j) {
    const std::size_t from = rank_of(static_cast<std::size_t>(edge.from));
    const std::size_t to = rank_of(static_cast<std::size_t>(edge.to));
    Seconds arrives = made;
    if (from != to) {
      const schedule::Link& link =
          problem_.times.world.link(static_cast<int>(from), static_cast<int>(to));
      Seconds& free = links_[from * of_rank_.size() + to];
      free = (std::max)(free, made) +
             schedule::detail::over(static_cast<double>(edge.bytes), link.bytes_per_second);
      arrives = free + link.latency;
    }
    const std::size_t slot = node(back, edge.to) * m_ + j;
    arrived_[slot] = (std::max)(arrived_[slot], arrives);
    if (--missing_[slot] == 0) events_.emplace((std::max)(arrived_[slot], free_[to]), to);
  }

  const PipelineOrderProblem& problem_;
  std::size_t m_;
  std::size_t chunks_;
  PipelineModel model_;
  std::vector<std::vector<PipelineEdge>> outs_;
  std::vector<int> needs_;
  std::vector<std::vector<std::size_t>> of_rank_;  // chunks, from the last on
  const GreedyRules* rules_ = nullptr;
  std::vector<int> missing_;
  std::vector<Seconds> arrived_;
  std::vector<Progress> progress_;
  std::vector<int> held_;
  std::vector<Seconds> free_;
  std::vector<Seconds> links_;
  std::vector<std::vector<PipelineTask>> tasks_;
  std::priority_queue<Event, std::vector<Event>, std::greater<>> events_;
};

}  // namespace plan::detail
}  // namespace v0
}  // namespace reef
