#include "auth/key_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <sstream>

namespace sumcast::auth {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

class KeyFileTest : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = ::testing::TempDir() + "key_file_XXXXXX";
    ASSERT_NE(::mkdtemp(pattern.data()), nullptr);
    directory_ = pattern;
    path_ = directory_ + "/job.key";
  }
  void TearDown() override { std::filesystem::remove_all(directory_); }

  void write(const std::string& text, mode_t mode = 0600) {
    std::ofstream(path_) << text;
    ASSERT_EQ(::chmod(path_.c_str(), mode), 0);
  }
  std::string error() {
    const Result<Key> key = read_key_file(path_);
    return key ? "no error" : key.error().what;
  }

  std::string directory_;
  std::string path_;
  std::string digits_ = "00112233445566778899aabbccddeeffFFEEDDCCBBAA99887766554433221100";
};

TEST_F(KeyFileTest, ReadsHexOfEitherCaseWithWhiteSpaceAround) {
  write(" \t" + digits_ + "\r\n\n");
  const Result<Key> key = read_key_file(path_);
  ASSERT_TRUE(key) << key.error().what;
  EXPECT_EQ(key->bytes[0], std::byte{0x00});
  EXPECT_EQ(key->bytes[15], std::byte{0xff});
  EXPECT_EQ(key->bytes[16], std::byte{0xff});
  EXPECT_EQ(key->bytes[30], std::byte{0x11});
}

TEST_F(KeyFileTest, ReadsWhatItWrote) {
  const mode_t before = ::umask(0777);
  const Result<void> written = write_key_file(path_);
  ::umask(before);
  ASSERT_TRUE(written) << written.error().what;
  struct stat status {};
  ASSERT_EQ(::stat(path_.c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 07777u, 0600u);
  const Result<Key> key = read_key_file(path_);
  ASSERT_TRUE(key) << key.error().what;
  const Result<Key> again = parse_key(key_text(*key));
  ASSERT_TRUE(again);
  EXPECT_EQ(again->bytes, key->bytes);
}

TEST_F(KeyFileTest, DoesNotOverwrite) {
  write("precious");
  const Result<void> written = write_key_file(path_);
  ASSERT_FALSE(written);
  EXPECT_EQ(written.error().code, ErrorCode::kInvalidArgument);
  std::stringstream text;
  text << std::ifstream(path_).rdbuf();
  EXPECT_EQ(text.str(), "precious");
}

TEST_F(KeyFileTest, SaysThatTheFileIsMissing) {
  EXPECT_THAT(error(), HasSubstr("cannot open key file " + path_ + ": No such file"));
}

TEST_F(KeyFileTest, RefusesAFileThatOthersMayRead) {
  for (const mode_t mode : {0640, 0604, 0620, 0601}) {
    write(digits_, mode);
    EXPECT_THAT(error(), HasSubstr("run 'chmod 600 " + path_ + "'"));
  }
  write(digits_, 0400);
  EXPECT_EQ(error(), "no error");
}

TEST_F(KeyFileTest, ASecretHandedOutByRootMayBeReadableByAGroup) {
  if (::geteuid() != 0) GTEST_SKIP() << "only root can hand out";
  constexpr uid_t kNobody = 65534;
  ASSERT_EQ(::chmod(directory_.c_str(), 0755), 0);
  const auto error_as_nobody = [&](mode_t mode) {
    write(digits_, mode);
    EXPECT_EQ(::chown(path_.c_str(), 0, kNobody), 0);
    EXPECT_EQ(::setegid(kNobody), 0);
    EXPECT_EQ(::seteuid(kNobody), 0);
    const std::string what = error();
    EXPECT_EQ(::seteuid(0), 0);
    EXPECT_EQ(::setegid(0), 0);
    return what;
  };
  EXPECT_EQ(error_as_nobody(0440), "no error");
  EXPECT_EQ(error_as_nobody(0640), "no error");
  for (const mode_t mode : {0444, 0660, 0641}) {
    EXPECT_THAT(error_as_nobody(mode), HasSubstr("is open to other users"));
  }
}

TEST_F(KeyFileTest, SaysHowManyDigitsAreThere) {
  write(digits_.substr(1));
  EXPECT_THAT(error(), HasSubstr("key file " + path_ + ": holds 63 hex digits instead of 64"));
  write(digits_ + "0");
  EXPECT_THAT(error(), HasSubstr("holds 65 hex digits"));
  write(" \n");
  EXPECT_THAT(error(), HasSubstr("holds 0 hex digits"));
  write(std::string(5000, 'a'));
  EXPECT_THAT(error(), HasSubstr("1024 bytes or longer"));
}

TEST_F(KeyFileTest, SaysWhereABadCharacterIsButNotTheKey) {
  digits_[9] = 'g';
  write("\n" + digits_);
  EXPECT_THAT(error(), HasSubstr("'g' at position 11 is not a hex digit"));
  EXPECT_THAT(error(), Not(HasSubstr("44556677")));
  digits_[9] = '\x01';
  write(digits_);
  EXPECT_THAT(error(), HasSubstr("byte 0x01 at position 10"));
}

TEST_F(KeyFileTest, RefusesADirectory) {
  ASSERT_TRUE(std::filesystem::create_directory(path_));
  EXPECT_THAT(error(), HasSubstr("is not a regular file"));
}

TEST_F(KeyFileTest, SaysThatItCannotWrite) {
  const Result<void> written = write_key_file(directory_ + "/absent/job.key");
  ASSERT_FALSE(written);
  EXPECT_EQ(written.error().code, ErrorCode::kSystem);
}

}  // namespace
}  // namespace sumcast::auth
