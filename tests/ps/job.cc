#include "job.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <map>
#include <sstream>
#include <thread>
#include <utility>

#include "net/tcp.h"

namespace pstest {
namespace {

namespace net = sumcast::net;

/// Below the ephemeral range, so that no other program gets it by chance before it is used.
int free_port() {
  static auto next = static_cast<uint16_t>(25500 + ::getpid() % 3000);
  for (int attempt = 0; attempt < 2000; ++attempt) {
    if (net::TcpListener::open(net::Endpoint::loopback(net::Family::kIpv4, ++next))) return next;
  }
  ADD_FAILURE() << "no free port";
  return 0;
}

}  // namespace

std::string own_file(const std::string& name) {
  return testing::TempDir() + "sumcast_ps_" + std::to_string(::getpid()) + "_" + name;
}

std::string program(const std::string& name) {
  return std::filesystem::path(PS_TEST_PROGRAMS) / ("ps_" + name);
}

Job::Job(int servers, int workers, Environment more) : port_(free_port()) {
  static int count = 0;
  folder_ = own_file(std::to_string(++count));
  std::filesystem::create_directories(folder_);
  environment_ = {"DMLC_PS_ROOT_URI=127.0.0.1", "DMLC_PS_ROOT_PORT=" + std::to_string(port_),
                  "DMLC_NUM_SERVER=" + std::to_string(servers),
                  "DMLC_NUM_WORKER=" + std::to_string(workers), "SUMCAST_PS_WAIT_TIMEOUT=50s"};
  environment_.insert(environment_.end(), more.begin(), more.end());
}

Job::~Job() {
  for (auto& process : processes_) process.kill();
  std::filesystem::remove_all(folder_);
}

std::string Job::file(size_t index) const { return folder_ + "/" + std::to_string(index); }

size_t Job::add(const std::string& role, const std::vector<std::string>& command,
                const Environment& more) {
  sumcast::lab::SpawnOptions options;
  std::map<std::string, std::string> merged;  // The last of a name counts.
  for (const Environment* const list : {&std::as_const(environment_), &more}) {
    for (const auto& entry : *list) merged[entry.substr(0, entry.find('='))] = entry;
  }
  merged["DMLC_ROLE"] = "DMLC_ROLE=" + role;
  for (const auto& [name, entry] : merged) options.env.push_back(entry);
  options.output = sumcast::lab::Redirect::file(file(processes_.size()));
  options.errors = sumcast::lab::Redirect::merge();
  auto process = sumcast::lab::spawn_process(command, options);
  if (!process) {
    ADD_FAILURE() << process.error().what;
    std::abort();
  }
  processes_.push_back(std::move(*process));
  return processes_.size() - 1;
}

void Job::add_all(const std::vector<std::string>& command, int worker_processes) {
  int servers = 0;
  for (const auto& entry : environment_) {
    if (entry.rfind("DMLC_NUM_SERVER=", 0) == 0) servers = std::stoi(entry.substr(16));
  }
  add("scheduler", command);
  for (int i = 0; i < servers; ++i) add("server", command);
  for (int i = 0; i < worker_processes; ++i) add("worker", command);
}

std::string Job::output(size_t index) const {
  std::ostringstream text;
  text << std::ifstream(file(index)).rdbuf();
  return text.str();
}

bool Job::saw(size_t index, const std::string& text) const {
  for (int i = 0; i < 2000; ++i) {
    if (output(index).find(text) != std::string::npos) return true;
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  return false;
}

int Job::wait(size_t index) {
  const auto status = processes_[index].wait(std::chrono::seconds(60));
  if (!status) return -1;
  return status->signal != 0 ? 128 + status->signal : status->code;
}

void Job::expect_success() {
  for (size_t i = 0; i < processes_.size(); ++i) {
    EXPECT_EQ(wait(i), 0) << "process " << i << ":\n" << output(i);
  }
}

}  // namespace pstest
