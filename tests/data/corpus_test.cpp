#include <reef/data/corpus.hpp>

#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

namespace {

using namespace reef;
namespace fs = std::filesystem;

class Corpus : public testing::Test {
protected:
  void SetUp() override {
    folder_ = fs::path(testing::TempDir()) / ("reef_corpus_" + std::to_string(::getpid()));
    fs::create_directories(folder_);
  }
  void TearDown() override { fs::remove_all(folder_); }

  fs::path write(const std::string& name, const std::string& text) {
    std::ofstream(folder_ / name, std::ios::binary) << text;
    return folder_ / name;
  }
  static std::string text_of(std::span<const std::uint8_t> tokens) {
    return {tokens.begin(), tokens.end()};
  }
  static std::string message(const std::vector<fs::path>& files) {
    try {
      const data::Corpus corpus(files);
      return "no error";
    } catch (const Error& error) {
      return error.what();
    }
  }

  fs::path folder_;
};

TEST_F(Corpus, holds_out_every_tenth_of_many_files_whatever_their_order) {
  std::vector<fs::path> files;
  std::string training;
  for (int i = 0; i < 25; ++i) {
    const std::string text = "text " + std::to_string(i) + "\n";
    files.push_back(write((i < 10 ? "0" : "") + std::to_string(i) + ".txt", text));
    if (i != 9 && i != 19) training += text;
  }
  const data::Corpus corpus(files);
  EXPECT_EQ(text_of(corpus.training()), training);
  EXPECT_EQ(text_of(corpus.validation()), "text 9\ntext 19\n");
  ASSERT_EQ(corpus.held_out_files().size(), 2U);
  EXPECT_EQ(corpus.held_out_files()[1], files[19]);
  std::reverse(files.begin(), files.end());
  const data::Corpus again(files);
  EXPECT_EQ(again.fingerprint(), corpus.fingerprint());
  EXPECT_TRUE(std::ranges::equal(again.training(), corpus.training()));
}

TEST_F(Corpus, holds_out_the_last_tenth_of_each_of_few_files) {
  const auto a = write("a", "0123456789abcdefghij");
  const auto b = write("b", "0123456789");
  const data::Corpus corpus({b, a});
  EXPECT_EQ(text_of(corpus.training()), "0123456789abcdefgh012345678");
  EXPECT_EQ(text_of(corpus.validation()), "ij9");
  const auto training = corpus.training_documents();
  ASSERT_EQ(training.size(), 2U);
  EXPECT_EQ(text_of(training[0]), "0123456789abcdefgh");
  EXPECT_EQ(text_of(training[1]), "012345678");
  const auto held_out = corpus.validation_documents();
  ASSERT_EQ(held_out.size(), 2U);
  EXPECT_EQ(text_of(held_out[1]), "9");
  EXPECT_TRUE(corpus.held_out_files().empty());
}

TEST_F(Corpus, takes_all_bytes_of_files_larger_than_its_buffer) {
  std::string large(1'000'000, 'x');
  for (std::size_t i = 0; i < large.size(); ++i) large[i] = static_cast<char>(i * 7 % 251);
  const data::Corpus corpus({write("large", large)}, data::Corpus::Contents::bytes);
  EXPECT_EQ(text_of(corpus.training()) + text_of(corpus.validation()), large);
  EXPECT_EQ(corpus.validation().size(), 100'000U);
}

TEST_F(Corpus, refuses_what_is_no_text_and_says_what_it_is) {
  std::string noise(3000, '\0');
  for (std::size_t i = 0; i < noise.size(); ++i) noise[i] = static_cast<char>(i * i * 31 >> 3);
  const std::string prose = "It was the best of times, it was the worst of times.\n";
  std::string text;
  while (text.size() < 20'000) text += prose;
  const auto refused = [&](const std::string& bytes, const std::string& why) {
    const std::string said = message({write("x", bytes)});
    EXPECT_NE(said.find(why), std::string::npos) << said;
    EXPECT_NE(said.find("x'"), std::string::npos) << said;
    EXPECT_NE(said.find("\n  fix: "), std::string::npos) << said;
    const data::Corpus corpus({write("x", bytes)}, data::Corpus::Contents::bytes);
    EXPECT_EQ(corpus.training().size(), bytes.size() - bytes.size() / 10);
  };
  refused(
      "\x7f"
      "ELF" +
          noise,
      "a program (ELF)");
  refused("\x89PNG\r\n" + noise, "an image (PNG)");
  refused("\x1f\x8b\x08" + noise, "compressed (gzip)");
  refused("PAR1" + noise, "a table of Parquet");
  refused("%PDF-1.4\n" + noise, "a document (PDF)");
  refused("\x93NUMPY" + noise, "name it .npy");
  refused(std::string("\x40\0\0\0\0\0\0\0{\"a\"", 12) + noise, "tensors (.safetensors)");
  refused("\xff\xfe" + noise, "text of UTF-16");
  refused(noise, "zeros or control characters");
  refused(text + noise, "of the 2554 bytes from byte 20480 on");
  refused(text + std::string(4096, '\0') + text, "zeros or control characters");
  std::string wide;
  for (const char c : text) wide += {c, '\0'};
  refused(wide, "zeros or control characters");
  std::string koi8;
  for (std::size_t i = 0; i < 3000; ++i)
    koi8 += i % 7 == 0 ? ' ' : static_cast<char>(0xc0 + i * 31 % 32);
  refused(koi8, "it is no UTF-8");
}

TEST_F(Corpus, takes_text_of_any_language_and_with_some_odd_bytes) {
  const auto taken = [&](std::string text) {
    for (const std::string once = text; text.size() < 10'000;) text += once;
    const data::Corpus corpus({write("x", text)});
    EXPECT_EQ(corpus.training().size(), text.size() - text.size() / 10);
  };
  taken("\xf0\x9f\x90\xa0\xf0\x9f\xa6\x80 emoji\n");
  taken("\xe4\xb8\xad\xe6\x96\x87\xe6\x96\x87\xe6\x9c\xac");
  taken("\xd0\xba\xd0\xbe\xd1\x80\xd0\xb0\xd0\xbb\xd0\xbb\n");
  taken(
      "Gr\xfc\xdf"
      "e aus M\xfcnchen, s'il vous pla\xeet\n");  // Latin-1
  taken(
      "\xef\xbb\xbf"
      "a mark before it\r\n");
  taken("\x1b[31mred\x1b[0m and a form feed\f\n");
  taken(
      "records of a hundred bytes, which a zero byte divides, since their fields are what they "
      "are" +
      std::string(1, '\0'));
  taken("PAR1 is how a text may begin, or RIFF, or BZh91\n");
  const data::Corpus corpus({write("x", "x" + std::string(1, '\0') + std::string(28, 'y'))});
  EXPECT_EQ(corpus.training().size(), 27U);
}

TEST_F(Corpus, a_changed_byte_changes_the_fingerprint) {
  const std::string text(100, 'a');
  const data::Corpus before({write("a", text)});
  const data::Corpus after({write("a", text.substr(1) + "b")});
  EXPECT_NE(before.fingerprint(), after.fingerprint());
}

TEST_F(Corpus, names_a_file_that_it_cannot_use_and_the_fix) {
  const auto good = write("good", std::string(100, 'a'));
  const std::string missing = message({good, folder_ / "missing.txt"});
  EXPECT_NE(missing.find("missing.txt': there is no such file"), std::string::npos) << missing;
  EXPECT_NE(missing.find("fix: check the path"), std::string::npos) << missing;
  const std::string empty = message({good, write("empty", "")});
  EXPECT_NE(empty.find("empty': it is empty"), std::string::npos) << empty;
  const std::string directory = message({folder_});
  EXPECT_NE(directory.find("it is a folder"), std::string::npos) << directory;
  EXPECT_NE(message({}).find("no files"), std::string::npos);
  EXPECT_NE(message({good, good}).find("named twice"), std::string::npos);
  const auto otherwise = good.parent_path() / "." / good.filename();
  EXPECT_NE(message({good, otherwise}).find("named twice"), std::string::npos);
  EXPECT_NE(message({write("tiny", "abc")}).find("too few"), std::string::npos);
  if (::geteuid() != 0) {
    fs::permissions(good, fs::perms::none);
    EXPECT_NE(message({good}).find("make it readable"), std::string::npos);
  }
}

}  // namespace
