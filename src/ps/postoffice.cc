// Postoffice and Van: the interface's face over the hub.
#include "ps/internal/postoffice.h"

#include <cstring>
#include <mutex>
#include <thread>

#include "net/descriptor.h"
#include "ps/customer_core.h"
#include "ps/hub.h"

namespace ps {
namespace {

using sumcast::ps::Hub;

/// What of the postoffice is not the hub's.
struct Desk {
  std::mutex mutex;
  std::function<void()> exit_callback;
  std::vector<Range> ranges;
};

Desk& desk() {
  static Desk* const instance = new Desk;
  return *instance;
}

/// The role and the counts are known before Start too: older programs ask for them then.
bool has_role(Node::Role role, const char* name) {
  if (Hub::get().is_started()) return Hub::get().settings().role == role;
  const char* const value = Environment::Get()->find("DMLC_ROLE");
  return value != nullptr && std::strcmp(value, name) == 0;
}

}  // namespace

const int Node::kEmpty;
const int Meta::kEmpty;

int64_t Van::Send(const Message& msg) { return Hub::get().send(msg); }

const Node& Van::my_node() const {
  if (!Hub::get().is_started()) LOG(FATAL) << "ps::Start has not been called, or Finalize has";
  return Hub::get().my_node();
}

bool Van::IsReady() const { return Hub::get().is_ready(); }

Postoffice* Postoffice::Get() {
  static Postoffice* const instance = new Postoffice;
  return instance;
}

void Postoffice::Start(int customer_id, const char* argv0, bool do_barrier) {
  dmlc::InitLogging(argv0 != nullptr ? argv0 : "ps");
  const auto started = Hub::get().start(customer_id);
  if (!started) LOG(FATAL) << "ps::Start: " << started.error().what;
  if (do_barrier) Barrier(customer_id, kWorkerGroup + kServerGroup + kScheduler);
}

void Postoffice::Finalize(int customer_id, bool do_barrier) {
  if (do_barrier) {
    const auto passed =
        Hub::get().barrier(customer_id, kWorkerGroup + kServerGroup + kScheduler, true);
    if (!passed) LOG(FATAL) << "ps::Finalize: " << passed.error().what;
  }
  if (customer_id != 0) return;
  Hub::get().stop();
  std::function<void()> callback;
  {
    Desk& d = desk();
    const std::lock_guard<std::mutex> lock(d.mutex);
    d.ranges.clear();
    callback.swap(d.exit_callback);
  }
  if (callback) callback();
}

void Postoffice::RegisterExitCallback(const std::function<void()>& callback) {
  const std::lock_guard<std::mutex> lock(desk().mutex);
  desk().exit_callback = callback;
}

void Postoffice::Barrier(int customer_id, int node_group) {
  const auto passed = Hub::get().barrier(customer_id, node_group, false);
  if (!passed) LOG(FATAL) << "ps::Barrier: " << passed.error().what;
}

const std::vector<int>& Postoffice::GetNodeIDs(int node_id) const {
  return Hub::get().members(node_id);
}

const std::vector<Range>& Postoffice::KeyRanges() const {
  Desk& d = desk();
  const std::lock_guard<std::mutex> lock(d.mutex);
  const auto servers = static_cast<uint64_t>(num_servers());
  if (d.ranges.size() != servers) {
    d.ranges.clear();
    for (uint64_t i = 0; i < servers; ++i) {
      const uint64_t width = kMaxKey / servers;
      d.ranges.emplace_back(width * i, i + 1 == servers ? kMaxKey : width * (i + 1));
    }
  }
  return d.ranges;
}

bool internal::NoteRangesAsked() {
  Hub::get().note_ranges_asked();
  return true;
}

const std::vector<Range>& Postoffice::AskForRanges() {
  if (partition() == Partition::kHash) {
    LOG(FATAL) << "keys go by hash since ps::Start, which could not know that this process would "
                  "ask for ranges (GetServerKeyRanges, set_slicer) in a library loaded later: set "
                  "SUMCAST_PS_PARTITION=ranges for the job";
  }
  return KeyRanges();
}

Partition Postoffice::partition() const { return Hub::get().partition(); }

int Postoffice::num_workers() const {
  return Hub::get().is_started() ? Hub::get().num_workers() : GetEnv("DMLC_NUM_WORKER", 0);
}
int Postoffice::num_servers() const {
  return Hub::get().is_started() ? Hub::get().num_servers() : GetEnv("DMLC_NUM_SERVER", 0);
}
int Postoffice::is_worker() const { return has_role(Node::WORKER, "worker") ? 1 : 0; }
int Postoffice::is_server() const { return has_role(Node::SERVER, "server") ? 1 : 0; }
int Postoffice::is_scheduler() const { return has_role(Node::SCHEDULER, "scheduler") ? 1 : 0; }
int Postoffice::verbose() const { return Hub::get().settings().verbose; }

std::vector<int> Postoffice::GetDeadNodes(int t) {
  if (!Hub::get().is_ready() || t <= 0) return {};
  return Hub::get().dead_nodes(std::chrono::seconds(t));
}

Customer* Postoffice::GetCustomer(int app_id, int customer_id, int timeout) const {
  const auto deadline = sumcast::net::monotonic_now() + std::chrono::seconds(timeout);
  for (;;) {
    Customer* const customer = Hub::get().find_customer(app_id, customer_id);
    if (customer != nullptr || sumcast::net::monotonic_now() >= deadline) return customer;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
}

void Postoffice::DeclareMergeable(int app_id, int cmd) {
  Hub::get().declare_mergeable(app_id, cmd);
}

bool Postoffice::IsMergeable(int app_id, int cmd) const {
  return Hub::get().is_mergeable(app_id, cmd);
}

}  // namespace ps
