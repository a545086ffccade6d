#include <gtest/gtest.h>

#include <cstring>
#include <set>
#include <vector>

#include "base/prng.h"
#include "wire/descriptor.h"
#include "wire/header.h"

namespace sumcast::wire {
namespace {

Header sample() {
  Header h;
  h.kind = Kind::kResult;
  h.type = ElementType::kBool;
  h.reduction = Reduction::kXor;
  h.format = WireFormat::kFixed;
  h.flags = kFlagQuiet;
  h.epoch = 0xAB;
  h.sender = 0x8001;
  h.slot = 0x0102;
  h.incarnation = 0x03040506;
  h.counter = 0x0708090A;
  h.phase = 0x0B0C0D0E;
  h.digest = 0x0F101112;
  h.chunk = 0x13141516;
  h.total_or_next = 0x1718191A;
  return h;
}

TEST(Header, HasTheBytesOfTheSpecification) {
  std::array<std::byte, kHeaderBytes> bytes{};
  write(sample(), bytes.data());
  const unsigned char expected[kHeaderBytes] = {0x12, 0x97, 0x41, 0xAB, 0x80, 0x01, 0x01, 0x02,
                                                0x03, 0x04, 0x05, 0x06, 0x07, 0x08, 0x09, 0x0A,
                                                0x0B, 0x0C, 0x0D, 0x0E, 0x0F, 0x10, 0x11, 0x12,
                                                0x13, 0x14, 0x15, 0x16, 0x17, 0x18, 0x19, 0x1A};
  EXPECT_EQ(std::memcmp(bytes.data(), expected, kHeaderBytes), 0);
}

TEST(Header, ComesBackAsItWent) {
  std::array<std::byte, kHeaderBytes> bytes{};
  write(sample(), bytes.data());
  Header back;
  ASSERT_EQ(parse(bytes, back), ParseError::kNone);
  std::array<std::byte, kHeaderBytes> again{};
  write(back, again.data());
  EXPECT_EQ(bytes, again);
  EXPECT_EQ(peek_incarnation(bytes.data()), 0x03040506u);
  EXPECT_EQ(peek_sender(bytes.data()), 0x8001);
  patch_counter(bytes.data(), 7);
  EXPECT_EQ(peek_counter(bytes.data()), 7u);
}

TEST(Header, RefusesWhatIsNotOne) {
  std::array<std::byte, kHeaderBytes> bytes{};
  write(sample(), bytes.data());
  Header out;
  EXPECT_EQ(parse(std::span(bytes).first(31), out), ParseError::kTooShort);
  auto broken = bytes;
  broken[0] = std::byte{0x22};
  EXPECT_EQ(parse(broken, out), ParseError::kVersion);
  broken = bytes;
  broken[0] = std::byte{0x10};
  EXPECT_EQ(parse(broken, out), ParseError::kKind);
  broken = bytes;
  broken[0] = std::byte{0x1F};
  EXPECT_EQ(parse(broken, out), ParseError::kKind);
  broken[0] = std::byte{0x10 | kKindReserved};
  EXPECT_EQ(parse(broken, out), ParseError::kKind);
  broken = bytes;
  broken[1] = std::byte{0xA0};
  EXPECT_EQ(parse(broken, out), ParseError::kEnumerator);
  broken = bytes;
  broken[2] = std::byte{0x50};
  EXPECT_EQ(parse(broken, out), ParseError::kEnumerator);
}

TEST(Header, RandomBytesNeverYieldAnIllegalEnumerator) {
  Prng prng(1);
  std::array<std::byte, kHeaderBytes> bytes{};
  for (int i = 0; i < 200000; ++i) {
    for (auto& b : bytes) b = static_cast<std::byte>(prng.next_u32());
    Header out;
    if (parse(bytes, out) != ParseError::kNone) continue;
    EXPECT_LT(static_cast<int>(out.type), kElementTypes);
    EXPECT_LT(static_cast<int>(out.reduction), kReductions);
    EXPECT_LT(static_cast<int>(out.format), kWireFormats);
  }
}

TEST(Note, ComesBackAsItWent) {
  std::array<std::byte, kNoteBytes> bytes{};
  write_note(Note{513, 0xDEADBEEF, 42}, bytes.data());
  const Note note = read_note(bytes.data());
  EXPECT_EQ(note.slot, 513);
  EXPECT_EQ(note.phase_or_number, 0xDEADBEEF);
  EXPECT_EQ(note.digest, 42u);
}

TEST(Digest, DiffersInEveryField) {
  OperationDescriptor base;
  base.count = 1000;
  std::vector<OperationDescriptor> variants(9, base);
  variants[1].group = GroupId{1};
  variants[2].sequence = 1;
  variants[3].kind = OperationKind::kReduce;
  variants[4].type = ElementType::kI32;
  variants[5].reduction = Reduction::kAvg;
  variants[6].format = WireFormat::kBF16;
  variants[7].root = 1;
  variants[8].count = 2000;
  std::set<uint32_t> digests;
  for (const auto& v : variants) digests.insert(digest_of(v));
  EXPECT_EQ(digests.size(), variants.size());
}

TEST(Digest, OperationsUnderWayAtOnceNeverShareOne) {
  OperationDescriptor a, b;
  a.count = b.count = 1000;
  for (uint32_t sequence = 11'393'000; sequence < 11'394'000; ++sequence) {
    for (uint32_t back = 1; back < 256; ++back) {
      a.sequence = sequence;
      b.sequence = sequence - back;
      ASSERT_NE(digest_of(a), digest_of(b)) << sequence << " and " << back << " before";
    }
  }
}

TEST(Digest, RarelyCollidesBetweenDifferentCallsInOnePlace) {
  std::set<uint32_t> digests;
  OperationDescriptor d;
  for (uint64_t count = 0; count < 2000; ++count) {
    d.count = count;
    digests.insert(digest_of(d));
  }
  EXPECT_GE(digests.size(), 1998u);  // 0.1 expected among 2,000 in 2^24.
}

TEST(Descriptor, ReadsAsASentenceWould) {
  OperationDescriptor d;
  d.count = 1000;
  EXPECT_EQ(describe(d), "all_reduce f32[1000] sum");
  d.kind = OperationKind::kBroadcast;
  d.root = 2;
  EXPECT_EQ(describe(d), "broadcast f32[1000] from rank 2");
  d.kind = OperationKind::kBarrier;
  EXPECT_EQ(describe(d), "barrier");
  d.kind = OperationKind::kReduce;
  d.format = WireFormat::kBF16;
  EXPECT_EQ(describe(d), "reduce f32[1000] sum to rank 2 over bf16");
}

}  // namespace
}  // namespace sumcast::wire
