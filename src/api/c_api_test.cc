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

/// A job of this process alone; to be freed.
sumcast_context* lonely_context() {
  sumcast_options options{};
  options.size = sizeof options;
  options.world = 1;
  options.insecure = 1;
  options.one_rank_per_host = 1;
  sumcast_context* context = nullptr;
  EXPECT_EQ(sumcast_context_create(&options, &context), SUMCAST_OK) << sumcast_last_error();
  return context;
}

/// A structure as a later version of the header may have it.
template <typename T>
struct Later {
  T known{};
  uint64_t added = 0;
};

TEST(CApi, StructuresOfNewerProgramsAreTakenIfTheyAskForNothingUnknown) {
  sumcast_context* context = lonely_context();
  sumcast_group* world = nullptr;
  ASSERT_EQ(sumcast_world(context, &world), SUMCAST_OK);
  Later<sumcast_call> call;
  call.known.size = sizeof call;
  EXPECT_EQ(sumcast_barrier(world, &call.known, nullptr), SUMCAST_OK) << sumcast_last_error();
  call.added = 1;
  EXPECT_EQ(sumcast_barrier(world, &call.known, nullptr), SUMCAST_UNSUPPORTED);
  EXPECT_NE(std::string(sumcast_last_error()).find("too old"), std::string::npos);
  Later<sumcast_counters> counters;
  counters.known.size = sizeof counters;
  counters.added = 7;
  EXPECT_EQ(sumcast_context_counters(context, &counters.known), SUMCAST_OK);
  EXPECT_EQ(counters.known.size, sizeof counters);
  EXPECT_EQ(counters.added, 0u);
  sumcast_group_free(world);
  sumcast_context_free(context);
}

TEST(CApi, SizesThatMakeNoSenseAreRefused) {
  sumcast_context* context = lonely_context();
  sumcast_group* world = nullptr;
  ASSERT_EQ(sumcast_world(context, &world), SUMCAST_OK);
  for (const size_t size : {size_t{0}, size_t{8}, size_t{1} << 40}) {
    sumcast_call call{};
    call.size = size;
    EXPECT_EQ(sumcast_barrier(world, &call, nullptr), SUMCAST_INVALID_ARGUMENT) << size;
    sumcast_counters counters{};
    counters.size = size;
    EXPECT_EQ(sumcast_context_counters(context, &counters), SUMCAST_INVALID_ARGUMENT) << size;
    const sumcast_message message{size, nullptr, 0, 0, 0, 0};
    EXPECT_EQ(sumcast_exchange(world, &message, 1, nullptr, 0, nullptr, nullptr, nullptr, nullptr),
              SUMCAST_INVALID_ARGUMENT)
        << size;
    EXPECT_NE(std::string(sumcast_last_error()).find("sizeof(sumcast_message)"), std::string::npos);
  }
  sumcast_group_free(world);
  sumcast_context_free(context);
}

TEST(CApi, MessagesOfANewerProgramLieFurtherApart) {
  const std::string where = "127.0.0.1:" + std::to_string(26000 + getpid() % 4000);
  std::thread ranks[2];
  for (uint32_t rank = 0; rank < 2; ++rank) {
    ranks[rank] = std::thread([rank, where] {
      sumcast_options options{};
      options.size = sizeof options;
      options.rank = rank;
      options.world = 2;
      options.coordinator = where.c_str();
      options.insecure = 1;
      sumcast_context* context = nullptr;
      ASSERT_EQ(sumcast_context_create(&options, &context), SUMCAST_OK) << sumcast_last_error();
      sumcast_group* world = nullptr;
      ASSERT_EQ(sumcast_world(context, &world), SUMCAST_OK);
      uint32_t out[2] = {rank + 10, rank + 20}, in[2] = {0, 0};
      Later<sumcast_message> sends[2], receives[2];
      for (uint32_t i = 0; i < 2; ++i) {
        sends[i].known = {sizeof sends[i], &out[i], 4, 1 - rank, 5, i};
        receives[i].known = {sizeof receives[i], &in[i], 4, 1 - rank, 5, i};
      }
      sumcast_work* work = nullptr;
      ASSERT_EQ(sumcast_exchange(world, &sends[0].known, 2, &receives[0].known, 2, nullptr, nullptr,
                                 nullptr, &work),
                SUMCAST_OK)
          << sumcast_last_error();
      ASSERT_EQ(sumcast_work_wait(work, -1), SUMCAST_OK) << sumcast_last_error();
      EXPECT_EQ(sumcast_work_source(work), 1 - rank);
      sumcast_work_free(work);
      EXPECT_EQ(in[0], 11 - rank);
      EXPECT_EQ(in[1], 21 - rank);
      sumcast_group_free(world);
      sumcast_context_free(context);
    });
  }
  for (auto& t : ranks) t.join();
}

TEST(CApi, NullIsAnErrorAndNoCrash) {
  EXPECT_EQ(sumcast_group_check(nullptr), SUMCAST_INVALID_ARGUMENT);
  EXPECT_STREQ(sumcast_last_error(), "group is NULL");
  EXPECT_EQ(sumcast_work_source(nullptr), SUMCAST_ANY_RANK);
  EXPECT_EQ(sumcast_work_wait(nullptr, 0), SUMCAST_INVALID_ARGUMENT);
  EXPECT_EQ(sumcast_work_is_done(nullptr), 0);
  EXPECT_EQ(sumcast_group_abort(nullptr, nullptr), SUMCAST_INVALID_ARGUMENT);
  EXPECT_EQ(sumcast_barrier(nullptr, nullptr, nullptr), SUMCAST_INVALID_ARGUMENT);
  EXPECT_EQ(sumcast_world(nullptr, nullptr), SUMCAST_INVALID_ARGUMENT);
  EXPECT_EQ(sumcast_group_create(nullptr, nullptr, 0, nullptr, nullptr), SUMCAST_INVALID_ARGUMENT);
  EXPECT_EQ(sumcast_context_create(nullptr, nullptr), SUMCAST_INVALID_ARGUMENT);
  EXPECT_EQ(sumcast_context_counters(nullptr, nullptr), SUMCAST_INVALID_ARGUMENT);
  EXPECT_EQ(sumcast_group_size(nullptr), 0u);
  sumcast_group_free(nullptr);
  sumcast_work_free(nullptr);
  sumcast_context_free(nullptr);
}

TEST(CApi, RefusesOptionsOfAnotherSize) {
  sumcast_options options;
  std::memset(&options, 0, sizeof options);
  sumcast_context* context = nullptr;
  EXPECT_EQ(sumcast_context_create(&options, &context), SUMCAST_INVALID_ARGUMENT);
  EXPECT_NE(std::string(sumcast_last_error()).find("size"), std::string::npos);
}

}  // namespace
