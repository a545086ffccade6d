// `sumcast train` as real processes, for tests: members started as a launcher does, daemons,
// checkpoints read back.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/stat.h>

#include <cstdio>
#include <filesystem>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <sstream>
#include <thread>

#include "lab/process.h"
#include "net/tcp.h"
#include "sparse/rows_file.h"

namespace sumcast::cli {

namespace fs = std::filesystem;
using namespace std::chrono_literals;
using testing::HasSubstr;

inline constexpr int kWorkers = 2, kServers = 2;

inline std::string contents(const std::string& path) {
  std::stringstream text;
  text << std::ifstream(path).rdbuf();
  return text.str();
}

class TrainEndToEnd : public testing::Test {
 protected:
  TrainEndToEnd()
      : directory_(testing::TempDir() + "train_" + std::to_string(::getpid()) + "_" +
                   testing::UnitTest::GetInstance()->current_test_info()->name()) {
    fs::remove_all(directory_);
    fs::create_directories(directory_);
    std::ofstream(path("key")) << std::string(64, '5');
    ::chmod(path("key").c_str(), 0600);
  }
  ~TrainEndToEnd() override { fs::remove_all(directory_); }

  std::string path(const std::string& name) const { return directory_ + "/" + name; }
  static std::string program(const std::string& name) {
    return (fs::read_symlink("/proc/self/exe").parent_path() / name).string();
  }

  /// deepfm: rows, their optimiser's state and dense layers.
  std::vector<std::string> command(const std::string& checkpoint) const {
    return {program("sumcast"),
            "train",
            "--data",
            "ctr",
            "--rows",
            "12000",
            "--model",
            "deepfm",
            "--epochs",
            "2",
            "--workers",
            std::to_string(kWorkers),
            "--servers",
            std::to_string(kServers),
            "--hot",
            "150",
            "--track",
            "10",
            "--batch",
            "64",
            "--checkpoint",
            path(checkpoint),
            "--checkpoint-every",
            "5",
            "--resume",
            "--json"};
  }
  /// lr on clicks, all members as threads of one process: what it prints.
  std::string print_of(const std::vector<std::string>& more, int code = 0) const {
    std::vector<std::string> line = {
        program("sumcast"), "train", "--data",   "ctr", "--rows",    "6000",
        "--model",          "lr",    "--epochs", "2",   "--workers", "3",
        "--servers",        "2",     "--batch",  "64",  "--json"};
    line.insert(line.end(), more.begin(), more.end());
    lab::SpawnOptions options;
    options.output = lab::Redirect::file(path("printed"));
    options.errors = lab::Redirect::file(path("complained"));
    lab::Process whole = lab::spawn_process(line, options).value();
    const auto status = whole.wait(100s);
    EXPECT_TRUE(status.has_value() && status->code == code) << contents(path("complained"));
    return contents(path(code == 0 ? "printed" : "complained"));
  }

  /// One process a rank, as a launcher starts them.
  std::vector<lab::Process> start(const std::string& checkpoint, uint16_t port,
                                  const std::string& aggregator,
                                  const std::vector<std::string>& more = {},
                                  const std::string& setting = "SUMCAST_RETURN_AFTER=0s") const {
    std::vector<std::string> line = command(checkpoint);
    line.insert(line.end(), more.begin(), more.end());
    std::vector<lab::Process> members;
    for (int rank = 0; rank < kWorkers + kServers; ++rank) {
      lab::SpawnOptions options;
      options.env = {"RANK=" + std::to_string(rank),
                     "WORLD_SIZE=" + std::to_string(kWorkers + kServers),
                     "MASTER_ADDR=127.0.0.1",
                     "MASTER_PORT=" + std::to_string(port),
                     "SUMCAST_KEY_FILE=" + path("key"),
                     "SUMCAST_AGGREGATOR=" + aggregator,
                     setting};
      if (!aggregator.empty()) options.env.push_back("SUMCAST_ALGORITHM=in-network");
      options.output = lab::Redirect::file(path("out-" + std::to_string(rank)));
      options.errors = lab::Redirect::file(path("errors-" + std::to_string(rank)));
      members.push_back(lab::spawn_process(line, options).value());
    }
    return members;
  }
  void expect_success(std::vector<lab::Process>& members) const {
    for (size_t rank = 0; rank < members.size(); ++rank) {
      const auto status = members[rank].wait(100s);
      ASSERT_TRUE(status && status->ok())
          << rank << ": " << contents(path("errors-" + std::to_string(rank)));
    }
  }
  /// Two ports, of which the coordinator takes the second.
  static uint16_t free_port() {
    auto listener = net::TcpListener::open(net::Endpoint::loopback(net::Family::kIpv4, 0)).value();
    return static_cast<uint16_t>(listener.local().port() - 1);
  }

