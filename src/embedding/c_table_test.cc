// The C API of tables, as a C program uses it.
#include <gtest/gtest.h>

#include <cstring>
#include <filesystem>
#include <string>

#include "sumcast/table.h"

namespace {

sumcast_table_options options_of(uint32_t width) {
  sumcast_table_options options{};
  options.size = sizeof options;
  EXPECT_EQ(sumcast_table_defaults(&options), SUMCAST_OK) << sumcast_last_error();
  options.width = width;
  return options;
}

TEST(CTable, TrainsAloneAndSavesAndIsReadBack) {
  const std::string folder =
      std::filesystem::temp_directory_path() / ("sumcast-c-table-" + std::to_string(::getpid()));
  sumcast_table_options options = options_of(2);
  options.optimizer = "sgd";
  options.rate = 0.5f;
  options.checkpoint_directory = folder.c_str();
  sumcast_table* table = nullptr;
  ASSERT_EQ(sumcast_table_open(nullptr, &options, &table), SUMCAST_OK) << sumcast_last_error();
  const uint64_t keys[2] = {UINT64_MAX, 7};
  float rows[4] = {1, 1, 1, 1};
  ASSERT_EQ(sumcast_table_pull(table, keys, 2, rows), SUMCAST_OK) << sumcast_last_error();
  EXPECT_EQ(rows[0], 0.0f);
  const float gradients[4] = {1, 2, 3, 4};
  ASSERT_EQ(sumcast_table_push(table, gradients, 2, keys, 1, rows), SUMCAST_OK);
  EXPECT_EQ(rows[0], -0.5f);
  EXPECT_EQ(rows[1], -1.0f);
  ASSERT_EQ(sumcast_table_save(table, 1, "note", 4), SUMCAST_OK) << sumcast_last_error();
  sumcast_table_counters counters{};
  counters.size = sizeof counters;
  ASSERT_EQ(sumcast_table_count(table, &counters), SUMCAST_OK);
  EXPECT_EQ(counters.cold_pushed, 2u);
  EXPECT_EQ(counters.rows_held, 2u);
  const void* state = nullptr;
  size_t bytes = 9;
  ASSERT_EQ(sumcast_table_restored(table, &state, &bytes), SUMCAST_OK);
  EXPECT_EQ(state, nullptr);
  sumcast_table_free(table);

  sumcast_saved_table* saved = nullptr;
  ASSERT_EQ(sumcast_saved_table_read(folder.c_str(), &saved), SUMCAST_OK) << sumcast_last_error();
  sumcast_saved_view view{};
  view.size = sizeof view;
  ASSERT_EQ(sumcast_saved_table_view(saved, &view), SUMCAST_OK);
  ASSERT_EQ(view.rows, 2u);
  EXPECT_EQ(view.keys[0], 7u);
  EXPECT_EQ(view.keys[1], UINT64_MAX);
  EXPECT_EQ(view.records[1], -2.0f);
  EXPECT_STREQ(view.optimizer, "sgd");
  EXPECT_EQ(std::string(static_cast<const char*>(view.state), view.state_bytes), "note");
  sumcast_saved_table_free(saved);
  std::filesystem::remove_all(folder);
}

TEST(CTable, RefusesWhatIsNoCall) {
  sumcast_table* table = nullptr;
  sumcast_table_options options = options_of(0);
  EXPECT_EQ(sumcast_table_open(nullptr, &options, &table), SUMCAST_INVALID_ARGUMENT);
  options = options_of(1);
  options.wire = 77;
  EXPECT_EQ(sumcast_table_open(nullptr, &options, &table), SUMCAST_INVALID_ARGUMENT);
  options = options_of(1);
  options.row_wire = SUMCAST_WIRE_FIXED;
  EXPECT_EQ(sumcast_table_open(nullptr, &options, &table), SUMCAST_INVALID_ARGUMENT);
  EXPECT_NE(std::string(sumcast_last_error()).find("does not carry rows"), std::string::npos);
  options.size = 8;
  EXPECT_EQ(sumcast_table_open(nullptr, &options, &table), SUMCAST_INVALID_ARGUMENT);
  EXPECT_EQ(sumcast_table_defaults(&options), SUMCAST_INVALID_ARGUMENT);
  EXPECT_NE(std::string(sumcast_last_error()).find("sizeof(sumcast_table_options)"),
            std::string::npos);
  options = options_of(1);
  ASSERT_EQ(sumcast_table_open(nullptr, &options, &table), SUMCAST_OK) << sumcast_last_error();
  float row = 0;
  const uint64_t key = 3;
  EXPECT_EQ(sumcast_table_pull(table, nullptr, 1, &row), SUMCAST_INVALID_ARGUMENT);
  EXPECT_EQ(sumcast_table_pull(table, &key, 1, nullptr), SUMCAST_INVALID_ARGUMENT);
  ASSERT_EQ(sumcast_table_pull(table, &key, 1, &row), SUMCAST_OK);
  EXPECT_EQ(sumcast_table_push(table, nullptr, 1, nullptr, 0, nullptr), SUMCAST_INVALID_ARGUMENT);
  EXPECT_EQ(sumcast_table_push(table, &row, 0, nullptr, 0, nullptr), SUMCAST_INVALID_ARGUMENT);
  sumcast_table_counters counters{};
  EXPECT_EQ(sumcast_table_count(table, &counters), SUMCAST_INVALID_ARGUMENT);
  EXPECT_EQ(sumcast_table_save(table, 1, nullptr, 3), SUMCAST_INVALID_ARGUMENT);
  ASSERT_EQ(sumcast_table_abort(table, "enough"), SUMCAST_OK);
  EXPECT_NE(sumcast_table_pull(table, &key, 1, &row), SUMCAST_OK);
  EXPECT_NE(std::string(sumcast_last_error()).find("enough"), std::string::npos);
  sumcast_table_free(table);
  sumcast_table_free(nullptr);
  sumcast_saved_table_free(nullptr);
  EXPECT_EQ(sumcast_table_pull(nullptr, &key, 1, &row), SUMCAST_INVALID_ARGUMENT);
  EXPECT_STREQ(sumcast_last_error(), "table is NULL");
  sumcast_saved_table* saved = nullptr;
  EXPECT_EQ(sumcast_saved_table_read("/nowhere", &saved), SUMCAST_INVALID_ARGUMENT);
}

/// Programs of before rows had a format of their own.
TEST(CTable, RowsTravelAsTheyAreForAProgramThatKnowsNoOther) {
  for (const int32_t wire : {SUMCAST_WIRE_NATIVE, SUMCAST_WIRE_INT8}) {
    for (const bool is_old : {false, true}) {
      sumcast_table_options options = options_of(2);
      options.init_scale = 0.5f;
      options.row_wire = wire;
      if (is_old) options.size = offsetof(sumcast_table_options, row_wire);
      sumcast_table* table = nullptr;
      ASSERT_EQ(sumcast_table_open(nullptr, &options, &table), SUMCAST_OK) << sumcast_last_error();
      const uint64_t key = 7;
      float exact[2], pulled[2];
      ASSERT_EQ(sumcast_table_peek(table, &key, 1, exact), SUMCAST_OK);
      ASSERT_EQ(sumcast_table_pull(table, &key, 1, pulled), SUMCAST_OK);
      const bool is_rounded = !is_old && wire == SUMCAST_WIRE_INT8;
      EXPECT_EQ(std::memcmp(exact, pulled, sizeof exact) != 0, is_rounded);
      sumcast_table_free(table);
    }
  }
}

TEST(CTable, AnOlderLibraryRefusesWhatANewerProgramAsksFor) {
  struct {
    sumcast_table_options known;
    uint64_t later = 1;
  } newer{options_of(1)};
  newer.known.size = sizeof newer;
  sumcast_table* table = nullptr;
  EXPECT_EQ(sumcast_table_open(nullptr, &newer.known, &table), SUMCAST_UNSUPPORTED);
}

}  // namespace
