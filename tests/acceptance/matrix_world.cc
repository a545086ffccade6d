#include "acceptance/matrix_world.h"

#include <unistd.h>

#include <atomic>
#include <nlohmann/json.hpp>
#include <thread>

#include "lab/process.h"

namespace sumcast::acceptance {
namespace {

/// sumcastd on loopback; its address, empty if it did not start.
std::string start_daemon(lab::Process& process) {
  lab::SpawnOptions options;
  options.output = lab::Redirect::pipe();
  options.errors = lab::Redirect::null();
  auto started = lab::spawn_process({SUMCASTD, "--json-ready", "--insecure", "--threads", "2",
                                     "--listen", "127.0.0.1:0", "--http", "none"},
                                    options);
  if (!started) return "";
  process = std::move(*started);
  const auto line = process.read_line(std::chrono::seconds(60));
  return line ? nlohmann::json::parse(*line).at("listen").get<std::string>() : "";
}

std::string fresh_coordinator() {
  static std::atomic<int> next{26000 + static_cast<int>(::getpid() % 4000)};
  return "127.0.0.1:" + std::to_string(next++);
}

}  // namespace

std::string test_name_of(Algorithm algorithm) {
  std::string name;
  for (const char c : name_of(algorithm)) {
    if (c != '-') name += c;
  }
  return name;
}

void with_world(uint32_t world, Algorithm algorithm, const std::function<void(Context&)>& body) {
  lab::Process daemon;
  Options options;
  options.world = world;
  options.insecure = true;
  options.one_rank_per_host = !ranks_share_hosts();
  options.algorithm = algorithm;
  if (algorithm == Algorithm::kInNetwork) {
    options.aggregator = start_daemon(daemon);
    ASSERT_NE(options.aggregator, "") << "sumcastd did not start";
  } else {
    options.coordinator = fresh_coordinator();
  }
  std::vector<std::thread> threads;
  for (uint32_t rank = 0; rank < world; ++rank) {
    threads.emplace_back([&body, options, rank]() mutable {
      options.rank = rank;
      auto context = Context::create(options);
      ASSERT_TRUE(context.has_value()) << context.error().what;
      body(**context);
    });
  }
  for (std::thread& thread : threads) thread.join();
}

}  // namespace sumcast::acceptance
