// Runs a fuzz target where libFuzzer is not: driver [--runs N] [--from N] [--seconds N] CORPUS...
//
// First every file of the corpus as it is, then N inputs that are drawn from them: mutation i is
// always the same, so a failure comes back with `--from i --runs 1`. An input that ends the program
// is left in ./crash-TARGET; so is one that takes more than so many seconds of the processor, 20 if
// not said: a machine on which others compute is no hang.

#include <malloc.h>
#include <signal.h>
#include <sys/time.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <new>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <reef/core/random.hpp>

#include "target.hpp"

namespace {

// -- memory ------------------------------------------------------------------------------------

std::size_t held = 0;
std::size_t max_held = 0;

void* take(std::size_t size) {
  void* const memory = std::malloc(size);
  if (memory == nullptr) throw std::bad_alloc();
  held += malloc_usable_size(memory);
  max_held = std::max(max_held, held);
  return memory;
}

void give_back(void* memory) {
  held -= memory != nullptr ? malloc_usable_size(memory) : 0;
  std::free(memory);
}

}  // namespace

void* operator new(std::size_t size) { return take(size); }
void* operator new[](std::size_t size) { return take(size); }
// What is asked for without exceptions, as by std::stable_sort, is given back like the rest.
void* operator new(std::size_t size, const std::nothrow_t& /*tag*/) noexcept try {
  return take(size);
} catch (const std::bad_alloc&) {
  return nullptr;
}
void operator delete(void* memory) noexcept { give_back(memory); }
void operator delete[](void* memory) noexcept { give_back(memory); }
void operator delete(void* memory, std::size_t /*size*/) noexcept { give_back(memory); }
void operator delete[](void* memory, std::size_t /*size*/) noexcept { give_back(memory); }

// Where a sanitizer is linked, it says so before it ends the program.
extern "C" void __attribute__((weak)) __sanitizer_set_death_callback(void (*callback)());

