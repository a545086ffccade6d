// What Python sees: joining, opening groups, and questions. sumcast/_meeting.py is its only user.
#include <pybind11/chrono.h>
#include <pybind11/functional.h>
#include <pybind11/stl.h>
#include <torch/csrc/utils/pybind.h>

#include "backend.h"
#include "gate.h"
#include "table.h"

namespace py = pybind11;

namespace sumcast_torch {
namespace {

std::string text_of(int (*ask)(char*, size_t)) {
  std::string buffer(1024, '\0');
  if (ask(buffer.data(), buffer.size()) != SUMCAST_OK) {
    throw std::runtime_error(std::string("sumcast: ") + sumcast_last_error());
  }
  return buffer.c_str();
}

std::string reachable_address(const std::string& peer, bool allow_loopback) {
  std::string buffer(1024, '\0');
  if (sumcast_reachable_address(peer.empty() ? nullptr : peer.c_str(), nullptr,
                                allow_loopback ? 1 : 0, buffer.data(),
                                buffer.size()) != SUMCAST_OK) {
    throw std::runtime_error(std::string("sumcast: ") + sumcast_last_error());
  }
  return buffer.c_str();
}

std::string setting(const std::string& name) {
  std::string buffer(4096, '\0');
  if (sumcast_setting(name.c_str(), buffer.data(), buffer.size()) != SUMCAST_OK) {
    throw std::runtime_error(std::string("sumcast: ") + sumcast_last_error());
  }
  return buffer.c_str();
}

py::dict dict_of(const std::map<std::string, OperationTotals>& of_operations) {
  py::dict all;
  for (const auto& [operation, totals] : of_operations) {
    py::dict one;
    one["count"] = totals.count;
    one["failed"] = totals.failed;
    one["bytes"] = totals.bytes;
    one["seconds"] = totals.seconds;
    all[py::str(operation)] = one;
  }
  return all;
}

using Totals = std::vector<std::pair<std::string, std::map<std::string, OperationTotals>>>;

/// Of all living groups, and the counters of their jobs.
std::map<std::shared_ptr<Job>, sumcast_counters> collect(Totals& by_group) {
  std::map<std::shared_ptr<Job>, sumcast_counters> jobs;
  for (const auto& group : living_groups()) {
    by_group.emplace_back(group->key(), group->totals());
    auto job = group->job();  // May be the last by now, if another thread closes the group.
    if (!job) continue;
    sumcast_counters now{};
    now.size = sizeof now;
    sumcast_context_counters(job->context(), &now);
    jobs.emplace(std::move(job), now);
  }
  return jobs;
}

/// {"groups": {name: {operation: totals}}, "transport": counters of all jobs of groups,
/// "staging": copies, "tables": {name: counters}}
py::dict stats() {
  Totals by_group;
  std::vector<sumcast_counters> counters;
  py::dict tables;
  for (const auto& [name, now] : table_counters()) tables[py::str(name)] = now;
  {
    // Groups that others let go meanwhile end here, which takes a while.
    const py::gil_scoped_release unlocked;
    for (const auto& [job, now] : collect(by_group)) counters.push_back(now);
  }
  py::dict by_name;
  for (const auto& [name, totals] : by_group) by_name[py::str(name)] = dict_of(totals);
  std::map<std::string, uint64_t> transport = {{"datagrams_sent", 0}, {"datagrams_received", 0},
                                               {"retransmits", 0},    {"rejected", 0},
                                               {"bytes_folded", 0},   {"compact", 0}};
  for (const sumcast_counters& now : counters) {
    transport["datagrams_sent"] += now.datagrams_sent;
    transport["datagrams_received"] += now.datagrams_received;
    transport["retransmits"] += now.retransmits;
    transport["rejected"] += now.rejected;
    transport["bytes_folded"] += now.bytes_folded;
    transport["compact"] += now.compact;
  }
  py::dict all;
  all["groups"] = by_name;
  all["transport"] = transport;
  const StagingTotals staged = staging_totals();
  py::dict staging;
  staging["operations"] = staged.operations;
  staging["bytes_in"] = staged.bytes_in;
  staging["bytes_out"] = staged.bytes_out;
  staging["seconds_in"] = staged.seconds_in;
  staging["seconds_out"] = staged.seconds_out;
  all["staging"] = staging;
  all["tables"] = tables;
  return all;
}

std::mutex backends_mutex;
std::vector<c10::weak_intrusive_ptr<SumcastBackend>> backends;

std::shared_ptr<Job> join(const std::string& job, const std::string& aggregator,
                          const std::string& coordinator, const std::string& key_file,
                          const py::bytes& key, bool insecure,
                          std::function<void(const std::string&)> on_listening, uint32_t rank,
                          std::vector<uint64_t> ranks, int64_t timeout_ms) {
  Meeting meeting{job, aggregator, coordinator, key_file, key, insecure, std::move(on_listening)};
  std::shared_ptr<Job> made;
  {
    const py::gil_scoped_release unlocked;
    made = std::make_shared<Job>(meeting, rank, std::move(ranks),
                                 std::chrono::milliseconds(timeout_ms));
  }
  std::fill(meeting.key.begin(), meeting.key.end(), '\0');
  return made;
}

c10::intrusive_ptr<SumcastBackend> open_group(const std::shared_ptr<Job>& job,
                                              const std::optional<std::vector<uint64_t>>& ranks,
                                              const std::string& key, int64_t timeout_ms) {
  const py::gil_scoped_release unlocked;
  std::optional<std::vector<uint32_t>> places;
  if (ranks) {
    places = job->places_of(*ranks);
    if (!places) throw std::runtime_error("sumcast: a group names a rank outside the job");
  }
  auto backend = c10::make_intrusive<SumcastBackend>(
      Group::open(job, places, key, std::chrono::milliseconds(timeout_ms)));
  const std::lock_guard lock(backends_mutex);
  std::erase_if(backends, [](const auto& one) { return one.expired(); });
  backends.emplace_back(backend);
  return backend;
}

/// At the end of the program: threads must not run on while the libraries that they use are taken
/// down. Groups leave one after the other, in the order they were made in.
void leave_all() {
  close_tables();
  const py::gil_scoped_release unlocked;
  std::vector<c10::intrusive_ptr<SumcastBackend>> alive;
  {
    const std::lock_guard lock(backends_mutex);
    for (const auto& one : backends) {
      if (auto backend = one.lock()) alive.push_back(std::move(backend));
    }
  }
  for (const auto& backend : alive) backend->shutdown();
}

/// A Python object of a job is dropped at once, so Python's own weak references are of no use.
struct WeakJob {
  explicit WeakJob(const std::shared_ptr<Job>& job) : pointer(job) {}
  std::weak_ptr<Job> pointer;
};

}  // namespace

PYBIND11_MODULE(TORCH_EXTENSION_NAME, module) {
  py::module_::import("torch.distributed");  // Its types are this module's bases.
  py::class_<Job, std::shared_ptr<Job>>(module, "Job")
      .def_property_readonly("ranks", &Job::ranks)
      .def_property_readonly("where", &Job::where);
  py::class_<WeakJob>(module, "WeakJob")
      .def(py::init<const std::shared_ptr<Job>&>())
      .def("__call__", [](const WeakJob& job) { return job.pointer.lock(); });
  py::class_<SumcastBackend, c10d::Backend, c10::intrusive_ptr<SumcastBackend>>(module, "Backend")
      .def_property_readonly("options", &SumcastBackend::getBackendOptions);
  define_tables(module);
  module.def("stats", &stats);
  module.def("leave_all", &leave_all);
  module.def("set_queueing_ahead", &set_queueing_ahead);
  module.def("set_stream_gate", [](const std::string& device, uintptr_t gate) {
    set_stream_gate(c10::Device(device).type(), reinterpret_cast<StreamGate>(gate));
  });
  module.def("join", &join, py::arg("job"), py::arg("aggregator"), py::arg("coordinator"),
             py::arg("key_file"), py::arg("key"), py::arg("insecure"), py::arg("on_listening"),
             py::arg("rank"), py::arg("ranks"), py::arg("timeout_ms"));
  module.def("open_group", &open_group, py::arg("job"), py::arg("ranks"), py::arg("key"),
             py::arg("timeout_ms"));
  module.def("host_identity", [] { return text_of(&sumcast_host_identity); });
  module.def("reachable_address", &reachable_address, py::arg("peer"), py::arg("allow_loopback"));
  module.def("setting", &setting, py::arg("name"));
  module.def("version", &sumcast_version);
}

}  // namespace sumcast_torch
