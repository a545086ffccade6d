// Tables for tests: ranks are threads of this process on loopback, each with a table's handle.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <future>
#include <map>
#include <thread>

#include "api/test_job.h"
#include "sumcast/table.hpp"

namespace sumcast {

struct TestJob {
  uint32_t world = 1;
  std::chrono::nanoseconds timeout = std::chrono::seconds(30);
  /// Changes what a rank asks for.
  std::function<void(TableOptions&, uint32_t rank)> change{};
};

/// `body(table or error, rank)` on each rank.
template <typename Body>
void with_opened(const TestJob& setup, const TableOptions& options, Body body) {
  std::promise<std::string> meeting;
  const std::shared_future<std::string> address = meeting.get_future().share();
  std::vector<std::thread> threads;
  for (uint32_t rank = 0; rank < setup.world; ++rank) {
    threads.emplace_back([&, rank] {
      Options job = options_of_rank(rank, setup.world, meeting, address);
      job.timeout = setup.timeout;
      TableOptions mine = options;
      if (setup.change) setup.change(mine, rank);
      body(Table::open(job, mine), rank);
    });
  }
  for (auto& thread : threads) thread.join();
}

/// `body(table, rank)` on each rank.
template <typename Body>
void with_tables(const TestJob& setup, const TableOptions& options, Body body) {
  with_opened(setup, options, [&](Result<std::unique_ptr<Table>> table, uint32_t rank) {
    ASSERT_TRUE(table.has_value()) << table.error().what;
    body(**table, rank);
  });
}

}  // namespace sumcast
