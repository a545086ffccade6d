#include "cli/status_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <map>
#include <nlohmann/json.hpp>
#include <vector>

#include "control/wording.h"
#include "report/table.h"
#include "report/units.h"

namespace sumcast::cli {
namespace {

using nlohmann::json;
using report::Align;
using report::Table;

/// Below that, a wait is a heartbeat's lateness and not worth a line.
constexpr uint64_t kWaitWorthNamingMs = 1000;
constexpr size_t kRanksListedMax = 32;

Duration from_ms(const json& value) { return std::chrono::milliseconds(value.get<int64_t>()); }

std::string plural(size_t count, std::string_view noun) {
  return fmt::format("{} {}{}", count, noun, count == 1 ? "" : "s");
}

std::string upper(std::string text) {
  std::ranges::transform(text, text.begin(), [](char c) {
    return c >= 'a' && c <= 'z' ? static_cast<char>(c - 'a' + 'A') : c;
  });
  return text;
}

/// Texts that came over the network must not drive the terminal.
std::string printable(const json& value) { return control::printable(value.get<std::string>()); }

std::string text_of(const std::vector<uint32_t>& numbers) {
  std::vector<Rank> ranks;
  for (const uint32_t number : numbers) ranks.emplace_back(static_cast<uint16_t>(number));
  return control::ranks_text(ranks);
}

/// What a rank says it is doing: with its last heartbeat, or else when it joined.
std::string tag_of(const json& rank) {
  for (const json& activity : rank.at("groups")) {
    if (!activity.at("tag").get_ref<const std::string&>().empty()) {
      return printable(activity.at("tag"));
    }
  }
  return printable(rank.at("tag"));
}

/// "rank 5 (node3:812 at 10.0.0.3)", with what it says it is doing.
std::string introduce(const json& rank) {
  std::string text = fmt::format("rank {}", rank.at("rank").get<uint32_t>());
  const std::string name = printable(rank.at("name"));
  if (!name.empty()) text += fmt::format(" ({} at {})", name, printable(rank.at("address")));
  const std::string tag = tag_of(rank);
  if (!tag.empty()) text += fmt::format(" \"{}\"", tag);
  return text;
}

const json* activity_in(const json& rank, uint32_t group) {
  for (const json& activity : rank.at("groups")) {
    if (activity.at("group") == group) return &activity;
  }
  return nullptr;
}

/// "live" ranks and others: "ranks 0-6 live, rank 7 dead".
std::string states_text(const json& job) {
  std::map<std::string, std::vector<uint32_t>> by_state;
  for (const json& rank : job.at("ranks")) {
    by_state[rank.at("state")].push_back(rank.at("rank").get<uint32_t>());
  }
  std::string text;
  for (const auto& [state, ranks] : by_state) {
    text += fmt::format("{}{} {}", text.empty() ? "" : ", ", text_of(ranks), state);
  }
  return text;
}

/// "2 x 4": hosts and the ranks of each; "4", if each rank is a host of its own; "3 x 1-2".
std::string hosts_text(const json& group) {
  std::map<uint32_t, uint32_t> ranks;
  for (const json& host : group.at("hosts")) ++ranks[host.get<uint32_t>()];
  uint32_t least = UINT32_MAX, most = 0;
  for (const auto& [host, count] : ranks) {
    least = std::min(least, count);
    most = std::max(most, count);
  }
  if (most <= 1) return std::to_string(ranks.size());
  if (least == most) return fmt::format("{} x {}", ranks.size(), most);
  return fmt::format("{} x {}-{}", ranks.size(), least, most);
}

std::string groups_table(const json& job) {
  Table table({{"GROUP", Align::kRight},
               {"KEY", Align::kLeft},
               {"RANKS", Align::kRight},
               {"HOSTS", Align::kRight},
               {"SLOTS", Align::kRight},
               {"STATE", Align::kLeft},
               {"SEQ", Align::kRight},
               {"OPERATION", Align::kLeft},
               {"AGE", Align::kRight}});
  for (const json& group : job.at("groups")) {
    const std::string state = group.at("state");
    const bool under_way = state == "running" || state == "waiting";
    table.add_row({std::to_string(group.at("group").get<uint32_t>()), printable(group.at("key")),
                   std::to_string(group.at("ranks").size()), hosts_text(group),
                   std::to_string(group.at("slot_count").get<uint32_t>()), upper(state),
                   std::to_string(group.at("sequence").get<uint64_t>()),
                   printable(group.at("operation")),
                   under_way ? report::format_duration(from_ms(group.at("age_ms"))) : ""});
  }
  return table.to_string();
}

std::string ranks_table(const json& job) {
  Table table({{"RANK", Align::kRight},
               {"STATE", Align::kLeft},
               {"PROCESS", Align::kLeft},
               {"ADDRESS", Align::kLeft},
               {"HEARD", Align::kRight},
               {"POSTED", Align::kRight},
               {"DONE", Align::kRight},
               {"WAITED FOR", Align::kRight},
               {"DOING", Align::kLeft}});
  for (const json& rank : job.at("ranks")) {
    uint64_t posted = 0, completed = 0;
    std::string doing = tag_of(rank);
    for (const json& activity : rank.at("groups")) {
      posted += activity.at("posted").get<uint64_t>();
      completed += activity.at("completed").get<uint64_t>();
      if (activity.at("posted") > activity.at("completed"))
        doing = printable(activity.at("operation"));
    }
    const bool is_there = rank.at("state") != "absent";
    table.add_row({std::to_string(rank.at("rank").get<uint32_t>()), rank.at("state"),
                   printable(rank.at("name")), printable(rank.at("address")),
                   is_there ? report::format_duration(from_ms(rank.at("silent_ms"))) + " ago" : "",
                   std::to_string(posted), std::to_string(completed),
                   report::format_duration(from_ms(rank.at("waited_for_ms"))), doing});
  }
  return table.to_string();
}

/// "; it fails in 9.6 min": when the first of those that wait in the group gives up, if any will.
std::string end_text(const json& ranks, uint32_t group) {
  uint64_t left_ms = 0;
  for (const json& rank : ranks) {
    const json* activity = activity_in(rank, group);
    if (activity == nullptr || activity->at("posted") <= activity->at("completed")) continue;
    const auto own_ms = activity->value("left_ms", uint64_t{0});
    if (own_ms > 0 && (left_ms == 0 || own_ms < left_ms)) left_ms = own_ms;
  }
  if (left_ms == 0) return "";
  return fmt::format("; it fails in {}",
                     report::format_duration(std::chrono::milliseconds(left_ms)));
}

/// What keeps a job: one line each.
std::vector<std::string> outliers_of(const json& job) {
  std::vector<std::string> lines;
  const json& ranks = job.at("ranks");
  for (const json& rank : ranks) {
    if (rank.at("state") == "dead") lines.push_back(introduce(rank) + " is dead");
    if (rank.at("state") == "absent") lines.push_back(introduce(rank) + " has not joined");
    if (const std::string why = printable(rank.at("alone")); !why.empty()) {
      lines.push_back(introduce(rank) + " shares memory with no rank of its host: " + why);
    }
  }
  for (const json& group : job.at("groups")) {
    const auto number = group.at("group").get<uint32_t>();
    if (group.at("state") == "aborted") {
      lines.push_back(
          fmt::format("group {} was aborted: {}", number, printable(group.at("aborted"))));
      continue;
    }
    if (group.at("state") != "waiting" || group.at("age_ms") < kWaitWorthNamingMs) continue;
    for (const json& blocker : group.at("blocked_on")) {
      const json& rank = ranks.at(blocker.get<size_t>());
      const json* activity = activity_in(rank, number);
      lines.push_back(fmt::format(
          "group {} has waited {} for {}: the others are at operation {}, it is at {}{}", number,
          report::format_duration(from_ms(group.at("age_ms"))), introduce(rank),
          group.at("sequence").get<uint64_t>(),
          activity != nullptr ? activity->at("posted").get<uint64_t>() : 0,
          end_text(ranks, number)));
    }
  }
  for (const json& key : job.at("groups_pending")) {
    lines.push_back(fmt::format("group \"{}\" waits for members", printable(key)));
  }
  return lines;
}

/// Of training that goes on elsewhere when its aggregator dies, and comes back.
std::string moves_text(const json& job) {
  uint64_t failovers = 0, returns = 0;
  for (const json& rank : job.at("ranks")) {
    failovers = std::max(failovers, rank.at("failovers").get<uint64_t>());
    returns = std::max(returns, rank.at("returns").get<uint64_t>());
  }
  if (failovers == 0) return "";
  return fmt::format("  its aggregators were lost {}; it came back {}\n", plural(failovers, "time"),
                     plural(returns, "time"));
}

std::string job_text(const json& job) {
  std::string text =
      fmt::format("Job \"{}\" {}: {}; slots {} of {} in use\n", printable(job.at("name")),
                  job.at("state").get<std::string>(), states_text(job),
                  job.at("slots_in_use").get<uint32_t>(), job.at("slots").get<uint32_t>());
  text += moves_text(job);
  const auto outliers = outliers_of(job);
  for (const std::string& line : outliers) text += fmt::format("  ! {}\n", line);
  if (!job.at("groups").empty()) text += "\n" + groups_table(job);
  if (job.at("ranks").size() <= kRanksListedMax) text += "\n" + ranks_table(job);
  return text;
}

std::string threads_table(const json& status) {
  Table table({{"THREAD", Align::kRight},
               {"PORT", Align::kLeft},
               {"RECEIVED", Align::kRight},
               {"COUNTED", Align::kRight},
               {"SUMS", Align::kRight},
               {"SENT", Align::kRight},
               {"OPERATIONS", Align::kRight},
               {"MEAN", Align::kRight},
               {"DUPLICATE", Align::kRight},
               {"REPAIRS", Align::kRight},
               {"REJECTED", Align::kRight},
               {"DROPS", Align::kRight},
               {"LONGEST TURN", Align::kRight}});
  for (const json& thread : status.at("threads")) {
    const json& counters = thread.at("counters");
    const auto count = [&](const char* key) { return counters.at(key).get<uint64_t>(); };
    const uint64_t rejected = count("mismatch") + count("foreign") + count("malformed") +
                              count("unknown_job") + count("unauthentic");
    const uint64_t operations = count("operations");
    const Duration mean(thread.at("operations_ns").get<int64_t>() /
                        static_cast<int64_t>(std::max<uint64_t>(operations, 1)));
    table.add_row({std::to_string(thread.at("thread").get<uint32_t>()), thread.at("endpoint"),
                   report::format_count(count("received")), report::format_count(count("accepted")),
                   report::format_count(count("results")),
                   report::format_bytes(static_cast<double>(count("tx_bytes"))),
                   report::format_count(operations), report::format_duration(mean),
                   report::format_count(count("duplicate")), report::format_count(count("repairs")),
                   report::format_count(rejected),
                   report::format_count(thread.at("socket_drops").get<uint64_t>()),
                   report::format_duration(Duration(thread.at("cycle_ns_max").get<int64_t>()))});
  }
  return table.to_string();
}

std::string counters_text(const json& counters) {
  const auto count = [&](const char* key) { return counters.at(key).get<uint64_t>(); };
  return fmt::format(
      "Since the start: {} and {} opened; {} aborted, {} died; refused: {} joins, {} wrong keys, "
      "{} groups\n",
      plural(count("jobs_started"), "job"), plural(count("groups_opened"), "group"),
      plural(count("aborts"), "group"), plural(count("deaths"), "worker"), count("joins_refused"),
      count("denied_wrong_key"), count("groups_refused"));
}

std::string all_text(const json& status) {
  size_t ranks = 0;
  for (const json& job : status.at("jobs")) ranks += job.at("ranks").size();
  std::string text = fmt::format(
      "sumcastd {} at {}, pid {}, up {}: {}, {}\n", status.at("version").get<std::string>(),
      status.at("listen").get<std::string>(), status.at("pid").get<int64_t>(),
      report::format_duration(from_ms(status.at("uptime_ms"))),
      plural(status.at("jobs").size(), "job"), plural(ranks, "worker"));
  if (!status.at("sealed").get<bool>()) {
    text += "  ! insecure: no keys, no tags; whoever reaches its ports can change sums\n";
  }
  text += "\n";
  for (const json& job : status.at("jobs")) text += job_text(job) + "\n";
  text += threads_table(status) + "\n";
  return text + counters_text(status.at("counters"));
}

}  // namespace

Result<std::string> status_text(const json& status) {
  // What another program, or another version, serves there must be an error and no exception.
  try {
    if (status.at("program") == "sumcastd") return all_text(status);
  } catch (const json::exception&) {
  }
  return fail(ErrorCode::kUnavailable, "this is not the status of a sumcastd of this version");
}

}  // namespace sumcast::cli
