#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <reef/core/error.hpp>
#include <reef/core/units.hpp>
#include <reef/device/concept.hpp>
#include <reef/graph/graph.hpp>
#include <reef/graph/rows.hpp>
#include <reef/nn/block_cuts.hpp>
#include <reef/nn/detail/open_sequences.hpp>
#include <reef/nn/row_segment.hpp>
#include <reef/swarm/serve/session_blocks.hpp>

namespace reef {
inline namespace v0 {
namespace swarm {

/// The options of ModelBlocks.
struct ModelBlocksOptions {
  BlockRange blocks{};                ///< the blocks of the model that are held
  std::int64_t positions = 1 << 14;   ///< positions of the cache of each block, of all sequences
  std::int64_t longest = 1024;        ///< the most positions of one sequence
  std::int64_t rows = 256;            ///< the most rows that are computed in one pass
  graph::WeightForm weights = graph::WeightForm::as_given;
  graph::StateForm states = graph::StateForm::as_given;
  std::int64_t outliers = 0;          ///< as nn::SessionOptions has them
};

/// Blocks of a language model that compute rows of sessions, each with a cache in pages of 64 positions of one sequence
/// and one block.
///
/// | bits   | those of nn::Session: a row depends on those before it in its sequence and on the weights alone, not on |
/// |        | other sessions, nor on how blocks are spread over servers                                               |
/// | memory | on the device, allocated once: the blocks' weights, pages of `positions` of each, one pass' activations |
/// | errors | OptionError: blocks that the model does not have; those of nn::block_cuts and nn::RowSegment            |
///
/// The device must outlive the object.
///
/// \code
/// #include <reef/nn/model_folder.hpp>
/// // given: device::Host& host, const graph::Graph<device::Host, float>& model
/// swarm::ModelBlocks<device::Host, float> blocks(host, model, {.blocks = {2, 4}});
/// nn::read_weights<float>("llama", nn::read_model_config("llama/config.json"), model.dag(),
///                         [&](const auto& name, const auto& values) { blocks.set_parameter(name, values); },
///                         [&](std::string_view name) { return blocks.reads(name); });
/// \endcode
template <device::device Device, real T>
class ModelBlocks final : public SessionBlocks {
public:
  using Graph = graph::Graph<Device, T>;

  ModelBlocks(Device& device, const Graph& model, const ModelBlocksOptions& options)
      : options_(checked(model.dag(), options)),
        lane_(device, "blocks"),
        pages_(options.blocks.count() * (options.positions / graph::page_positions)) {
    const nn::BlockCuts cuts = nn::block_cuts(model.dag());
    const graph::RowOptions how{options.weights, options.longest, options.states, options.outliers};
    for (std::int64_t b = options.blocks.first; b < options.blocks.last; ++b) {
      const auto at = static_cast<std::size_t>(b);
      segments_.push_back(std::make_unique<Segment>(device, lane_, model, cuts.nodes[at], cuts.nodes[at + 1], how,
                                                    options.rows));
      page_bytes_ = (std::max)(page_bytes_, segments_.back()->page_bytes());
    }
    memory_ = device.allocate(page_bytes_ * static_cast<Bytes>(pages_.pages()), "pages of sessions");
  }

  /// Returns the bytes of a row between two blocks.
  [[nodiscard]] Bytes row() const { return segments_.front()->input_row(); }
  /// Returns the bytes of all pages.
  [[nodiscard]] Bytes cache_bytes() const { return page_bytes_ * static_cast<Bytes>(pages_.pages()); }

  [[nodiscard]] bool reads(std::string_view parameter) const {
    return std::any_of(segments_.begin(), segments_.end(), [&](const auto& one) { return one->reads(parameter); });
  }
  /// Sets a parameter of the blocks; none of others.
  void set_parameter(std::string_view name, std::span<const sum_t<T>> values) {
    for (const auto& segment : segments_) segment->set_parameter(name, values);
  }

  void open(const core::serve::OpenCache& session) override {
    close(session.session);
    Cache cache{session.blocks, session.batch, {}};
    const std::int64_t count = session.blocks.count() * session.batch;
    for (std::int64_t i = 0; i < count; ++i) cache.sequences.push_back(pages_.open());
    caches_.emplace(session.session, std::move(cache));
  }
  void cut(const std::string& session, std::int64_t length) override {
    const auto found = caches_.find(session);
    if (found != caches_.end()) truncate(found->second, length);
  }
  void close(const std::string& session) override {
    const auto found = caches_.find(session);
    if (found == caches_.end()) return;
    for (const int sequence : found->second.sequences) pages_.close(sequence);
    caches_.erase(found);
  }

  std::vector<Bulk> run(std::span<const core::serve::Run> steps) override {
    std::vector<Moving> all;
    for (const core::serve::Run& step : steps) all.push_back(begin(step));
    for (std::int64_t b = options_.blocks.first; b < options_.blocks.last; ++b) run_block(b, all);
    std::vector<Bulk> results;
    for (Moving& one : all) {
      pages_.commit(one.growths);
      results.push_back(std::make_shared<const std::vector<std::byte>>(std::move(one.rows)));
    }
    return results;
  }

private:
  using Segment = nn::RowSegment<Device, T>;
  using Sequences = nn::detail::OpenSequences;

  /// The cache of a session: for each of its blocks, a sequence of pages for each sequence of the batch.
  struct Cache {
    BlockRange blocks{};
    std::int64_t batch = 1;
    std::vector<int> sequences{};  // (blocks, batch)
  };
  /// A step on its way through the blocks: rows are those behind the last block that it has passed.
  struct Moving {
    const Cache* cache = nullptr;
    std::int64_t first = 0;  // position of its first new row
    std::int64_t count = 0;  // of each sequence
    std::vector<std::byte> rows{};
    std::vector<Sequences::Growth> growths{};
  };

  static ModelBlocksOptions checked(const graph::Dag& dag, const ModelBlocksOptions& options) {
    const std::int64_t count = nn::block_cuts(dag).count();
    const BlockRange& blocks = options.blocks;
    if (blocks.first < 0 || blocks.count() < 1 || blocks.last > count) {
      throw OptionError("reef::swarm::ModelBlocks: blocks [", blocks.first, ", ", blocks.last, ") of a model of ",
                        count, ".\n  fix: 0 to ", count, ".");
    }
    if (options.positions < graph::page_positions || options.longest < 1 || options.rows < 1) {
      throw OptionError("reef::swarm::ModelBlocks: ", options.positions, " positions, sequences of ", options.longest,
                        ", passes of ", options.rows, " rows.\n  fix: ", graph::page_positions,
                        " positions or more, and 1 or more of the others.");
    }
    return options;
  }

  void truncate(const Cache& cache, std::int64_t length) {
    for (const int sequence : cache.sequences) {
      if (pages_.at(sequence).length > length) pages_.truncate(sequence, length);
    }
  }

  /// Cuts, gathers, and takes pages for the new rows.
  Moving begin(const core::serve::Run& step) {
    Cache& cache = caches_.at(step.session);
    truncate(cache, step.cache.keep);
    if (!step.cache.reorder.empty()) {
      std::vector<int> gathered;
      for (std::int64_t b = 0; b < cache.blocks.count(); ++b) {
        for (const std::int64_t from : step.cache.reorder)
          gathered.push_back(pages_.fork(cache.sequences[static_cast<std::size_t>(b * cache.batch + from)]));
      }
      for (const int sequence : cache.sequences) pages_.close(sequence);
      cache.sequences = std::move(gathered);
    }
    Moving moving{&cache, step.cache.keep, step.cache.rows, *step.bytes, {}};
    for (const int sequence : cache.sequences) {
      // One by one: of those that share a page, the last one keeps it.
      const Sequences::Growth growth{sequence, step.cache.rows};
      for (const auto& copy : pages_.reserve(std::span(&growth, 1))) copy_page(copy.from, copy.to);
      moving.growths.push_back(growth);
    }
    return moving;
  }

  /// Runs the rows of all steps that pass a block.
  void run_block(std::int64_t b, std::vector<Moving>& all) {
    std::vector<std::vector<std::byte*>> addresses;
    std::vector<graph::Row> rows;
    std::vector<std::byte> input;
    std::vector<Moving*> passing;
    for (Moving& one : all) {
      const Cache& cache = *one.cache;
      if (b < cache.blocks.first || b >= cache.blocks.last) continue;
      passing.push_back(&one);
      for (std::int64_t i = 0; i < cache.batch; ++i) {
        const std::int64_t place = (b - cache.blocks.first) * cache.batch + i;
        const int number = static_cast<int>(addresses.size());
        auto& list = addresses.emplace_back();
        for (const auto page : pages_.at(cache.sequences[static_cast<std::size_t>(place)]).pages)
          list.push_back(address_of(page));
        for (std::int64_t k = 0; k < one.count; ++k) rows.push_back({number, one.first + k});
      }
      input.insert(input.end(), one.rows.begin(), one.rows.end());
    }
    if (passing.empty()) return;
    const std::vector<graph::Pages> tables(addresses.begin(), addresses.end());
    std::vector<std::byte> output(input.size());
    segments_[static_cast<std::size_t>(b - options_.blocks.first)]->run(input, rows, tables, output);
    std::size_t at = 0;
    for (Moving* const one : passing) {
      std::memcpy(one->rows.data(), output.data() + at, one->rows.size());
      at += one->rows.size();
    }
  }

  [[nodiscard]] std::byte* address_of(Sequences::Page page) {
    return static_cast<std::byte*>(memory_.data()) + static_cast<Bytes>(page) * page_bytes_;
  }
  void copy_page(Sequences::Page from, Sequences::Page to) {
    lane_.submit([&](typename Device::Lane& lane) {
      lane.copy(address_of(to), address_of(from), page_bytes_, device::Copy::on_device);
    });
    lane_.synchronize();
  }

  ModelBlocksOptions options_;
  typename Device::Lane lane_;
  Sequences pages_;
  std::vector<std::unique_ptr<Segment>> segments_;  // by block
  Bytes page_bytes_ = 0;
  typename Device::Buffer memory_;
  std::map<std::string, Cache> caches_;
};

}  // namespace swarm
}  // namespace v0
}  // namespace reef
