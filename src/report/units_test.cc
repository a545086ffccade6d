#include "report/units.h"

#include <gtest/gtest.h>

#include <cmath>

namespace sumcast::report {
namespace {

TEST(Units, DurationsTakeTheUnitThatKeepsThemShort) {
  EXPECT_EQ(format_duration(0ns), "0 s");
  EXPECT_EQ(format_duration(640ns), "640 ns");
  EXPECT_EQ(format_duration(812us), "812 us");
  EXPECT_EQ(format_duration(45ms), "45 ms");
  EXPECT_EQ(format_duration(1300ms), "1.3 s");
  EXPECT_EQ(format_duration(1346ms), "1.35 s");
  EXPECT_EQ(format_duration(125s), "2 min 5 s");
  EXPECT_EQ(format_duration(12'000s), "3 h 20 min");
  EXPECT_EQ(format_duration(-45ms), "-45 ms");
}

TEST(Units, RoundingUpCarriesIntoTheNextUnit) {
  EXPECT_EQ(format_duration(999'400ns), "999 us");
  EXPECT_EQ(format_duration(999'600ns), "1 ms");
  EXPECT_EQ(format_duration(99'960ms), "1 min 40 s");
  EXPECT_EQ(format_bytes(999'700), "1 MB");
  EXPECT_EQ(format_bytes(999), "999 B");
  EXPECT_EQ(format_ratio(9.96), "10x");
  EXPECT_EQ(format_ratio(0.996), "1.0x");
}

TEST(Units, BytesRatesAndRatios) {
  EXPECT_EQ(format_bytes(0), "0 B");
  EXPECT_EQ(format_bytes(26'214'400), "26.2 MB");
  EXPECT_EQ(format_bytes(2'678'824), "2.68 MB");
  EXPECT_EQ(format_bit_rate(300e6), "300 Mbit/s");
  EXPECT_EQ(format_bit_rate(25e9), "25 Gbit/s");
  EXPECT_EQ(format_ratio(2.1), "2.1x");
  EXPECT_EQ(format_ratio(0.957), "0.96x");
  EXPECT_EQ(format_ratio(13.2), "13x");
  EXPECT_EQ(format_percent(0.8822), "88.2 %");
}

TEST(Units, FiguresThatAreNoneSaySo) {
  EXPECT_EQ(format_ratio(NAN), "n/a");
  EXPECT_EQ(format_ratio(INFINITY), "inf");
  EXPECT_EQ(format_bit_rate(NAN), "n/a");
}

TEST(Units, CountsAreGroupedInThrees) {
  EXPECT_EQ(format_count(0), "0");
  EXPECT_EQ(format_count(999), "999");
  EXPECT_EQ(format_count(60'000), "60,000");
  EXPECT_EQ(format_count(1'234'567), "1,234,567");
}

}  // namespace
}  // namespace sumcast::report
