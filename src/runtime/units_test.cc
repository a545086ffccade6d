#include "runtime/units.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/prng.h"

namespace sumcast::runtime {
namespace {

using ::testing::HasSubstr;

TEST(Units, DurationsCarryTheirUnit) {
  EXPECT_EQ(parse_duration("10ms"), Duration(10ms));
  EXPECT_EQ(parse_duration("1.5s"), Duration(1500ms));
  EXPECT_EQ(parse_duration("0.25 us"), Duration(250ns));
  EXPECT_EQ(parse_duration("2min"), Duration(2min));
  EXPECT_EQ(parse_duration("1h"), Duration(1h));
  EXPECT_EQ(parse_duration("0"), Duration(0));
  EXPECT_EQ(parse_duration("9223372036854775807ns"), Duration::max());
}

TEST(Units, DurationsWithoutOneOrWithNonsenseAreRefused) {
  for (const char* text :
       {"", "10", "-1ms", "ms", "1.ms", ".5s", "10 parsecs", "10ms ", "1e3ms", "1,5s", "1  s"}) {
    EXPECT_FALSE(parse_duration(text)) << text;
  }
  EXPECT_FALSE(parse_duration("9223372036854775808ns"));
  EXPECT_FALSE(parse_duration("99999999999999h"));
  EXPECT_FALSE(parse_duration("99999999999999999999s"));
  EXPECT_EQ(parse_duration("10").error().what,
            "'10' is not a duration; write a number with ns, us, ms, s, min or h, such as 250ms");
}

TEST(Units, SizesUsePowersOfTwo) {
  EXPECT_EQ(parse_size("25M"), 25u << 20);
  EXPECT_EQ(parse_size("8"), 8u);
  EXPECT_EQ(parse_size("64k"), 65536u);
  EXPECT_EQ(parse_size("64KiB"), 65536u);
  EXPECT_EQ(parse_size("1G"), uint64_t{1} << 30);
  EXPECT_EQ(parse_size("1456B"), 1456u);
  for (const char* text : {"", "M", "1.5M", "25X", "-1", "16777216T", "25M M"}) {
    EXPECT_FALSE(parse_size(text)) << text;
  }
}

TEST(Units, RatesUsePowersOfTen) {
  EXPECT_EQ(parse_rate("300mbit"), 300'000'000u);
  EXPECT_EQ(parse_rate("2.5Gbit/s"), 2'500'000'000u);
  EXPECT_EQ(parse_rate("9600bit"), 9600u);
  for (const char* text : {"", "300", "300mbps", "300M", "mbit", "99999999999gbit", "1/s"}) {
    EXPECT_FALSE(parse_rate(text)) << text;
  }
}

TEST(Units, FormattersChooseTheLargestExactUnit) {
  EXPECT_EQ(format_duration(2s), "2s");
  EXPECT_EQ(format_duration(1500ms), "1500ms");
  EXPECT_EQ(format_duration(Duration(0)), "0ns");
  EXPECT_EQ(format_size(25u << 20), "25M");
  EXPECT_EQ(format_size(1456), "1456");
  EXPECT_EQ(format_rate(300'000'000), "300mbit");
  EXPECT_EQ(format_rate(1), "1bit");
}

TEST(Units, ParsersReadWhatFormattersWrite) {
  Prng prng(3);
  for (int i = 0; i < 2000; ++i) {
    const uint64_t any = prng.next_u64() >> (1 + prng.below(62));
    const auto duration = Duration(static_cast<int64_t>(any));
    EXPECT_EQ(parse_duration(format_duration(duration)), duration);
    EXPECT_EQ(parse_size(format_size(any << prng.below(10))).has_value(), true);
    EXPECT_EQ(parse_size(format_size(any)), any);
    EXPECT_EQ(parse_rate(format_rate(any)), any);
  }
}

TEST(Units, CountsProbabilitiesAndFlagsSayWhatTheyExpect) {
  EXPECT_EQ(parse_count("18446744073709551615"), UINT64_MAX);
  EXPECT_FALSE(parse_count("18446744073709551616"));
  EXPECT_FALSE(parse_count(" 1"));
  EXPECT_FALSE(parse_count("+1"));
  EXPECT_EQ(parse_probability("0.01"), 0.01);
  EXPECT_EQ(parse_probability("1"), 1.0);
  for (const char* text : {"nan", "1.01", "-0.1", "1%", "", "inf"}) {
    EXPECT_FALSE(parse_probability(text)) << text;
  }
  EXPECT_EQ(parse_flag("Yes"), true);
  EXPECT_EQ(parse_flag("0"), false);
  EXPECT_THAT(parse_flag("maybe").error().what, HasSubstr("'maybe' is not a switch"));
}

}  // namespace
}  // namespace sumcast::runtime
