// Bytes per second and round trips of swarm::Endpoint over loopback, plain and with TLS, beside the machine's copy and
// the cipher alone, which bound it. Both ends run in this process, each with a thread of its own. CPU seconds, of all
// threads, tell costs apart where other programs have the cores.
//
//   transport [MESSAGES [REPETITIONS]]      messages of 1 MiB (512); medians over repetitions (5)

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <filesystem>
#include <functional>
#include <future>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <openssl/evp.h>
#include <unistd.h>

#include <reef/swarm/net/endpoint.hpp>
#include <reef/swarm/net/keys.hpp>

namespace {

using namespace reef;
using Clock = std::chrono::steady_clock;

constexpr std::size_t message_bytes = 1 << 20;

double seconds_since(Clock::time_point begin) { return std::chrono::duration<double>(Clock::now() - begin).count(); }

/// Returns the CPU seconds of all threads of this process since it began.
double cpu_seconds() { return static_cast<double>(std::clock()) / CLOCKS_PER_SEC; }

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

std::vector<double> repeated(int repetitions, const std::function<double()>& measure) {
  std::vector<double> values;
  for (int i = 0; i < repetitions; ++i) values.push_back(measure());
  return values;
}

/// Prints the medians of MB/s, and of CPU seconds for each GB, of what moves `bytes` bytes and returns its seconds.
void report_rate(const char* name, double bytes, int repetitions, const std::function<double()>& move) {
  std::vector<double> rates;
  const std::vector<double> costs = repeated(repetitions, [&] {
    const double before = cpu_seconds();
    rates.push_back(bytes / 1e6 / move());
    return (cpu_seconds() - before) / (bytes / 1e9);
  });
  std::printf("%-24s %8.0f MB/s %8.3f CPU s/GB\n", name, median(rates), median(costs));
}

/// Returns the seconds of copies of 64 KiB within 64 MiB.
double copy(int messages) {
  std::vector<std::byte> from(64 << 20, std::byte{1});
  std::vector<std::byte> to(64 << 20, std::byte{2});
  constexpr std::size_t slice = 64 << 10;
  const auto begin = Clock::now();
  for (std::size_t i = 0; i < static_cast<std::size_t>(messages) * (message_bytes / slice); ++i) {
    const std::size_t at = i * slice % from.size();
    std::memcpy(to.data() + at, from.data() + at, slice);
  }
  const double seconds = seconds_since(begin);
  return to.front() == std::byte{1} ? seconds : 0;
}

/// Returns the seconds in which AES-128-GCM encrypts records of 16 KiB: `openssl speed -evp aes-128-gcm -bytes 16384`.
double encrypt(int messages) {
  constexpr int record = 16 << 10;
  std::vector<unsigned char> plain(record, 1);
  std::vector<unsigned char> encrypted(record + 16);
  const std::vector<unsigned char> key(16, 3);
  const std::vector<unsigned char> nonce(12, 4);
  unsigned char tag[16];
  const std::unique_ptr<EVP_CIPHER_CTX, void (*)(EVP_CIPHER_CTX*)> context(EVP_CIPHER_CTX_new(), EVP_CIPHER_CTX_free);
  EVP_EncryptInit_ex(context.get(), EVP_aes_128_gcm(), nullptr, key.data(), nonce.data());
  const auto begin = Clock::now();
  const int records = messages * static_cast<int>(message_bytes / record);
  for (int i = 0; i < records; ++i) {
    int size = 0;
    EVP_EncryptInit_ex(context.get(), nullptr, nullptr, nullptr, nonce.data());
    EVP_EncryptUpdate(context.get(), encrypted.data(), &size, plain.data(), record);
    EVP_EncryptFinal_ex(context.get(), encrypted.data() + size, &size);
    EVP_CIPHER_CTX_ctrl(context.get(), EVP_CTRL_GCM_GET_TAG, sizeof tag, tag);
  }
  return seconds_since(begin);
}

/// Two connected endpoints: `a` sends bulk and beats, and `b` answers each with a beat.
class Pair {
public:
  Pair(swarm::EndpointOptions first, swarm::EndpointOptions second) {
    swarm::EndpointEvents of_a;
    of_a.on_connected = [this](const swarm::RemotePeer&) { connected_.set_value(); };
    of_a.on_frame = [this](const swarm::RemotePeer&, const swarm::Frame&) { answered(); };
    swarm::EndpointEvents of_b;
    of_b.on_frame = [this](const swarm::RemotePeer& peer, const swarm::Frame&) {
      b_->send(peer.name, swarm::Frame::control(swarm::FrameKind::beat, "{}"));
    };
    b_ = std::make_unique<swarm::Endpoint>(std::move(second), of_b);
    b_->start();
    a_ = std::make_unique<swarm::Endpoint>(std::move(first), of_a);
    a_->connect(b_->address());
    connected_.get_future().get();
  }

