#pragma once

#include <algorithm>
#include <cstddef>
#include <limits>
#include <vector>

#include <reef/plan/pipeline_search.hpp>

namespace reef::inline v0::plan::detail {

/// What one micro-batch alone takes, which no order shortens: by chunk, until its forward may start, from there to its
/// backward, and behind its backward.
class PipelineBound {
public:
  explicit PipelineBound(const PipelineOrderProblem& problem)
      : problem_(problem),
        chunks_(problem.rank_of_chunk.size()),
        model_(problem.model({})),
        forward_(model_.forward_edges()),
        backward_(model_.backward_edges()),
        head_(chunks_, 0),
        tail_(chunks_, 0),
        turn_(chunks_, 0) {
    const auto by_from = [](const PipelineEdge& a, const PipelineEdge& b) {
      return a.from < b.from;
    };
    std::stable_sort(forward_.begin(), forward_.end(), by_from);
    std::stable_sort(backward_.begin(), backward_.end(), by_from);
    for (const PipelineEdge& edge : forward_) {
      raise(head_[at(edge.to)], head_[at(edge.from)] + f(edge.from) + delay(edge));
    }
    for (std::size_t c = 0; c < chunks_; ++c) tail_[c] = w_behind(c);
    for (const PipelineEdge& edge : backward_) {  // tails of lower chunks are known
      raise(tail_[at(edge.from)], delay(edge) + b(edge.to) + tail_[at(edge.to)]);
    }
    for (std::size_t c = 0; c < chunks_; ++c) turn_[c] = turn_of(c);
  }

  [[nodiscard]] Seconds bound() const {
    Seconds bound = 0;
    std::vector<std::vector<std::size_t>> chunks(static_cast<std::size_t>(problem_.ranks()));
    for (std::size_t c = 0; c < chunks_; ++c) chunks[at(problem_.rank_of_chunk[c])].push_back(c);
    for (std::size_t r = 0; r < chunks.size(); ++r) bound = std::max(bound, of_rank(r, chunks[r]));
    return bound;
  }

private:
  static constexpr Seconds never = -std::numeric_limits<Seconds>::infinity();

  static std::size_t at(int index) { return static_cast<std::size_t>(index); }
  static void raise(Seconds& value, Seconds least) { value = std::max(value, least); }

  [[nodiscard]] Seconds f(int chunk) const { return problem_.times.forward[at(chunk)]; }
  /// Until the gradient of the input is there.
  [[nodiscard]] Seconds b(int chunk) const {
    const Seconds input = problem_.times.input_backward[at(chunk)];
    return problem_.splits ? input : input + problem_.times.weight_backward[at(chunk)];
  }
  /// Of the weights, behind that.
  [[nodiscard]] Seconds w_behind(std::size_t chunk) const {
    return problem_.splits ? problem_.times.weight_backward[chunk] : 0;
  }
  [[nodiscard]] Seconds delay(const PipelineEdge& edge) const {
    const int from = problem_.rank_of_chunk[at(edge.from)];
    const int to = problem_.rank_of_chunk[at(edge.to)];
    if (from == to) return 0;
    const schedule::Link& link = problem_.times.world.link(from, to);
    return link.latency +
           schedule::detail::over(static_cast<double>(edge.bytes), link.bytes_per_second);
  }

  /// From the end of a chunk's forward to the start of its backward.
  [[nodiscard]] Seconds turn_of(std::size_t chunk) const {
    std::vector<Seconds> forward(chunks_, never);  // when forwards end, if they need this one
    forward[chunk] = 0;
    for (const PipelineEdge& edge : forward_) {
      if (forward[at(edge.from)] == never) continue;
      raise(forward[at(edge.to)], forward[at(edge.from)] + delay(edge) + f(edge.to));
    }
    std::vector<Seconds> start = forward;  // when backwards may start
    for (auto edge = backward_.rbegin(); edge != backward_.rend(); ++edge) {  // from high chunks on
      if (start[at(edge->from)] == never) continue;
      raise(start[at(edge->to)], start[at(edge->from)] + b(edge->from) + delay(*edge));
    }
    return start[chunk];
  }

  [[nodiscard]] Seconds of_rank(std::size_t rank, const std::vector<std::size_t>& chunks) const {
    const int m = problem_.micro_batches;
    const auto& caps = problem_.max_activations;
    const auto own = static_cast<int>(chunks.size());
    const int cap = caps.empty() ? m * own : std::min(caps[rank], m * own);
    Seconds head = std::numeric_limits<Seconds>::infinity();
    Seconds tail = head;
    Seconds work = 0;  // of a micro-batch, to the gradients of its inputs
    Seconds behind = 0;
    Seconds held = 0;
    for (const std::size_t c : chunks) {
      const int chunk = static_cast<int>(c);
      head = std::min(head, head_[c]);
      tail = std::min(tail, tail_[c]);
      work += f(chunk) + b(chunk);
      behind += w_behind(c);
      held += f(chunk) + turn_[c] + b(chunk) + w_behind(c);
    }
    Seconds bound = head + std::max(m * (work + behind), m * work + tail);
    // Activations times time.
    bound = std::max(bound, head + m * held / cap);
    if (own > 1) return bound;

    // Micro-batch j + cap waits for the last of j. Ahead of F of the last one stand all W but those of cap.
    const int chunk = static_cast<int>(chunks[0]);
    const Seconds turn = turn_[chunks[0]];
    const Seconds whole = f(chunk) + turn + b(chunk);
    const Seconds last = std::max(tail, behind);
    raise(bound, head + m * work + (m - cap) * behind + last);
    const int rounds = (m - 1) / cap;
    raise(bound, head + (m - 1) % cap * f(chunk) + rounds * (whole + behind) + whole + last);
    // Before its first backward a rank runs forwards, of cap at most; behind its last forward, backwards of cap.
    const Seconds first = f(chunk) + turn;
    raise(bound, head + first + m * work - cap * f(chunk) + (m - cap) * behind + last);
    raise(bound, head + first + m * (work + behind) - cap * f(chunk));
    raise(bound, head + first + (m - cap) * (work + behind) +
                     (cap < m ? turn + b(chunk) : b(chunk)) + last);
    return bound;
  }

  const PipelineOrderProblem& problem_;
  std::size_t chunks_;
  PipelineModel model_;
  std::vector<PipelineEdge> forward_,
      backward_;  // in the order in which chunks are reached, or the reverse
  std::vector<Seconds> head_, tail_, turn_;
};

}  // namespace reef::inline v0::plan::detail
