#include <reef/swarm/net/text_page.hpp>

#include <chrono>
#include <cstdint>
#include <memory>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <reef/core/error.hpp>
#include <support/raw_connection.hpp>

namespace {

using namespace reef;
using swarm::TextPage;
using test::RawConnection;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::StartsWith;

RawConnection connect(const TextPage& page) {
  const std::string address = page.address();
  return RawConnection(static_cast<std::uint16_t>(std::stoi(address.substr(address.rfind(':') + 1))));
}

std::string answer_to(const TextPage& page, const std::string& request) {
  const RawConnection reader = connect(page);
  reader.send(request);
  return reader.all();
}

std::string get(const std::string& path, const std::string& host = "127.0.0.1:9100") {
  return "GET " + path + " HTTP/1.1\r\nHost: " + host + "\r\n\r\n";
}

TEST(TextPage, serves_what_its_function_returns_each_time) {
  int count = 0;
  const TextPage page({.time = 60}, [&count] { return "count " + std::to_string(++count) + "\n"; });
  EXPECT_THAT(page.url(), StartsWith("http://127.0.0.1:"));
  const std::string first = answer_to(page, get("/metrics"));
  EXPECT_THAT(first, StartsWith("HTTP/1.1 200 OK\r\n"));
  EXPECT_THAT(first, HasSubstr("Content-Type: text/plain; version=0.0.4; charset=utf-8\r\n"));
  EXPECT_THAT(first, HasSubstr("Content-Length: 8\r\n"));
  EXPECT_TRUE(first.ends_with("\r\n\r\ncount 1\n")) << first;
  EXPECT_TRUE(answer_to(page, get("/metrics?name=x", "localhost")).ends_with("count 2\n"));
  EXPECT_TRUE(answer_to(page, get("/metrics", "[::1]:9100")).ends_with("count 3\n"));
}

TEST(TextPage, takes_a_request_that_comes_byte_by_byte) {
  const TextPage page({.time = 60}, [] { return std::string("text\n"); });
  const RawConnection reader = connect(page);
  for (const char byte : get("/metrics")) {
    reader.send(std::string(1, byte));
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  EXPECT_TRUE(reader.all().ends_with("\r\n\r\ntext\n"));
}

TEST(TextPage, answers_whole_who_ends_the_sending_behind_a_request) {
  // More than the buffers of both sockets hold, to a reader that waits.
  const TextPage page({.time = 60}, [] { return std::string(20'000'000, 'x'); });
  const RawConnection reader = connect(page);
  reader.send(get("/metrics"));
  ::shutdown(reader.handle(), SHUT_WR);
  std::this_thread::sleep_for(std::chrono::milliseconds(100));
  EXPECT_GT(reader.all().size(), 20'000'000U);
  const RawConnection unfinished = connect(page);
  unfinished.send("GET /metr");
  EXPECT_THAT(unfinished.rest(), IsEmpty());
}

TEST(TextPage, refuses_other_methods_paths_and_hosts_without_a_call) {
  const TextPage page({.time = 60}, []() -> std::string {
    ADD_FAILURE() << "it is called";
    return "secret";
  });
  const auto refused = [&page](const std::string& request, const std::string& status) {
    const std::string answer = answer_to(page, request);
    EXPECT_THAT(answer, StartsWith("HTTP/1.1 " + status)) << request;
    EXPECT_EQ(answer.find("secret"), std::string::npos);
  };
  refused("POST /metrics HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0\r\n\r\n", "405");
  EXPECT_THAT(answer_to(page, "HEAD /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n"), HasSubstr("Allow: GET\r\n"));
  refused(get("/"), "404");
  refused(get("/metrics/more"), "404");
  refused(get("/metrics", "example.org"), "403");
  refused(get("/metrics", "example.org:9100"), "403");
  refused(get("/metrics", "127.0.0.1.example.org"), "403");
  refused(get("/metrics", "[::1"), "403");
  refused(get("/metrics", ""), "403");
  refused("GET /metrics HTTP/1.1\r\n\r\n", "403");
  refused("GET /metrics HTTP/1.1\r\nHost: localhost\r\nHost: example.org\r\n\r\n", "403");
  refused("no http at all\r\n\r\n", "400");
  refused(std::string(100, '\0'), "400");
  refused("GET /metrics HTTP/1.1\r\nHost: localhost\r\nX: " + std::string(9000, 'x') + "\r\n\r\n", "431");
  refused(std::string(9000, 'G'), "4");
}

TEST(TextPage, says_what_its_function_throws_and_serves_again) {
  bool fails = true;
  const TextPage page({.time = 60}, [&fails]() -> std::string {
    if (std::exchange(fails, false)) throw std::runtime_error("no report yet");
    return "text\n";
  });
  const std::string answer = answer_to(page, get("/metrics"));
  EXPECT_THAT(answer, StartsWith("HTTP/1.1 500"));
  EXPECT_THAT(answer, HasSubstr("no report yet"));
  EXPECT_TRUE(answer_to(page, get("/metrics")).ends_with("text\n"));
}

TEST(TextPage, ends_connections_of_who_says_nothing_and_those_that_are_too_many) {
  const TextPage page({.connections = 2, .time = 0.5}, [] { return std::string("text\n"); });
  {
    const RawConnection one = connect(page);
    const RawConnection two = connect(page);
    const RawConnection third = connect(page);
    EXPECT_THAT(third.all(), IsEmpty());
    one.send("GET /metr");
    EXPECT_THAT(one.all(), IsEmpty());
    EXPECT_THAT(two.all(), IsEmpty());
  }
  std::string answer;  // empty where the request took longer than the page waits
  for (int tries = 0; tries < 100 && answer.empty(); ++tries) answer = answer_to(page, get("/metrics"));
  EXPECT_TRUE(answer.ends_with("text\n"));
}

TEST(TextPage, serves_many_readers_at_once_and_ends_with_some_that_are_there) {
  auto page = std::make_unique<TextPage>(swarm::TextPageOptions{.connections = 64, .time = 60},
                                         [] { return std::string(300'000, 'x'); });
  {
    std::vector<std::jthread> readers;
    for (int reader = 0; reader < 8; ++reader) {
      readers.emplace_back([&page] {
        for (int k = 0; k < 4; ++k) EXPECT_GT(answer_to(*page, get("/metrics")).size(), 300'000U);
      });
    }
  }
  const RawConnection silent = connect(*page);
  const RawConnection unread = connect(*page);
  unread.send(get("/metrics"));
  page.reset();
  EXPECT_THAT(silent.all(), IsEmpty());
}

TEST(TextPage, listens_on_addresses_of_this_machine_alone) {
  const auto text = [] { return std::string(); };
  for (const std::string address : {"0.0.0.0:0", "10.0.0.1:0", "example.org:80"}) {
    try {
      const TextPage page({.listen = address}, text);
      ADD_FAILURE() << address;
    } catch (const OptionError& error) {
      EXPECT_THAT(error.what(), HasSubstr(address));
      EXPECT_THAT(error.what(), HasSubstr("fix: a loopback address"));
    }
  }
  EXPECT_THROW(TextPage({.listen = "127.0.0.1"}, text), OptionError);
  EXPECT_THROW(TextPage({.path = "metrics"}, text), OptionError);
  EXPECT_THROW(TextPage({.time = 0}, text), OptionError);
  const TextPage page({.listen = "localhost:0"}, text);
  EXPECT_THAT(page.address(), StartsWith("127.0.0.1:"));
  EXPECT_THROW(TextPage({.listen = page.address()}, text), Error) << "the port is taken";
}

}  // namespace
