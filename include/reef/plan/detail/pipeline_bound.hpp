#pragma once

#include <algorithm>
#include <cstddef>
#include <limits>
#include <vector>

#include <reef/plan/pipeline_search.hpp>

namespace reef {
inline namespace v0 {
namespace plan::detail {

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
    for (std::size_t r = 0; r < chunks.size(); ++r)
      bound = (std::max)(bound, of_rank(r, chunks[r]));
    return (std::max)(bound, Relaxation(*this).bound());
  }

private:
  static constexpr Seconds never = -std::numeric_limits<Seconds>::infinity();

  static std::size_t at(int index) { return static_cast<std::size_t>(index); }
  static void raise(Seconds& value, Seconds least) { value = (std::max)(value, least); }

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
    const int cap = caps.empty() ? m * own : (std::min)(caps[rank], m * own);
    Seconds head = std::numeric_limits<Seconds>::infinity();
    Seconds tail = head;
    Seconds work = 0;  // of a micro-batch, to the gradients of its inputs
    Seconds behind = 0;
    Seconds held = 0;
    for (const std::size_t c : chunks) {
      const int chunk = static_cast<int>(c);
      head = (std::min)(head, head_[c]);
      tail = (std::min)(tail, tail_[c]);
      work += f(chunk) + b(chunk);
      behind += w_behind(c);
      held += f(chunk) + turn_[c] + b(chunk) + w_behind(c);
    }
    Seconds bound = head + (std::max)(m * (work + behind), m * work + tail);
    // Activations times time.
    bound = (std::max)(bound, head + m * held / cap);
    return bound;
  }

  /// Every task as early as each of these allows by itself, whatever the order: what it needs; those of its kind before
  /// it; on its link the message before; with room for K activations, W of j ahead of F of j + K; and of any two tasks
  /// of a chunk, all that must run between them.
  class Relaxation {
  public:
    explicit Relaxation(const PipelineBound& of)
        : of_(of), chunks_(of.chunks_), ins_(2 * of.chunks_) {
      const auto& caps = of.problem_.max_activations;
      for (std::size_t c = 0; c < chunks_.size(); ++c) {
        Chunk& chunk = chunks_[c];
        chunk.f = of.f(static_cast<int>(c));
        chunk.b = of.b(static_cast<int>(c));
        chunk.w = of.w_behind(c);
        chunk.cap = of.problem_.micro_batches;
        if (!caps.empty())
          chunk.cap = (std::min)(chunk.cap, caps[at(of.problem_.rank_of_chunk[c])]);
      }
      for (const bool back : {false, true}) {
        for (const PipelineEdge& edge : back ? of.backward_ : of.forward_) {
          const int from = of.problem_.rank_of_chunk[at(edge.from)];
          const int to = of.problem_.rank_of_chunk[at(edge.to)];
          const schedule::Link link =
              from == to ? schedule::Link{} : of.problem_.times.world.link(from, to);
          ins_[(back ? chunks_.size() : 0) + at(edge.to)].push_back(
              {at(edge.from), link.latency,
               schedule::detail::over(static_cast<double>(edge.bytes), link.bytes_per_second)});
        }
      }
    }

    Seconds bound() {
      Seconds bound = 0;
      for (int j = 0; j < of_.problem_.micro_batches; ++j) {
        for (std::size_t c = 0; c < chunks_.size(); ++c) {
          chunks_[c].add_forward(arrival(c, j, false), j);
        }
        for (std::size_t c = chunks_.size(); c-- > 0;) {
          bound = (std::max)(bound, chunks_[c].add_backward(arrival(c, j, true), j));
        }
      }
      return bound;
    }

  private:
    /// Sums of what must run between two tasks are linear in both micro-batches, so the greatest is kept of all
    /// first ones.
    struct Chunk {
      Seconds f = 0, b = 0, w = 0;
      int cap = 1;
      std::vector<Seconds> forward{}, input{},
          weight{};  ///< when F and I start, and W ends, at the earliest
      Seconds f_by_fb = never, f_by_all = never, i_by_bw = never;
      Seconds f_before_cap = never,
              i_before_cap = never;  ///< of those of cap micro-batches before, by all

      [[nodiscard]] Seconds all() const { return f + b + w; }

      void add_forward(Seconds start, int j) {
        const int k = j - cap;
        if (k >= 0) {
          raise(f_before_cap, forward[at(k)] - k * all());
          raise(i_before_cap, input[at(k)] - k * all());
          raise(start, weight[at(k)]);
          raise(start, f_before_cap + j * f + (k + 1) * (b + w));
          raise(start, i_before_cap + k * f + (k + 1) * (b + w));
        }
        if (j > 0) raise(start, forward.back() + f);
        forward.push_back(start);
        raise(f_by_fb, start - j * (f + b));
        raise(f_by_all, start - j * all());
      }

      /// When W has ended.
      Seconds add_backward(Seconds start, int j) {
        const int k = j - cap;
        raise(start, forward.back() + f);
        if (j > 0) raise(start, input.back() + b);
        raise(start, f_by_fb + (j + 1) * (f + b) - b);
        if (k >= 0) {
          raise(start, f_before_cap + (j + 1) * (f + b) + (k + 1) * w - b);
          raise(start, i_before_cap + j * b + (k + 1) * (f + w));
        }
        input.push_back(start);
        raise(i_by_bw, start - j * (b + w));
        Seconds end = start + b + w;
        raise(end, f_by_all + (j + 1) * all());
        raise(end, i_by_bw + (j + 1) * (b + w));
        if (k >= 0) raise(end, i_before_cap + (j + 1) * (b + w) + (k + 1) * f);
        if (j > 0) raise(end, weight.back() + w);
        weight.push_back(end);
        return end;
      }
    };
    struct In {
      std::size_t from;
      Seconds latency, wire;
      Seconds left = 0;  ///< when the message before had left
    };

    Seconds arrival(std::size_t chunk, int j, bool back) {
      Seconds latest = 0;
      for (In& in : ins_[(back ? chunks_.size() : 0) + chunk]) {
        const Chunk& from = chunks_[in.from];
        const Seconds made = back ? from.input[at(j)] + from.b : from.forward[at(j)] + from.f;
        in.left = (std::max)(in.left, made) + in.wire;
        latest = (std::max)(latest, in.left + in.latency);
      }
      return latest;
    }

    const PipelineBound& of_;
    std::vector<Chunk> chunks_;
    std::vector<std::vector<In>> ins_;  // [back * chunks + chunk]
  };

  const PipelineOrderProblem& problem_;
  std::size_t chunks_;
  PipelineModel model_;
  std::vector<PipelineEdge> forward_,
      backward_;  // in the order in which chunks are reached, or the reverse
  std::vector<Seconds> head_, tail_, turn_;
};

}  // namespace plan::detail
}  // namespace v0
}  // namespace reef