namespace {

/// JSON takes 20 bytes and more for one of "[],[],", and a read begins with 64 KiB.
constexpr std::size_t memory_per_byte = 64;
constexpr std::size_t memory_at_all = std::size_t{1} << 18;

// -- the input that is being read --------------------------------------------------------------

std::string target;
std::string current;
long long number = -1;  // of the mutation; below 0 while the corpus is replayed
long long seconds_per_run = 20;

void leave_input() {
  const std::string name = "crash-" + target;
  if (std::FILE* const file = std::fopen(name.c_str(), "wb"); file != nullptr) {
    std::fwrite(current.data(), 1, current.size(), file);
    std::fclose(file);
  }
  std::fprintf(stderr, "%s: run %lld ends the program; its %zu bytes are in %s\n", target.c_str(),
               number, current.size(), name.c_str());
}

void on_signal(int signal) {
  ::signal(signal, SIG_DFL);
  if (signal == SIGPROF)
    std::fprintf(stderr, "%s: longer than %lld s\n", target.c_str(), seconds_per_run);
  leave_input();
  ::raise(signal);
}

/// Ends the program after so many seconds of its own; 0: never.
void end_after(long long seconds) {
  ::itimerval limit{};
  limit.it_value.tv_sec = seconds;
  ::setitimer(ITIMER_PROF, &limit, nullptr);
}

void run() {
  // Of just its size, so that AddressSanitizer sees what reads on behind it.
  const std::vector<std::uint8_t> exact(current.begin(), current.end());
  const std::size_t before = held;
  max_held = held;
  end_after(seconds_per_run);
  try {
    LLVMFuzzerTestOneInput(exact.data(), exact.size());
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s: no reef::Error, but: %s\n", target.c_str(), error.what());
    std::abort();
  }
  end_after(0);
  if (max_held - before > memory_at_all + memory_per_byte * current.size()) {
    std::fprintf(stderr, "%s: %zu bytes of memory for an input of %zu\n", target.c_str(),
                 max_held - before, current.size());
    std::abort();
  }
}

// -- mutations ---------------------------------------------------------------------------------

constexpr std::array<std::string_view, 37> words{"{",
                                                 "}",
                                                 "[",
                                                 "]",
                                                 ",",
                                                 ":",
                                                 "\"",
                                                 "\\",
                                                 "\n",
                                                 "null",
                                                 "true",
                                                 "{}",
                                                 "[]",
                                                 "[[[[[[[[",
                                                 "\"\"",
                                                 "\"a\":",
                                                 ",\"a\":1",
                                                 "\\u0000",
                                                 "\\ud800",
                                                 "\xff",
                                                 "\xe2\x82\xac",
                                                 "0",
                                                 "-1",
                                                 "-0",
                                                 "0.5",
                                                 "1e999",
                                                 "1e-999",
                                                 "1e308",
                                                 "2147483648",
                                                 "4294967296",
                                                 "9223372036854775807",
                                                 "-9223372036854775808",
                                                 "18446744073709551615",
                                                 "18446744073709551616",
                                                 "4611686018427387904",
                                                 "F32",
                                                 "../"};
constexpr std::array<std::uint64_t, 12> numbers{0,
                                                1,
                                                0x7F,
                                                0x80,
                                                0xFFFF,
                                                0x7FFFFFFF,
                                                0x80000000,
                                                0xFFFFFFFF,
                                                0x7FFFFFFFFFFFFFFF,
                                                0x8000000000000000,
                                                0x7FF8000000000000,
                                                0xFFFFFFFFFFFFFFFF};

/// The draws of one mutation.
class Draws {
public:
  explicit Draws(std::uint64_t mutation) : stream_({.seed = 20, .sample = mutation}) {}
  /// From 0 to n - 1; 0 if n is 0.
  std::size_t below(std::size_t n) {
    const std::uint32_t word = stream_.block(at_ / 4).word[at_ % 4];
    ++at_;
    return n == 0 ? 0 : word % n;
  }

private:
  reef::RandomStream stream_;
  std::uint64_t at_ = 0;
};

void mutate(std::string& bytes, const std::vector<std::string>& corpus, Draws& draws) {
  const std::size_t at = draws.below(bytes.size() + 1);
  const std::size_t rest = bytes.size() - at;
  switch (draws.below(9)) {
    case 0:
      if (rest != 0) bytes[at] = static_cast<char>(bytes[at] ^ (1 << draws.below(8)));
      break;
    case 1:
      if (rest != 0) bytes[at] = static_cast<char>(draws.below(256));
      break;
    case 2: bytes.erase(at, 1 + draws.below(16)); break;
    case 3: bytes.insert(at, words[draws.below(words.size())]); break;
    case 4: {
      const std::string_view word = words[draws.below(words.size())];
      bytes.replace(at, std::min(rest, word.size()), word);
      break;
    }
    case 5: {
      const std::uint64_t value = numbers[draws.below(numbers.size())] - draws.below(3);
      const std::size_t width = std::min(rest, std::size_t{1} << draws.below(4));
      std::memcpy(bytes.data() + at, &value, width);
      break;
    }
    case 6:
      bytes.insert(at, std::string(bytes, draws.below(bytes.size()), 1 + draws.below(64)));
      break;
    case 7: {
      const std::string& other = corpus[draws.below(corpus.size())];
      bytes = bytes.substr(0, at) + other.substr(draws.below(other.size()));
      break;
    }
    default: bytes.resize(at); break;
  }
}

std::vector<std::string> read_corpus(const std::vector<std::string>& folders) {
  std::vector<std::filesystem::path> paths;
  for (const std::string& folder : folders) {
    for (const auto& entry : std::filesystem::directory_iterator(folder))
      paths.push_back(entry.path());
  }
  std::sort(paths.begin(), paths.end());
  std::vector<std::string> corpus;
  for (const auto& path : paths) {
    std::ifstream file(path, std::ios::binary);
    corpus.emplace_back(std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>());
  }
  return corpus;
}

}  // namespace

int main(int argc, char** argv) {
  long long runs = 10'000;
  long long from = 0;
  std::vector<std::string> folders;
  for (int i = 1; i < argc; ++i) {
    const std::string_view option = argv[i];
    long long* const value = option == "--runs"      ? &runs
                             : option == "--from"    ? &from
                             : option == "--seconds" ? &seconds_per_run
                                                     : nullptr;
    if (value != nullptr && i + 1 < argc) {
      *value = std::atoll(argv[++i]);
    } else {
      folders.emplace_back(option);
    }
  }
  target = std::filesystem::path(argv[0]).filename().string();
  const std::vector<std::string> corpus = read_corpus(folders);
  if (corpus.empty()) {
    std::fprintf(stderr, "%s: no corpus: %s [--runs N] [--from N] [--seconds N] CORPUS...\n", argv[0], argv[0]);
    return 2;
  }
  for (const int signal : {SIGABRT, SIGBUS, SIGFPE, SIGILL, SIGPROF, SIGSEGV})
    ::signal(signal, on_signal);
  if (__sanitizer_set_death_callback != nullptr) __sanitizer_set_death_callback(leave_input);

  for (const std::string& input : corpus) {
    current = input;
    run();
  }
  for (number = from; number < from + runs; ++number) {
    Draws draws(static_cast<std::uint64_t>(number));
    current = corpus[draws.below(corpus.size())];
    for (std::size_t i = 1 + draws.below(6); i > 0; --i) mutate(current, corpus, draws);
    if (current.size() > 16384) current.resize(16384);
    run();
  }
  std::printf("%s: %zu inputs of the corpus and %lld drawn ones were read or refused\n",
              target.c_str(), corpus.size(), runs);
  return 0;
}
