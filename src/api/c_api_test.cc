#include <gtest/gtest.h>
#include <unistd.h>

#include <cstring>
#include <string>
#include <thread>

#include "sumcast/sumcast.h"

namespace {

TEST(CApi, TwoRanksSumAndGather) {
  const std::string where = "127.0.0.1:" + std::to_string(26000 + getpid() % 4000);
  std::thread ranks[2];
  for (uint32_t rank = 0; rank < 2; ++rank) {
    ranks[rank] = std::thread([rank, where] {
      sumcast_options options;
      std::memset(&options, 0, sizeof options);
      options.size = sizeof options;
      options.rank = rank;
      options.world = 2;
      options.coordinator = where.c_str();
      options.insecure = 1;
      options.join_timeout_ms = 10000;
      sumcast_context* context = nullptr;
      ASSERT_EQ(sumcast_context_create(&options, &context), SUMCAST_OK) << sumcast_last_error();
      EXPECT_EQ(sumcast_context_size(context), 2u);
      sumcast_group* world = nullptr;
      ASSERT_EQ(sumcast_world(context, &world), SUMCAST_OK);
      double x[3] = {1.5 + rank, 2, 3};
      ASSERT_EQ(sumcast_all_reduce(world, x, x, 3, SUMCAST_F64, SUMCAST_SUM, nullptr, nullptr),
                SUMCAST_OK)
          << sumcast_last_error();
      EXPECT_EQ(x[0], 4.0);
      int32_t mine = static_cast<int32_t>(rank) + 7, all[2] = {0, 0};
      sumcast_work* work = nullptr;
      ASSERT_EQ(sumcast_all_gather(world, &mine, all, 1, SUMCAST_I32, nullptr, &work), SUMCAST_OK);
      ASSERT_EQ(sumcast_work_wait(work, 5000), SUMCAST_OK) << sumcast_last_error();
      EXPECT_EQ(sumcast_work_is_done(work), 1);
      sumcast_work_free(work);
      EXPECT_EQ(all[0], 7);
      EXPECT_EQ(all[1], 8);
      EXPECT_EQ(sumcast_all_reduce(world, x, x, 3, 99, SUMCAST_SUM, nullptr, nullptr),
                SUMCAST_INVALID_ARGUMENT);
      EXPECT_STREQ(sumcast_last_error(), "no such type or reduction");
      EXPECT_EQ(sumcast_all_reduce(world, x, x, 3, SUMCAST_F64, SUMCAST_AND, nullptr, nullptr),
                SUMCAST_UNSUPPORTED);
      sumcast_group_free(world);
      sumcast_context_free(context);
    });
  }
  for (auto& t : ranks) t.join();
}

TEST(CApi, RefusesOptionsOfAnotherSize) {
  sumcast_options options;
  std::memset(&options, 0, sizeof options);
  sumcast_context* context = nullptr;
  EXPECT_EQ(sumcast_context_create(&options, &context), SUMCAST_INVALID_ARGUMENT);
  EXPECT_NE(std::string(sumcast_last_error()).find("size"), std::string::npos);
}

}  // namespace
