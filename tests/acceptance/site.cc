#include "acceptance/site.h"

#include <fcntl.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "auth/key_file.h"
#include "lab/fd.h"
#include "lab/privileges.h"
#include "net/address.h"
#include "net/tcp.h"
#include "net/udp.h"

namespace sumcast::acceptance {

bool is_long() {
  const char* text = std::getenv("SUMCAST_LONG");
  return text != nullptr && std::string_view(text) == "1";
}

uint16_t free_port() {
  // Below the ephemeral range, so that no other program gets it by chance before it is used.
  static uint16_t next = static_cast<uint16_t>(21000 + ::getpid() % 4000);
  for (int attempt = 0; attempt < 2000; ++attempt) {
    const auto here = net::Endpoint::loopback(net::Family::kIpv4, ++next);
    if (net::TcpListener::open(here)) return next;
  }
  ADD_FAILURE() << "no free port";
  return 0;
}

const std::string& key_file() {
  struct File {
    File() {
      std::filesystem::remove(path);  // Of an earlier process with this number.
      if (auto made = auth::write_key_file(path); !made) ADD_FAILURE() << made.error().what;
    }
    ~File() { std::filesystem::remove(path); }
    std::string path = testing::TempDir() + "sumcast_acceptance_" + std::to_string(::getpid());
  };
  static const File file;
  return file.path;
}

lab::Cluster loopback_hosts(int workers) {
  lab::ClusterOptions options;
  options.workers = workers;
  return lab::Cluster::on_loopback(options).value();
}

lab::Cluster namespace_hosts(const lab::ClusterOptions& options) {
  return lab::Cluster::build(options).value();
}

void ip(const lab::Cluster& hosts, lab::Node node, const std::string& words) {
  std::vector<std::string> argv = {"ip"};
  std::istringstream in(words);
  for (std::string word; in >> word;) argv.push_back(word);
  const lab::Fd there(::open(hosts.namespace_path(node).c_str(), O_RDONLY | O_CLOEXEC));
  const auto done = lab::run_to_end(argv, "", 20s, there.get());
  ASSERT_TRUE(done.has_value()) << "ip " << words << ": " << done.error().what;
}

void NamespaceTest::SetUp() {
  if (const Result<void> entered = lab::enter_user_namespace_if_needed(); !entered) {
    GTEST_SKIP() << entered.error().what;
  }
  if (const auto why = lab::why_no_namespaces()) GTEST_SKIP() << *why;
}

DaemonProcess::DaemonProcess(const lab::Cluster& hosts, const std::vector<std::string>& flags,
                             const std::string& listen_host) {
  const lab::Node node = lab::Node::aggregator();
  const std::string host = listen_host.empty() ? hosts.address(node) : listen_host;
  std::vector<std::string> argv = {SUMCASTD, "--json-ready", "--listen", host + ":0", "--http",
                                   "none",   "--key-file",   key_file(), "--threads", "1"};
  argv.insert(argv.end(), flags.begin(), flags.end());
  lab::SpawnOptions options;
  options.output = lab::Redirect::pipe();
  auto process = hosts.spawn(node, argv, options);
  if (!process) {
    ADD_FAILURE() << process.error().what;
    return;
  }
  process_ = std::move(*process);
  const auto line = process_.read_line(60s);
  if (!line) {
    ADD_FAILURE() << "sumcastd did not start: " << line.error().what;
    return;
  }
  address_ = json::parse(*line).at("listen").get<std::string>();
}

RankProcess::RankProcess(const lab::Cluster& hosts, lab::Node node,
                         const std::vector<std::string>& env,
                         const std::vector<std::string>& prefix) {
  std::vector<std::string> argv = prefix;
  argv.push_back(SUMCAST_TEST_RANK);
  lab::SpawnOptions options;
  options.env = env;
  options.input = lab::Redirect::pipe();
  options.output = lab::Redirect::pipe();
  auto process = hosts.spawn(node, argv, options);
  if (process) {
    process_ = std::move(*process);
  } else {
    ADD_FAILURE() << process.error().what;
  }
}

void RankProcess::tell(const std::string& step) {
  const auto written = process_.write_input(step + "\n");
  EXPECT_TRUE(written.has_value()) << written.error().what;
}

json RankProcess::hear(Duration patience) {
  const auto line = process_.read_line(patience);
  if (!line) return {{"ok", false}, {"error", "no answer: " + line.error().what}};
  return json::parse(*line);
}

Crew::Crew(const lab::Cluster& hosts, uint32_t world, uint32_t per_host) {
  for (uint32_t rank = 0; rank < world; ++rank) {
    ranks_.emplace_back(hosts, lab::Node::of_worker(static_cast<int>(rank / per_host)));
  }
}

std::vector<json> Crew::join(const std::string& words) {
  return all("join rank=%r world=" + std::to_string(size()) + " key=" + key_file() + " " + words);
}

void Crew::tell_all(const std::string& step) {
  for (size_t rank = 0; rank < ranks_.size(); ++rank) {
    std::string mine = step;
    for (size_t at = 0; (at = mine.find("%r", at)) != std::string::npos;) {
      mine.replace(at, 2, std::to_string(rank));
    }
    ranks_[rank].tell(mine);
  }
}

std::vector<json> Crew::all(const std::string& step) {
  tell_all(step);
  std::vector<json> answers;
  for (RankProcess& rank : ranks_) answers.push_back(rank.hear());
  return answers;
}

void expect_all_ok(const std::vector<json>& answers) {
  for (size_t i = 0; i < answers.size(); ++i) {
    EXPECT_TRUE(answers[i].value("ok", false)) << "rank " << i << ": " << answers[i].dump();
  }
}

void expect_all_sha(const std::vector<json>& answers, const std::string& sha) {
  expect_all_ok(answers);
  for (size_t i = 0; i < answers.size(); ++i) {
    EXPECT_EQ(answers[i].value("sha", ""), sha) << "rank " << i << ": " << answers[i].dump();
  }
}

std::string expect_one_error(const std::vector<json>& answers, ErrorCode code) {
  std::string text;
  for (const json& answer : answers) {
    EXPECT_FALSE(answer.value("ok", true)) << answer.dump();
    EXPECT_EQ(answer.value("code", 0), static_cast<int>(code)) << answer.dump();
    const std::string one = answer.value("error", "");
    if (text.empty()) text = one;
    EXPECT_EQ(one, text) << "ranks are told different things";
  }
  return text;
}

}  // namespace sumcast::acceptance
