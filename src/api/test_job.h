// Jobs for tests of the API: ranks are threads of this process, on loopback.
#pragma once

#include <gtest/gtest.h>

#include <future>
#include <string>
#include <thread>
#include <vector>

#include "sumcast/sumcast.hpp"

namespace sumcast {

/// What a launcher would give a rank, but for where rank 0 listens: it tells `meeting`, and the
/// others wait for `address`.
inline Options options_of_rank(uint32_t rank, uint32_t world, std::promise<std::string>& meeting,
                               const std::shared_future<std::string>& address) {
  Options options;
  options.rank = rank;
  options.world = world;
  options.key.emplace();
  options.key->fill(std::byte{0x5A});
  options.join_timeout = std::chrono::seconds(10);
  if (rank == 0) {
    options.coordinator = "127.0.0.1:0";
    options.on_listening = [&](const std::string& where) { meeting.set_value(where); };
  } else {
    options.coordinator = address.get();
  }
  return options;
}

/// Runs `body(context)` on every rank of a job that meets as under a launcher: rank 0 makes up the
/// port, and tells the others. `change(options)` sees each rank's options before it joins.
template <typename Change, typename Body>
void with_changed_job(uint32_t world, Change change, Body body) {
  std::promise<std::string> meeting;
  const std::shared_future<std::string> address = meeting.get_future().share();
  std::vector<std::thread> threads;
  for (uint32_t rank = 0; rank < world; ++rank) {
    threads.emplace_back([&, rank] {
      Options options = options_of_rank(rank, world, meeting, address);
      options.timeout = std::chrono::seconds(20);
      change(options);
      auto context = Context::create(options);
      ASSERT_TRUE(context.has_value()) << context.error().what;
      body(**context);
    });
  }
  for (auto& thread : threads) thread.join();
}

template <typename Body>
void with_job(uint32_t world, Body body) {
  with_changed_job(
      world, [](Options&) {}, body);
}

}  // namespace sumcast
