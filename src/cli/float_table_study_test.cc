#include "cli/float_table_study.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

namespace sumcast::cli {
namespace {

using testing::HasSubstr;

/// docs/numerics.md's table, at a small part of its size.
TEST(FloatTableStudy, TablesAreAsGoodAsFloatsWhereSharedExponentsAreNot) {
  FloatTableStudy study;
  study.elements = 3'000;
  const auto rows = run_float_table_study(study);
  ASSERT_EQ(rows.size(), 12u);
  for (size_t first = 0; first < rows.size(); first += 4) {
    const FloatTableRow& native = rows[first];
    const FloatTableRow& table = rows[first + 1];
    EXPECT_THAT(table.scheme, HasSubstr("table"));
    EXPECT_LT(native.rms_error, 1e-6);
    EXPECT_LT(table.rms_error, 5e-6) << table.data;
    EXPECT_LE(table.off_share, 0.001) << table.data;
    EXPECT_LE(table.refused_share, 0.01) << table.data;
  }
  // One scale for keys over six decades: the RMS is as good as f32's, yet every tenth key is wrong.
  const FloatTableRow& shared = rows.back();
  EXPECT_LT(shared.rms_error, 1e-6);
  EXPECT_GT(shared.off_share, 0.05);
}

TEST(FloatTableStudy, AKeyWithoutSlackGoesToAServerMoreOften) {
  FloatTableStudy study;
  study.elements = 500;
  const auto share_refused = [&](int slack_bits) {
    study.slack_bits = slack_bits;
    return run_float_table_study(study)[5].refused_share;  // Log-normal.
  };
  const double none = share_refused(0), three = share_refused(3);
  EXPECT_GT(none, 0.01);
  EXPECT_LT(three, none / 4);
}

TEST(FloatTableStudy, PrintsEveryRow) {
  FloatTableStudy study;
  study.elements = 50;
  const auto rows = run_float_table_study(study);
  const std::string json = float_table_json(rows);
  EXPECT_EQ(std::count(json.begin(), json.end(), '\n'), 12);
  EXPECT_THAT(json, HasSubstr("\"kernel\":\"float-table\""));
  EXPECT_THAT(float_table_text(study, rows), HasSubstr("table, exponent per key"));
}

}  // namespace
}  // namespace sumcast::cli
