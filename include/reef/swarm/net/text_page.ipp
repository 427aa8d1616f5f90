#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <future>
#include <iterator>
#include <map>
#include <memory>
#include <span>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include <boost/asio/buffer.hpp>
#include <boost/beast/http.hpp>

#include <reef/core/error.hpp>
#include <reef/core/inline.hpp>
#include <reef/core/text.hpp>
#include <reef/swarm/net/detail/host_and_port.hpp>
#include <reef/swarm/net/detail/loop.hpp>
#include <reef/swarm/net/text_page.hpp>

namespace reef {
inline namespace v0 {
namespace swarm {

class TextPage::Implementation {
  using Request = boost::beast::http::request_parser<boost::beast::http::empty_body>;
  using Response = boost::beast::http::response<boost::beast::http::string_body>;

public:
  Implementation(TextPageOptions options, std::function<std::string()> text)
      : options_(checked(std::move(options))),
        text_(std::move(text)),
        listener_(loop_, options_.listen, {.loopback_only = true},
                  [this](std::unique_ptr<detail::Socket> socket) { accept(std::move(socket)); }) {
    loop_.post([this] { listener_.start(); });
  }
  ~Implementation() {
    const auto closed = std::make_shared<std::promise<void>>();
    loop_.post([this, closed] {
      listener_.close();
      sessions_.clear();
      closed->set_value();
    });
    closed->get_future().wait();
    loop_.stop();
  }
  Implementation(const Implementation&) = delete;
  Implementation& operator=(const Implementation&) = delete;

  [[nodiscard]] std::string address() const { return listener_.address(); }
  [[nodiscard]] std::string url() const { return concat("http://", address(), options_.path); }

private:
  /// A connection, the bytes of its request that are not parsed yet, and how far it has come.
  struct Session {
    std::unique_ptr<detail::Socket> socket;
    std::vector<std::byte> head{};
    Request request{};
    bool answered = false;
    bool written = false;  ///< the answer has been handed to the system
    bool half = false;     ///< the reader sends no more
  };

  static TextPageOptions checked(TextPageOptions options) {
    const std::string host = detail::host_and_port(options.listen, "address of a page").first;
    if (!detail::is_loopback(host)) {
      throw OptionError("reef::swarm::TextPage: would listen on ", options.listen,
                        ".\n  why: the page asks nobody who it is, and encrypts nothing.\n  fix: a loopback address, "
                        "such as 127.0.0.1:9100; for other machines, a proxy that asks who comes.");
    }
    if (host == "localhost") options.listen.replace(0, host.size(), "127.0.0.1");
    if (!options.path.starts_with('/') || options.head == 0 || options.connections == 0 || !(options.time > 0)) {
      throw OptionError("reef::swarm::TextPage: the path ", in_quotes(options.path), ", ", options.head, " bytes, ",
                        options.connections, " connections and ", options.time,
                        " seconds.\n  fix: a path that begins with /, and more than 0 of each.");
    }
    return options;
  }

  void accept(std::unique_ptr<detail::Socket> socket) {
    if (sessions_.size() >= options_.connections) return;
    const std::uint64_t number = ++last_session_;
    Session& session = sessions_[number];
    session.socket = std::move(socket);
    session.request.header_limit(static_cast<std::uint32_t>(options_.head));
    session.socket->on_bytes = [this, number](std::span<const std::byte> bytes) { take(number, bytes); };
    session.socket->on_written = [this, number] {
      Session& written = sessions_.at(number);
      written.written = true;
      written.socket->end_writing();
      if (written.half) end(number);
    };
    session.socket->on_half = [this, number] {
      Session& reader = sessions_.at(number);
      reader.half = true;
      if (!reader.answered || reader.written) end(number);
    };
    session.socket->on_end = [this, number](const std::string&) { end(number); };
    loop_.after(std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::duration<double>(options_.time)),
                [this, number] { end(number); });
    session.socket->start();
  }

  /// Ends a connection, outside of functions of its socket.
  void end(std::uint64_t number) {
    loop_.post([this, number] { sessions_.erase(number); });
  }

  /// Takes bytes of a request. What comes after its head, or after the answer, is not looked at.
  void take(std::uint64_t number, std::span<const std::byte> bytes) {
    namespace http = boost::beast::http;
    Session& session = sessions_.at(number);
    if (session.answered) return;
    std::vector<std::byte>& head = session.head;
    head.insert(head.end(), bytes.begin(), bytes.end());
    boost::beast::error_code error;
    const std::size_t used = session.request.put(boost::asio::buffer(head), error);
    head.erase(head.begin(), head.begin() + static_cast<std::ptrdiff_t>(used));
    if (!session.request.is_header_done() && (!error || error == http::error::need_more)) {
      if (head.size() <= options_.head) return;
      error = http::error::header_limit;
    }
    session.answered = true;
    if (session.request.is_header_done()) return answer(session, answer_to(session.request.get()));
    if (error == http::error::header_limit)
      return answer(session, refusal(431, concat("a head of more than ", options_.head, " bytes")));
    answer(session, refusal(400, concat("no HTTP: ", error.message())));
  }

  static Response refusal(unsigned status, const std::string& why) {
    Response response(static_cast<boost::beast::http::status>(status), 11);
    response.body() = why + "\n";
    response.set(boost::beast::http::field::content_type, "text/plain; charset=utf-8");
    return response;
  }

  Response answer_to(const Request::value_type& request) {
    namespace http = boost::beast::http;
    const auto hosts = request.equal_range(http::field::host);
    if (std::distance(hosts.first, hosts.second) != 1 ||
        !detail::is_loopback(detail::host_of_header(std::string(request[http::field::host])))) {
      return refusal(403, "the request is for another host: name 127.0.0.1 in the URL");
    }
    if (request.method() != http::verb::get) {
      Response response = refusal(405, "the method is not GET");
      response.set(http::field::allow, "GET");
      return response;
    }
    const std::string target(request.target());
    if (target.substr(0, target.find('?')) != options_.path)
      return refusal(404, concat("there is ", options_.path, " alone"));
    try {
      Response response(http::status::ok, 11);
      response.body() = text_();
      response.set(http::field::content_type, options_.content_type);
      return response;
    } catch (const std::exception& failure) {
      return refusal(500, failure.what());
    }
  }

  static void answer(Session& session, Response response) {
    response.keep_alive(false);
    response.prepare_payload();
    std::ostringstream text;
    text << response;
    const std::string wire = text.str();
    const auto bytes = std::as_bytes(std::span(wire));
    session.socket->write({bytes.begin(), bytes.end()});
  }

  TextPageOptions options_;
  std::function<std::string()> text_;
  detail::Loop loop_{nullptr};
  std::map<std::uint64_t, Session> sessions_{};  // on the loop's thread, as `last_session_`
  std::uint64_t last_session_ = 0;
  detail::Listener listener_;
};

REEF_INLINE TextPage::TextPage(TextPageOptions options, std::function<std::string()> text)
    : implementation_(std::make_unique<Implementation>(std::move(options), std::move(text))) {}
REEF_INLINE TextPage::~TextPage() = default;
REEF_INLINE std::string TextPage::address() const { return implementation_->address(); }
REEF_INLINE std::string TextPage::url() const { return implementation_->url(); }

}  // namespace swarm
}  // namespace v0
}  // namespace reef
