#include "daemon/shard_metrics.h"

#include <array>

namespace sumcast::daemon {
namespace {

using collective::ShardCount;
using collective::ShardWork;
using runtime::CounterInfo;
using runtime::CounterKind;

constexpr size_t kVerdicts = static_cast<size_t>(ShardCount::kCount_);
constexpr size_t kWorks = static_cast<size_t>(ShardWork::kCount_);

constexpr std::string_view kRejected = "sumcast_rejected_packets_total";
constexpr std::string_view kRejectedHelp = "Datagrams that went no further, by reason";

constexpr uint16_t id(ShardCount what) { return static_cast<uint16_t>(what); }
constexpr uint16_t id(ShardWork what) { return static_cast<uint16_t>(kVerdicts + size_t(what)); }

constexpr CounterInfo rejected(ShardCount what, std::string_view reason) {
  return {id(what), kRejected, "packets", kRejectedHelp, CounterKind::kSum, reason};
}

constexpr std::array<CounterInfo, kVerdicts + kWorks> kTable = {{
    {id(ShardCount::kReceived), "sumcast_rx_packets_total", "packets", "Datagrams received"},
    {id(ShardCount::kAccepted), "sumcast_contributions_total", "packets",
     "Contributions counted, once per worker, slot and phase"},
    {id(ShardCount::kDuplicate), "sumcast_duplicates_total", "packets",
     "Contributions that had been counted before"},
    {id(ShardCount::kAnswered), "sumcast_answered_total", "packets",
     "Contributions of the phase before, answered with its stored result"},
    {id(ShardCount::kStale), "sumcast_stale_total", "packets",
     "Contributions of another phase, as late duplicates are"},
    rejected(ShardCount::kMismatch, "reason=\"mismatch\""),
    rejected(ShardCount::kForeign, "reason=\"nonmember\""),
    rejected(ShardCount::kMalformed, "reason=\"malformed\""),
    rejected(ShardCount::kUnknownJob, "reason=\"epoch\""),
    rejected(ShardCount::kUnauthentic, "reason=\"auth\""),
    {id(ShardCount::kControl), "sumcast_rx_control_packets_total", "packets",
     "Probes, gaps, hellos and pings"},
    {id(ShardWork::kResults), "sumcast_results_total", "slots", "Sums completed"},
    {id(ShardWork::kRepairs), "sumcast_retransmits_total", "packets",
     "Results sent again to one worker"},
    {id(ShardWork::kAsks), "sumcast_asks_total", "slots",
     "Contributions asked for again because they did not come"},
    {id(ShardWork::kBlocked), "sumcast_send_blocked_total", "sends",
     "Sends that a full socket buffer put off"},
    {id(ShardWork::kSendFailures), "sumcast_send_failures_total", "sends",
     "Sends that the kernel refused"},
    {id(ShardWork::kBytesFolded), "sumcast_folded_bytes_total", "bytes",
     "Addends summed, all workers' together"},
    {id(ShardWork::kOperations), "sumcast_operations_total", "operations",
     "Operations completed whose chunks, or some of them, this thread owns"},
    {id(ShardWork::kPacketsSent), "sumcast_tx_packets_total", "packets", "Datagrams sent"},
    {id(ShardWork::kBytesSent), "sumcast_tx_bytes_total", "bytes",
     "Bytes of datagrams sent, headers and tags included"},
    {id(ShardWork::kMulticast), "sumcast_tx_multicast_packets_total", "packets",
     "Of the datagrams sent, those that went to all listening workers at once"},
    {id(ShardWork::kUntuned), "sumcast_multicast_lost_listeners_total", "workers",
     "Workers that stopped hearing multicast and are answered one by one since"},
    {id(ShardWork::kAsksOvertaken), "sumcast_asks_overtaken_total", "slots",
     "Of the asks, those for slots that later ones had overtaken, without a probe"},
    {id(ShardWork::kAsksOfProber), "sumcast_asks_of_prober_total", "slots",
     "Of the asks, those of the very worker that had probed"},
    {id(ShardWork::kRepairsOfGaps), "sumcast_retransmits_of_gaps_total", "packets",
     "Of the results sent again, those whose number a worker had seen skipped"},
    {id(ShardWork::kToldOnly), "sumcast_retransmits_spared_total", "slots",
     "Probes for results that were on their way: the worker was told so instead"},
    {id(ShardWork::kCompact), "sumcast_compact_results_total", "slots",
     "Of the sums completed, those that travel without blocks of zeros"},
}};

constexpr std::array<std::string_view, kVerdicts + kWorks> kKeys = {
    "received",      "accepted",       "duplicate",      "answered",       "stale",
    "mismatch",      "foreign",        "malformed",      "unknown_job",    "unauthentic",
    "control",       "results",        "repairs",        "asks",           "blocked",
    "send_failures", "bytes_folded",   "operations",     "tx_packets",     "tx_bytes",
    "tx_multicast",  "lost_listeners", "asks_overtaken", "asks_of_prober", "repairs_of_gaps",
    "told_only",     "compact"};

}  // namespace

std::span<const CounterInfo> shard_counter_table() { return kTable; }

std::string_view shard_counter_key(size_t id) { return kKeys[id]; }

std::vector<uint64_t> shard_counter_values(const collective::ShardCounters& counters) {
  std::vector<uint64_t> values(counters.by_verdict.begin(), counters.by_verdict.end());
  values.insert(values.end(), counters.work.begin(), counters.work.end());
  return values;
}

}  // namespace sumcast::daemon