  /// Sends `count` frames, at most `window` unanswered, and returns the seconds until all are answered.
  double exchange(const swarm::Frame& frame, int count, int window) {
    const auto begin = Clock::now();
    done_ = {};
    a_->post([&] {
      frame_ = frame;
      unsent_ = count;
      unanswered_ = count;
      for (int i = 0; i < window; ++i) send();
    });
    done_.get_future().get();
    return seconds_since(begin);
  }

private:
  void send() {
    if (unsent_ == 0) return;
    --unsent_;
    if (a_->send("b", frame_) != swarm::Sent::queued) std::abort();
  }

  void answered() {
    send();
    if (--unanswered_ == 0) done_.set_value();
  }

  std::promise<void> connected_;
  std::promise<void> done_;
  swarm::Frame frame_;
  int unsent_ = 0;
  int unanswered_ = 0;
  std::unique_ptr<swarm::Endpoint> b_;
  std::unique_ptr<swarm::Endpoint> a_;
};

void report(const char* name, int messages, int repetitions, swarm::EndpointOptions a, swarm::EndpointOptions b) {
  a.listen = {};
  b.listen = "127.0.0.1:0";
  Pair pair(std::move(a), std::move(b));
  const auto bulk = swarm::Frame::bulk({.stream = 1}, std::vector<std::byte>(message_bytes, std::byte{7}));
  const auto beat = swarm::Frame::control(swarm::FrameKind::beat, "{}");
  pair.exchange(bulk, 32, 16);
  report_rate(name, messages * double{message_bytes}, repetitions,
              [&] { return pair.exchange(bulk, messages, 16); });
  const double trip = median(repeated(repetitions, [&] { return pair.exchange(beat, 1000, 1) / 1000; }));
  std::printf("%-24s %8.1f us round trip\n", "", trip * 1e6);
}

}  // namespace

int main(int argc, char** argv) {
  const int messages = argc > 1 ? std::max(1, std::atoi(argv[1])) : 512;
  const int repetitions = argc > 2 ? std::max(1, std::atoi(argv[2])) : 5;
  const double bytes = messages * double{message_bytes};
  report_rate("memcpy, 64 KiB", bytes, repetitions, [&] { return copy(messages); });
  report_rate("AES-128-GCM, 16 KiB", bytes, repetitions, [&] { return encrypt(messages); });
  swarm::EndpointOptions a;
  a.job = "bench";
  a.name = "a";
  a.plain_loopback = true;
  swarm::EndpointOptions b = a;
  b.name = "b";
  report("plain, 1 MiB messages", messages, repetitions, a, b);

  std::string folder = (std::filesystem::temp_directory_path() / "reef-transport-XXXXXX").string();
  if (::mkdtemp(folder.data()) == nullptr) return 1;
  swarm::Keys keys = swarm::Keys::make(folder, "bench");
  for (swarm::EndpointOptions* options : {&a, &b}) {
    keys.issue("peer", options->name);
    options->plain_loopback = false;
    options->tls = keys.files(options->name);
  }
  report("TLS 1.3, 1 MiB messages", messages, repetitions, a, b);
  std::filesystem::remove_all(folder);
}