  struct Daemon {
    lab::Process process;
    std::string address, http;
  };
  Daemon start_daemon(const std::string& listen = "127.0.0.1:0") const {
    lab::SpawnOptions options;
    options.output = lab::Redirect::pipe();
    Daemon daemon{lab::spawn_process({program("sumcastd"), "--json-ready", "--listen", listen,
                                      "--http", "127.0.0.1:0", "--key-file", path("key")},
                                     options)
                      .value(),
                  "", ""};
    const auto ready = nlohmann::json::parse(daemon.process.read_line(20s).value());
    daemon.address = ready.at("listen").get<std::string>();
    daemon.http = ready.at("http").get<std::string>();
    return daemon;
  }
  /// What `sumcast status` prints about a daemon.
  std::string status(const Daemon& daemon) const {
    lab::SpawnOptions options;
    options.output = lab::Redirect::file(path("status"));
    lab::Process asking =
        lab::spawn_process({program("sumcast"), "status", "--http", daemon.http}, options).value();
    EXPECT_TRUE(asking.wait(20s)->ok());
    return contents(path("status"));
  }

  /// Checkpoints that stand so far.
  uint32_t checkpoints(const std::string& checkpoint) const {
    const auto manifest = sparse::read_manifest(path(checkpoint));
    EXPECT_TRUE(manifest.has_value()) << manifest.error().what;
    return manifest && *manifest ? (*manifest)->number : 0;
  }
  void wait_for_checkpoint(const std::string& checkpoint, uint32_t number) const {
    for (int i = 0; i < 5000 && checkpoints(checkpoint) < number; ++i) {
      std::this_thread::sleep_for(10ms);
    }
    ASSERT_GE(checkpoints(checkpoint), number);
  }

  struct Model {
    std::map<uint64_t, std::string> rows;  ///< Records, as bytes.
    size_t held = 0;                       ///< Of them: no candidates.
    std::string state;
    bool operator==(const Model&) const = default;
  };
  Model model(const std::string& checkpoint) const {
    const auto manifest = sparse::read_manifest(path(checkpoint)).value().value();
    table::TableShape shape = manifest.shape;
    const size_t bytes = shape.record_lanes() * sizeof(float);
    Model model;
    EXPECT_EQ(manifest.parts.size(), 1u) << "the last one is full";
    for (const sparse::SavedFile& file : manifest.parts[0].files) {
      auto read = sparse::read_rows(
          path(checkpoint), file, shape, [&](std::span<const uint64_t> keys, const float* records) {
            const auto* const from = reinterpret_cast<const char*>(records);
            for (size_t i = 0; i < keys.size(); ++i) {
              model.rows[keys[i]].assign(from + i * bytes, bytes);
              const float* const record = records + i * shape.record_lanes();
              const bool is_row = !shape.life.is_on() || shape.life.has_row(shape.history(record));
              model.held += is_row ? 1 : 0;
            }
            return Result<void>();
          });
      EXPECT_TRUE(read.has_value()) << read.error().what;
    }
    model.state = sparse::read_state(path(checkpoint), manifest).value();
    return model;
  }
  /// All members as threads of one process, which nobody disturbs.
  Model undisturbed() const {
    lab::SpawnOptions options;
    options.output = lab::Redirect::null();
    lab::Process whole = lab::spawn_process(command("undisturbed"), options).value();
    const auto status = whole.wait(100s);
    EXPECT_TRUE(status && status->ok());
    return model("undisturbed");
  }

  const std::string directory_;
};

}  // namespace sumcast::cli
