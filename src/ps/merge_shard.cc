#include "ps/merge_shard.h"

#include <algorithm>
#include <cstring>
#include <limits>

#include "ps/frame.h"

namespace sumcast::ps {
namespace {

/// A key's row in one of the parts.
struct Row {
  uint64_t key;
  uint32_t part, at;
};

/// Adds the rows of each key, in order of the parts. `rows` is sorted by key and part.
template <typename Val>
void fold(const std::vector<Row>& rows, const std::vector<const ::ps::Message*>& parts,
          size_t width, ::ps::SArray<uint64_t>& keys, ::ps::SArray<Val>& sums) {
  Val* to = sums.data();
  size_t count = 0;
  for (size_t i = 0; i < rows.size(); ++i) {
    const auto* const from =
        reinterpret_cast<const Val*>(parts[rows[i].part]->data[1].data()) + rows[i].at * width;
    if (i > 0 && rows[i].key == rows[i - 1].key) {
      Val* const sum = to - width;
      for (size_t j = 0; j < width; ++j) sum[j] += from[j];
      continue;
    }
    keys[count++] = rows[i].key;
    to = std::copy(from, from + width, to);
  }
}

template <typename Val>
void add_sums(const std::vector<Row>& rows, const std::vector<const ::ps::Message*>& parts,
              size_t width, ::ps::Message& out) {
  size_t distinct = 0;
  for (size_t i = 0; i < rows.size(); ++i) {
    distinct += i == 0 || rows[i].key != rows[i - 1].key ? 1 : 0;
  }
  ::ps::SArray<uint64_t> keys(new uint64_t[distinct], distinct, true);
  ::ps::SArray<Val> sums(new Val[distinct * width], distinct * width, true);
  fold(rows, parts, width, keys, sums);
  out.AddData(keys);
  out.AddData(sums);
}

}  // namespace

std::optional<RowShape> rows_of(const ::ps::Message& message) {
  if (message.data.size() != 2 || message.meta.data_type.size() != 2) return std::nullopt;
  if (message.meta.data_type[0] != ::ps::UINT64) return std::nullopt;
  RowShape shape;
  shape.type = message.meta.data_type[1];
  if (shape.type != ::ps::FLOAT && shape.type != ::ps::DOUBLE) return std::nullopt;
  shape.keys = message.data[0].size() / sizeof(uint64_t);
  const size_t vals = message.data[1].size() / element_bytes(shape.type);
  if (shape.keys == 0 || shape.keys > UINT32_MAX || vals == 0) return std::nullopt;
  if (vals % shape.keys != 0) return std::nullopt;
  shape.width = vals / shape.keys;
  return shape;
}

void MergeShard::reset(const std::vector<int>& workers, Duration wait_max) {
  *this = MergeShard();
  workers_ = workers;
  wait_max_ = wait_max;
}

void MergeShard::on_part(int worker, int server, ::ps::Message message, Instant now) {
  const RowShape shape = *rows_of(message);
  const Key key(server, message.meta.app_id, message.meta.head, shape.width, shape.type);
  Group& group = groups_[key];
  if (group.faith.empty()) {
    for (const int each : workers_) group.faith[each] = kFaithMax;
  }
  if (group.parts.empty()) group.deadline = now + wait_max_;
  group.parts.push_back({{worker, id_of(message.meta)}, std::move(message)});
}

bool MergeShard::is_complete(const Group& group) const {
  return std::all_of(group.faith.begin(), group.faith.end(), [&](const auto& entry) {
    return entry.second < kFaithful ||
           std::any_of(group.parts.begin(), group.parts.end(),
                       [&](const Part& part) { return part.name.worker == entry.first; });
  });
}

std::vector<Harvest> MergeShard::due(Instant now) {
  std::vector<Harvest> harvests;
  for (auto& [key, group] : groups_) {
    if (group.parts.empty() || group.in_flight >= kInFlight) continue;
    if (group.deadline > now && !is_complete(group)) continue;
    harvests.push_back(close(key, group));
  }
  return harvests;
}

Instant MergeShard::next_due() const {
  Instant next = Instant::never();
  for (const auto& [key, group] : groups_) {
    if (!group.parts.empty() && group.in_flight < kInFlight) next = std::min(next, group.deadline);
  }
  return next;
}

Harvest MergeShard::close(const Key& key, Group& group) {
  std::stable_sort(group.parts.begin(), group.parts.end(),
                   [](const Part& a, const Part& b) { return a.name.worker < b.name.worker; });
  Harvest harvest;
  std::vector<Row> rows;
  std::vector<const ::ps::Message*> messages;
  for (const Part& part : group.parts) {
    const auto index = static_cast<uint32_t>(messages.size());
    const size_t count = part.message.data[0].size() / sizeof(uint64_t);
    for (uint32_t i = 0; i < count; ++i) {
      uint64_t each;
      std::memcpy(&each, part.message.data[0].data() + i * sizeof each, sizeof each);
      rows.push_back({each, index, i});
    }
    messages.push_back(&part.message);
    harvest.parts.push_back(part.name);
  }
  std::sort(rows.begin(), rows.end(), [](const Row& a, const Row& b) {
    return std::tie(a.key, a.part, a.at) < std::tie(b.key, b.part, b.at);
  });
  const auto& [server, app, command, width, type] = key;
  harvest.server = server;
  harvest.number = next_;
  next_ = next_ == std::numeric_limits<int>::max() ? 1 : next_ + 1;
  ::ps::Meta& meta = harvest.message.meta;
  meta.app_id = app;
  meta.customer_id = app;
  meta.head = command;
  meta.timestamp = harvest.number;
  meta.request = meta.push = true;
  if (type == ::ps::FLOAT) {
    add_sums<float>(rows, messages, width, harvest.message);
  } else {
    add_sums<double>(rows, messages, width, harvest.message);
  }
  for (auto& [worker, faith] : group.faith) {
    const auto is_its = [&one = worker](const Part& part) { return part.name.worker == one; };
    const bool gave = std::any_of(group.parts.begin(), group.parts.end(), is_its);
    faith = gave ? std::min(kFaithMax, faith + 1) : faith / 2;
  }
  group.parts.clear();
  group.deadline = Instant::never();
  ++group.in_flight;
  const size_t rows_out = harvest.message.data[0].size() / sizeof(uint64_t);
  flying_[harvest.number] = {key, {server, harvest.parts, rows.size(), rows_out}};
  return harvest;
}

std::optional<MergeShard::Committed> MergeShard::on_committed(int number) {
  const auto it = flying_.find(number);
  if (it == flying_.end()) return std::nullopt;
  --groups_[it->second.group].in_flight;
  Committed committed = std::move(it->second.committed);
  flying_.erase(it);
  return committed;
}

void MergeShard::on_worker_lost(int worker) {
  std::erase(workers_, worker);
  for (auto& [key, group] : groups_) group.faith.erase(worker);
}

void MergeShard::on_server_lost(int server) {
  std::erase_if(groups_, [&](const auto& group) { return std::get<0>(group.first) == server; });
  std::erase_if(flying_,
                [&](const auto& flight) { return std::get<0>(flight.second.group) == server; });
}

}  // namespace sumcast::ps
