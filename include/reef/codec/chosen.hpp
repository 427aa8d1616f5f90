#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include <reef/codec/adjust.hpp>
#include <reef/codec/concept.hpp>
#include <reef/core/error.hpp>
#include <reef/core/inline.hpp>
#include <reef/core/units.hpp>

namespace reef {
inline namespace v0 {
namespace codec {

/// A codec of any type, chosen at run time: of(text) creates a codec of the table below, the constructor holds any
/// other. An empty Chosen (the text "none") holds no codec: its users send numbers as they are.
///
///     [FEEDBACK+] CODEC [+ CODEC]
///
/// | FEEDBACK | ef, ef:DECAY (ErrorFeedback); ef21 (Ef21)                                                        |
/// | selects  | top-k:RATIO, random-k:RATIO, chunk-top-k:KEEP/CHUNK; a second CODEC encodes the selected numbers |
/// | encodes  | dense, bf16, fp8:BLOCK, blockwise8:BLOCK, uniform8, nf4:BLOCK, two-bit, sign:BLOCK               |
/// | no codec | none                                                                                             |
/// | cost     | a call through a pointer for each message, and the codec's own cost                              |
/// | errors   | OptionError for a text that is none of these, or a number that the codec does not accept         |
///
/// \code
/// const codec::Chosen format = codec::Chosen::of("ef:0.95+chunk-top-k:64/4096+two-bit");
/// const Bytes most = format.encoded_bytes(1 << 20);
/// \endcode
class Chosen {
public:
  // The constants that every codec has, for a Chosen: its codec is not known yet, so that these constants promise
  // nothing.
  static constexpr std::string_view name = "chosen";
  static constexpr bool exact = false;
  static constexpr bool lossless = false;
  static constexpr bool linear = false;
  static constexpr bool known_later = true;

  Chosen() = default;
  template <class C>
    requires(!std::is_same_v<C, Chosen> && any_codec<C> &&  // first, so that any_codec<Chosen> is not evaluated here
             !requires(const C& format) { format.period; })  // not for Delta: only a channel keeps its memories
  explicit Chosen(C format, std::string text = std::string(C::name))
      : held_(std::make_shared<const Model<C>>(std::move(format), std::move(text))) {}

  static Chosen of(std::string_view text);

  explicit operator bool() const { return held_ != nullptr; }
  [[nodiscard]] std::string text() const { return held_ ? held_->text : "none"; }
  [[nodiscard]] bool is_exact() const { return !held_ || held_->is_exact(); }
  [[nodiscard]] bool is_lossless() const { return !held_ || held_->is_lossless(); }

  [[nodiscard]] Bytes encoded_bytes(std::int64_t n) const { return held().encoded_bytes(n); }
  [[nodiscard]] std::int64_t kept(std::int64_t n) const { return held().kept(n); }
  [[nodiscard]] std::int64_t state(std::int64_t n) const { return held().state(n); }
  [[nodiscard]] std::int64_t received_state(std::int64_t n) const { return held().received_state(n); }
  Bytes encode(std::span<const float> values, std::span<const float> state, std::span<float> next,
               std::span<std::byte> message, const Threads& threads = {}) const {
    return held().encode(values, state, next, message, threads);
  }
  void decode(std::span<const std::byte> message, std::span<const float> state, std::span<float> next,
              std::span<float> values, const Threads& threads = {}) const {
    held().decode(message, state, next, values, threads);
  }

  /// Returns true if the codec has a compression ratio; if it has none, get_ratio and with_ratio throw OptionError.
  [[nodiscard]] bool takes_ratio() const { return held().takes_ratio(); }
  [[nodiscard]] double get_ratio() const { return held().get_ratio(); }
  [[nodiscard]] Chosen with_ratio(double ratio) const { return Chosen(held().with_ratio(ratio)); }
  [[nodiscard]] Chosen for_message(std::uint64_t number) const { return Chosen(held().for_message(number)); }

private:
  struct Interface {
    explicit Interface(std::string its_text) : text(std::move(its_text)) {}
    Interface(const Interface&) = delete;
    Interface& operator=(const Interface&) = delete;
    virtual ~Interface() = default;
    [[nodiscard]] virtual bool is_exact() const = 0;
    [[nodiscard]] virtual bool is_lossless() const = 0;
    [[nodiscard]] virtual Bytes encoded_bytes(std::int64_t n) const = 0;
    [[nodiscard]] virtual std::int64_t kept(std::int64_t n) const = 0;
    [[nodiscard]] virtual std::int64_t state(std::int64_t n) const = 0;
    [[nodiscard]] virtual std::int64_t received_state(std::int64_t n) const = 0;
    virtual Bytes encode(std::span<const float> values, std::span<const float> state, std::span<float> next,
                         std::span<std::byte> message, const Threads& threads) const = 0;
    virtual void decode(std::span<const std::byte> message, std::span<const float> state, std::span<float> next,
                        std::span<float> values, const Threads& threads) const = 0;
    [[nodiscard]] virtual bool takes_ratio() const = 0;
    [[nodiscard]] virtual double get_ratio() const = 0;
    [[nodiscard]] virtual std::shared_ptr<const Interface> with_ratio(double ratio) const = 0;
    [[nodiscard]] virtual std::shared_ptr<const Interface> for_message(std::uint64_t number) const = 0;

    std::string text;
  };

  template <class C>
  struct Model final : Interface {
    Model(C its_format, std::string its_text) : Interface(std::move(its_text)), format(std::move(its_format)) {}

    [[nodiscard]] bool is_exact() const override { return C::exact; }
    [[nodiscard]] bool is_lossless() const override { return C::lossless; }
    [[nodiscard]] Bytes encoded_bytes(std::int64_t n) const override { return format.encoded_bytes(n); }
    [[nodiscard]] std::int64_t kept(std::int64_t n) const override { return kept_of(format, n); }
    [[nodiscard]] std::int64_t state(std::int64_t n) const override { return state_of(format, n); }
    [[nodiscard]] std::int64_t received_state(std::int64_t n) const override { return received_state_of(format, n); }
    Bytes encode(std::span<const float> values, std::span<const float> state, std::span<float> next,
                 std::span<std::byte> message, const Threads& threads) const override {
      return codec::encode(format, values, state, next, message, threads);
    }
    void decode(std::span<const std::byte> message, std::span<const float> state, std::span<float> next,
                std::span<float> values, const Threads& threads) const override {
      codec::decode(format, message, state, next, values, threads);
    }
    [[nodiscard]] bool takes_ratio() const override { return has_ratio<C>; }
    [[nodiscard]] double get_ratio() const override {
      if constexpr (has_ratio<C>) {
        return ratio_of(format);
      } else {
        refuse_ratio();
      }
    }
    [[nodiscard]] std::shared_ptr<const Interface> with_ratio([[maybe_unused]] double ratio) const override {
      if constexpr (has_ratio<C>) {
        return std::make_shared<const Model>(codec::with_ratio(format, ratio), this->text);
      } else {
        refuse_ratio();
      }
    }
    [[noreturn]] void refuse_ratio() const {
      throw OptionError("reef::codec::Chosen: '", this->text,
                        "' has no ratio.\n  why: it sends every number, or its own "
                        "share of each chunk.\n  fix: top-k or random-k.");
    }
    [[nodiscard]] std::shared_ptr<const Interface> for_message(std::uint64_t number) const override {
      return std::make_shared<const Model>(codec::for_message(format, number), this->text);
    }

    C format;
  };

  explicit Chosen(std::shared_ptr<const Interface> held) : held_(std::move(held)) {}
  [[nodiscard]] const Interface& held() const {
    if (held_) return *held_;
    throw OptionError(
        "reef::codec::Chosen: there is no codec.\n  fix: Chosen::of(text), or leave numbers as they are.");
  }

  std::shared_ptr<const Interface> held_{};
};

static_assert(codec_with_memory<Chosen>);

}  // namespace codec
}  // namespace v0
}  // namespace reef

#ifndef REEF_COMPILED
#include <reef/codec/chosen.ipp>
#endif
