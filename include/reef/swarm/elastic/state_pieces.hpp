#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <reef/core/inline.hpp>
#include <reef/core/units.hpp>
#include <reef/trainer/model_state.hpp>
#include <reef/trainer/training.hpp>

namespace reef {
inline namespace v0 {
namespace swarm {

/// The trained weights and the optimizer's state of a trainer, in pieces (ranges) of the flat parameter vector: what a
/// peer that joins gets from others.
///
///     piece k   numbers [k n, (k + 1) n) of the layout:  weights | state.0 | state.1 | ... | master weights
///
/// | bytes  | do not depend on a trainer's cuts, swapping and memory; what no parameter or state fills is zero      |
/// | peers  | have the same model, precision and rule: another state has pieces of another length                   |
/// | who    | one process with the whole model, as of Averaged; read between two updates, on any thread if the host |
/// |        | can read the memory, else between two steps; write between two steps, then Training::set_progress     |
/// | errors | OptionError for a piece that is not there, or of another length                                       |
///
/// \code
/// // given: Training& donor, Training& joiner
/// const swarm::StatePieces from(donor, 1 << 20);
/// swarm::StatePieces to(joiner, 1 << 20);
/// for (std::int64_t k = 0; k < from.count(); ++k) to.write(k, from.read(k));
/// joiner.set_progress(donor.progress_state().committed, donor.new_micro_batches());
/// \endcode
class StatePieces {
public:
  /// Refers to `training`. `numbers`: the numbers of the flat parameter vector in each piece, 1 or more; the last one
  /// may have fewer.
  StatePieces(Training& training, std::int64_t numbers);

  [[nodiscard]] std::int64_t count() const;

  /// Returns the bytes of one piece: its range of the weights and of each optimizer state.
  [[nodiscard]] std::vector<std::byte> read(std::int64_t piece) const;
  /// Sets the weights and the optimizer state of one piece, a range of the flat parameter vector.
  void write(std::int64_t piece, std::span<const std::byte> bytes);

private:
  /// A range [first, first + elements) of the flat parameter vector, which belongs to a parameter or to a range of
  /// optimizer state.
  struct Part {
    std::int64_t first = 0;
    std::int64_t elements = 0;
    std::string_view parameter{};  ///< name of the parameter; empty: `range` is meant
    run::StateRange range{};
  };
  /// The ranges of one kind of data: the weights, or one state of the update rule.
  struct Kind {
    std::string name{};
    Element element = Element::float32;
    std::vector<Part> parts{};
  };
  /// The overlap of a parameter or state with a piece: its bytes from `offset` on are those of the piece from `at` on.
  struct Share {
    const Part& part;
    Element element;
    Bytes offset;
    Bytes at;
    Bytes bytes;
  };

  [[nodiscard]] std::int64_t elements_of(std::int64_t piece) const;
  [[nodiscard]] Bytes bytes_of(std::int64_t piece) const;
  void for_each_share(std::int64_t piece, const std::function<void(const Share&)>& visit) const;

  Training& training_;
  std::int64_t numbers_;
  std::int64_t elements_;
  std::vector<Kind> kinds_{};
};

}  // namespace swarm
}  // namespace v0
}  // namespace reef

#ifndef REEF_COMPILED
#include <reef/swarm/elastic/state_pieces.ipp>
#endif
