#include "net/pcap.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstring>
#include <fstream>
#include <iterator>
#include <vector>

namespace sumcast::net {
namespace {

class PcapFile : public testing::Test {
 protected:
  void SetUp() override {
    char name[] = "/tmp/sumcast-pcap-XXXXXX";
    const int fd = ::mkstemp(name);
    ASSERT_GE(fd, 0);
    ::close(fd);
    path_ = name;
  }
  void TearDown() override { ::unlink(path_.c_str()); }

  std::vector<uint8_t> contents() const {
    std::ifstream file(path_, std::ios::binary);
    return {std::istreambuf_iterator<char>(file), {}};
  }

  std::string path_;
};

uint32_t u32_at(const std::vector<uint8_t>& bytes, size_t at) {
  uint32_t value = 0;
  std::memcpy(&value, bytes.data() + at, sizeof value);
  return value;
}

/// One's-complement sum of big-endian words; 0xFFFF over a region that holds its own checksum.
uint32_t internet_sum(const std::vector<uint8_t>& bytes, size_t begin, size_t end, uint32_t sum) {
  for (size_t i = begin; i < end; ++i) {
    sum += (i - begin) % 2 == 0 ? uint32_t{bytes[i]} << 8 : bytes[i];
  }
  while (sum > 0xFFFF) sum = (sum & 0xFFFF) + (sum >> 16);
  return sum;
}

TEST_F(PcapFile, HoldsPacketsWithValidHeadersAndChecksums) {
  const std::vector<std::byte> datagram(11, std::byte(0xAB));
  {
    auto writer = PcapWriter::create(path_);
    ASSERT_TRUE(writer) << writer.error().what;
    writer->write(Instant{5}, *parse_endpoint("10.0.0.1:1000"), *parse_endpoint("10.0.0.2:2000"),
                  datagram);
    writer->write(Instant{6}, *parse_endpoint("[fd00::1]:1"), *parse_endpoint("[fd00::2]:2"),
                  datagram);
    ASSERT_TRUE(writer->flush());
    EXPECT_EQ(writer->datagrams(), 2u);
  }
  const auto file = contents();
  constexpr size_t kFirst = 24 + 16, kSecond = kFirst + 39 + 16;
  ASSERT_EQ(file.size(), kSecond + 59);
  EXPECT_EQ(u32_at(file, 0), 0xA1B23C4Du);
  EXPECT_EQ(u32_at(file, 20), 101u);
  EXPECT_EQ(u32_at(file, kFirst - 8), 39u);
  EXPECT_EQ(u32_at(file, kSecond - 8), 59u);
  EXPECT_EQ(file[kFirst], 0x45);
  EXPECT_EQ(internet_sum(file, kFirst, kFirst + 20, 0), 0xFFFFu);
  // Pseudo headers: the addresses lie right before the UDP header; length and protocol are added.
  EXPECT_EQ(internet_sum(file, kFirst + 12, kFirst + 39, 19 + 17), 0xFFFFu);
  EXPECT_EQ(file[kSecond], 0x60);
  EXPECT_EQ(internet_sum(file, kSecond + 8, kSecond + 59, 19 + 17), 0xFFFFu);
  EXPECT_EQ(file[kFirst + 20] << 8 | file[kFirst + 21], 1000);
  EXPECT_EQ(file[kFirst + 22] << 8 | file[kFirst + 23], 2000);
  EXPECT_EQ(file[kFirst + 28], 0xAB);
}

TEST_F(PcapFile, ReportsWhatCannotBeWritten) {
  const auto writer = PcapWriter::create("/no/such/directory/x.pcap");
  ASSERT_FALSE(writer);
  EXPECT_NE(writer.error().what.find("cannot write /no/such/directory/x.pcap"), std::string::npos);
  auto full = PcapWriter::create("/dev/full");
  ASSERT_TRUE(full);
  EXPECT_FALSE(full->flush()) << "/dev/full takes nothing";
}

}  // namespace
}  // namespace sumcast::net
