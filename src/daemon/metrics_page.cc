// /metrics. Labels are few and bounded: threads, jobs (the coordinator limits them), and ranks only
// while a world is small.
#include <sys/resource.h>

#include <array>
#include <map>
#include <string_view>

#include "daemon/pages.h"
#include "daemon/shard_metrics.h"
#include "runtime/prometheus.h"

namespace sumcast::daemon {
namespace {

using nlohmann::json;
using runtime::MetricLabels;
using runtime::MetricType;
using runtime::PrometheusWriter;

constexpr size_t kWorldWithRankLabels = 64;

double in_seconds(Duration span) { return std::chrono::duration<double>(span).count(); }

/// A counter of the coordinator, and what the page calls it.
struct CoordinatorMetric {
  const char* key;
  std::string_view name;
  std::string_view help;
};
constexpr std::array<CoordinatorMetric, 9> kCoordinatorMetrics = {{
    {"jobs_started", "sumcast_jobs_started_total", "Jobs whose workers have all joined."},
    {"jobs_ended", "sumcast_jobs_ended_total", "Jobs that are over."},
    {"joins_refused", "sumcast_joins_refused_total", "Joins refused."},
    {"groups_opened", "sumcast_groups_opened_total", "Groups opened."},
    {"groups_refused", "sumcast_groups_refused_total", "Groups refused, for want of slots mostly."},
    {"aborts", "sumcast_aborts_total", "Groups aborted."},
    {"deaths", "sumcast_worker_deaths_total", "Workers that went without a goodbye."},
    {"connections_accepted", "sumcast_connections_total", "Control connections accepted."},
    {"denied_wrong_key", "sumcast_denied_keys_total", "Control connections with a wrong key."},
}};

void write_process(PrometheusWriter& out, const DaemonFacts& facts) {
  out.family("sumcast_build_info", MetricType::kGauge, "The version that runs; always 1.");
  out.sample({{"version", SUMCAST_VERSION}}, uint64_t{1});
  out.family("sumcast_uptime_seconds", MetricType::kGauge, "Since the daemon began to serve.");
  out.sample({}, in_seconds(facts.uptime));
  rusage usage{};
  ::getrusage(RUSAGE_SELF, &usage);
  const auto seconds = [](const timeval& time) {
    return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_usec) * 1e-6;
  };
  out.family("process_cpu_seconds_total", MetricType::kCounter, "User and system CPU time.");
  out.sample({}, seconds(usage.ru_utime) + seconds(usage.ru_stime));
  out.family("process_resident_memory_max_bytes", MetricType::kGauge, "Peak resident memory.");
  out.sample({}, static_cast<uint64_t>(usage.ru_maxrss) * 1024);
}

void write_threads(PrometheusWriter& out, const DaemonFacts& facts) {
  std::vector<std::vector<uint64_t>> values;
  std::vector<MetricLabels> labels;
  for (size_t thread = 0; thread < facts.threads.size(); ++thread) {
    values.push_back(shard_counter_values(facts.threads[thread].shard));
    labels.push_back({{"thread", std::to_string(thread)}});
  }
  std::vector<runtime::CounterSource> sources;
  for (size_t thread = 0; thread < values.size(); ++thread) {
    sources.push_back({shard_counter_table(), values[thread], labels[thread]});
  }
  out.counters(sources);
  const auto each = [&](std::string_view name, MetricType type, std::string_view help, auto value) {
    out.family(name, type, help);
    for (size_t t = 0; t < labels.size(); ++t) out.sample(labels[t], value(facts.threads[t]));
  };
  using Report = const ShardThreadReport&;
  each("sumcast_socket_drops_total", MetricType::kCounter,
       "Datagrams that the kernel dropped, mostly for want of receive buffer; a lower bound.",
       [](Report report) { return report.socket_drops; });
  each("sumcast_operation_seconds_total", MetricType::kCounter,
       "Duration of the completed operations, from their first contribution to their last sum.",
       [](Report report) { return in_seconds(report.shard.operations); });
  each("sumcast_loop_cycles_total", MetricType::kCounter, "Turns of the thread's duty cycle.",
       [](Report report) { return report.cycles; });
  each("sumcast_loop_overruns_total", MetricType::kCounter, "Turns longer than 10 ms.",
       [](Report report) { return report.cycles_overrun; });
  each("sumcast_loop_cycle_seconds_max", MetricType::kGauge, "The longest turn.",
       [](Report report) { return in_seconds(report.cycle_max); });
  each("sumcast_loop_cpu_seconds_total", MetricType::kCounter, "CPU time of the thread.",
       [](Report report) { return in_seconds(report.cpu); });
}

/// A family with a sample for each job that has what it tells.
template <typename Write>
void for_jobs(PrometheusWriter& out, const json& jobs, std::string_view name, std::string_view help,
              Write write) {
  out.family(name, MetricType::kGauge, help);
  for (const json& job : jobs) write(job, job.at("name").get<std::string>());
}

/// The worker that others wait for shows here.
void write_stragglers(PrometheusWriter& out, const DaemonFacts& facts) {
  out.family("sumcast_straggler_seconds_total", MetricType::kCounter,
             "Time that others waited for the worker's first datagram of an operation when it was "
             "the last to come; worlds of up to 64 only.");
  for (const json& job : facts.coordinator.at("jobs")) {
    const size_t world = job.at("ranks").size();
    for (size_t rank = 0; rank < world && world <= kWorldWithRankLabels; ++rank) {
      out.sample({{"job", job.at("name").get<std::string>()}, {"rank", std::to_string(rank)}},
                 in_seconds(waited_for(facts, job, rank)));
    }
  }
}

void write_workers(PrometheusWriter& out, const json& jobs) {
  for_jobs(out, jobs, "sumcast_job_workers", "Workers of a job by state.",
           [&](const json& job, const std::string& name) {
             std::map<std::string, uint64_t> states;
             for (const json& rank : job.at("ranks")) ++states[rank.at("state")];
             for (const auto& [state, count] : states) {
               out.sample({{"job", name}, {"state", state}}, count);
             }
           });
  for_jobs(out, jobs, "sumcast_worker_last_seen_seconds",
           "Since the worker was last heard; worlds of up to 64 only.",
           [&](const json& job, const std::string& name) {
             if (job.at("ranks").size() > kWorldWithRankLabels) return;
             for (const json& rank : job.at("ranks")) {
               if (rank.at("state") != "live") continue;
               out.sample({{"job", name}, {"rank", std::to_string(rank.at("rank").get<int>())}},
                          rank.at("silent_ms").get<double>() / 1e3);
             }
           });
}

/// Of training that may change its aggregator: what its ranks said last.
void write_moves(PrometheusWriter& out, const json& jobs) {
  const auto most = [&](const char* what) {
    return [&out, what](const json& job, const std::string& name) {
      uint64_t count = 0;
      for (const json& rank : job.at("ranks"))
        count = std::max(count, rank.at(what).get<uint64_t>());
      out.sample({{"job", name}}, count);
    };
  };
  for_jobs(out, jobs, "sumcast_job_failovers", "Aggregators that the job's training has lost.",
           most("failovers"));
  for_jobs(out, jobs, "sumcast_job_returns",
           "Times that the job's training went back to an aggregator that it had lost.",
           most("returns"));
}

void write_jobs(PrometheusWriter& out, const json& jobs) {
  std::map<std::string, uint64_t> states = {{"joining", 0}, {"running", 0}};
  for (const json& job : jobs) ++states[job.at("state")];
  out.family("sumcast_jobs", MetricType::kGauge, "Jobs by state.");
  for (const auto& [state, count] : states) out.sample({{"state", state}}, count);
  write_workers(out, jobs);
  write_moves(out, jobs);
  for_jobs(out, jobs, "sumcast_slots_in_use", "Slots that the job's groups own, in each thread.",
           [&](const json& job, const std::string& name) {
             out.sample({{"job", name}}, job.at("slots_in_use").get<uint64_t>());
           });
  for_jobs(out, jobs, "sumcast_slots_limit", "Slots of the job's pool in each thread.",
           [&](const json& job, const std::string& name) {
             out.sample({{"job", name}}, job.at("slots").get<uint64_t>());
           });
  for_jobs(out, jobs, "sumcast_groups", "Open groups of the job.",
           [&](const json& job, const std::string& name) {
             out.sample({{"job", name}}, uint64_t{job.at("groups").size()});
           });
  for_jobs(out, jobs, "sumcast_oldest_wait_seconds",
           "Age of the job's oldest operation that waits for a worker; 0 if none does.",
           [&](const json& job, const std::string& name) {
             uint64_t oldest_ms = 0;
             for (const json& group : job.at("groups")) {
               const GroupProgress progress = progress_of(job, group);
               if (progress.state != "waiting") continue;
               oldest_ms = std::max(oldest_ms, progress.age_ms);
             }
             out.sample({{"job", name}}, static_cast<double>(oldest_ms) / 1e3);
           });
}

}  // namespace

std::string metrics_page(const DaemonFacts& facts) {
  PrometheusWriter out;
  write_process(out, facts);
  write_jobs(out, facts.coordinator.at("jobs"));
  write_stragglers(out, facts);
  const json& counters = facts.coordinator.at("counters");
  for (const CoordinatorMetric& metric : kCoordinatorMetrics) {
    out.family(metric.name, MetricType::kCounter, metric.help);
    out.sample({}, counters.at(metric.key).get<uint64_t>());
  }
  write_threads(out, facts);
  return out.text();
}

}  // namespace sumcast::daemon
