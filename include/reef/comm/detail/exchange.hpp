#pragma once

#include <string_view>
#include <vector>

#include <reef/comm/detail/exchange_plan.hpp>
#include <reef/comm/detail/station.hpp>
#include <reef/comm/message.hpp>

namespace reef {
inline namespace v0 {
namespace comm::detail {

/// How a collective moves its data. Models: MessageExchange, WindowExchange, DirectExchange; all give
/// the same bits. Progress thread only; nothing blocks. Station and plan live until done().
class Exchange {
public:
  virtual void start(const Station& station, const ExchangePlan& plan, const Header& prototype,
                     Kind kind, std::string_view name) = 0;
  virtual bool advance() = 0;  ///< true if something moved
  [[nodiscard]] virtual bool done() const = 0;
  [[nodiscard]] virtual Awaited awaited() const { return {}; }
  virtual void missing(std::vector<int>& ranks) const = 0;  ///< who has not arrived

protected:
  ~Exchange() = default;
};

}  // namespace comm::detail
}  // namespace v0
}  // namespace reef
