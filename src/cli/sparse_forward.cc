#include "cli/sparse_forward.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <numeric>

namespace sumcast::cli {
namespace {

constexpr uint64_t kRequestTag = uint64_t{0x46} << 40;
constexpr uint64_t kReplyTag = uint64_t{0x47} << 40;
constexpr std::chrono::nanoseconds kIdlePatience = std::chrono::hours(1);
constexpr uint64_t kSlotsMax = uint64_t{1} << 24;
constexpr std::chrono::nanoseconds kLeavePatience = std::chrono::seconds(2);

size_t words_of(size_t slots) { return (slots + 63) / 64; }

/// Calls `use` with every bit that is set, ascending.
template <typename Use>
void for_each_bit(std::span<const uint64_t> words, Use use) {
  for (size_t word = 0; word < words.size(); ++word) {
    for (uint64_t bits = words[word]; bits != 0; bits &= bits - 1) {
      use(static_cast<uint32_t>(word * 64 + static_cast<size_t>(std::countr_zero(bits))));
    }
  }
}

/// Hot slots of each server, as worker 0 says them.
Result<std::vector<uint64_t>> agree_on_slots(Group& group, std::vector<uint64_t> mine) {
  auto told = group.broadcast(mine.data(), mine.size(), ElementType::kI64, /*root=*/0);
  if (!told) return fail(told.error());
  return mine;
}

/// The sum that goes to one server. A server without hot rows has a table of one, for its call.
RowSum sum_for(uint32_t server, uint64_t slots, const sparse::Options& options) {
  RowSum table;
  table.slots = static_cast<uint32_t>(std::max<uint64_t>(slots, 1));
  table.width = static_cast<uint16_t>(options.shape.width);
  table.root = options.workers + server;
  return table;
}

Call call_of(const sparse::Options& options) {
  Call call;
  call.wire = options.wire;
  return call;
}

}  // namespace

Result<Group> make_forward_group(Context& context) {
  std::vector<uint32_t> ranks(context.world().size());
  std::iota(ranks.begin(), ranks.end(), 0u);
  return context.new_group(ranks, "sparse forward");
}

Result<std::unique_ptr<ForwardWorker>> ForwardWorker::create(sparse::Worker& cold, Group group,
                                                             const sparse::Options& options,
                                                             std::span<const uint64_t> hot) {
  std::unique_ptr<ForwardWorker> worker(new ForwardWorker(cold, std::move(group), options));
  std::vector<uint64_t> slots(options.servers, 0);
  for (const uint64_t key : hot) {
    const uint32_t server = sparse::server_of(table::mix_key(key), options);
    worker->slots_[key] = {server, static_cast<uint32_t>(slots[server]++)};
  }
  auto agreed = agree_on_slots(worker->group_, slots);
  if (!agreed) return fail(agreed.error());
  if (*agreed != slots) {
    return fail(ErrorCode::kMismatch, "forward: the workers chose different hot keys");
  }
  worker->legs_.resize(options.servers);
  for (size_t server = 0; server < slots.size(); ++server) {
    worker->legs_[server].request.resize(1 + words_of(slots[server]));
  }
  worker->counts_ = std::move(slots);
  return worker;
}

ForwardWorker::~ForwardWorker() {
  if (group_.aborted()) return;
  std::vector<Message> sends;
  for (uint32_t server = 0; server < legs_.size(); ++server) {
    Leg& leg = legs_[server];
    std::ranges::fill(leg.request, 0);
    leg.request[0] = static_cast<uint64_t>(ForwardTask::kLeave);
    sends.push_back({leg.request.data(), leg.request.size() * sizeof(uint64_t),
                     options_.workers + server, kRequestTag, 0});
  }
  Call call;
  call.timeout = kLeavePatience;
  (void)group_.exchange(sends, {}, call);
}

Result<std::vector<Work>> ForwardWorker::begin_sums(const float* gradients) {
  const size_t width = options_.shape.width;
  std::vector<Work> sums;
  for (uint32_t server = 0; server < legs_.size(); ++server) {
    Leg& leg = legs_[server];
    leg.gathered.resize(leg.touched.size() * width);
    for (size_t i = 0; i < leg.touched.size(); ++i) {
      std::memcpy(leg.gathered.data() + i * width, gradients + leg.places[i] * width,
                  width * sizeof(float));
    }
    hot_pushed_ += leg.touched.size();
    RowSum table = sum_for(server, counts_[server], options_);
    table.touched = leg.touched;
    table.rows = leg.gathered.data();
    auto begun = group_.sum_rows_async(table, call_of(options_));
    if (!begun) return fail(begun.error());
    sums.push_back(std::move(*begun));
  }
  return sums;
}

/// Of what take_up() has prepared.
Result<Work> ForwardWorker::request_rows(ForwardTask task) {
  std::vector<Message> sends, receives;
  for (uint32_t server = 0; server < legs_.size(); ++server) {
    Leg& leg = legs_[server];
    leg.request[0] = static_cast<uint64_t>(task);
    const uint32_t peer = options_.workers + server;
    sends.push_back(
        {leg.request.data(), leg.request.size() * sizeof(uint64_t), peer, kRequestTag, 0});
    leg.reply.resize(leg.touched.size() * row_codec_.row_bytes());
    if (leg.reply.empty()) continue;
    receives.push_back({leg.reply.data(), leg.reply.size(), peer, kReplyTag, 0});
  }
  return group_.exchange_async(sends, receives);
}

/// Makes these keys the current ones: who holds which.
void ForwardWorker::take_up(std::span<const uint64_t> keys) {
  cold_keys_.clear();
  cold_places_.clear();
  for (Leg& leg : legs_) {
    leg.touched.clear(), leg.places.clear();
    std::ranges::fill(leg.request, 0);
  }
  std::vector<std::vector<std::pair<uint32_t, uint32_t>>> hot(legs_.size());  // Slot and place.
  for (uint32_t place = 0; place < keys.size(); ++place) {
    const auto found = slots_.find(keys[place]);
    if (found != slots_.end()) {
      hot[found->second.server].emplace_back(found->second.slot, place);
      continue;
    }
    cold_keys_.push_back(keys[place]);
    cold_places_.push_back(place);
  }
  for (size_t server = 0; server < legs_.size(); ++server) {
    std::ranges::sort(hot[server]);
    for (const auto& [slot, place] : hot[server]) {
      legs_[server].touched.push_back(slot);
      legs_[server].places.push_back(place);
      legs_[server].request[1 + slot / 64] |= uint64_t{1} << (slot % 64);
    }
  }
}

Result<void> ForwardWorker::round(ForwardTask task, const float* gradients,
                                  std::span<const uint64_t> next) {
  const size_t width = options_.shape.width;
  std::vector<Work> sums;
  std::vector<std::vector<uint32_t>> in_use;  // What the sums read, while take_up() goes on.
  if (task == ForwardTask::kStep) {
    auto begun = begin_sums(gradients);
    if (!begun) return fail(begun.error());
    sums = std::move(*begun);
    cold_gradients_.resize(cold_keys_.size() * width);
    for (size_t i = 0; i < cold_keys_.size(); ++i) {
      std::memcpy(cold_gradients_.data() + i * width, gradients + cold_places_[i] * width,
                  width * sizeof(float));
    }
    for (Leg& leg : legs_) in_use.push_back(std::move(leg.touched));
  }
  take_up(next);
  auto requested = request_rows(task);
  if (!requested) return fail(requested.error());
  static const float kNothing = 0.0f;
  auto cold = task == ForwardTask::kPull
                  ? cold_.pull(cold_keys_)
                  : cold_.push_pull(cold_gradients_.empty() ? &kNothing : cold_gradients_.data(),
                                    cold_keys_);
  if (!cold) return cold;
  for (Work& sum : sums) {
    if (auto done = sum.wait(); !done) return done;
  }
  if (auto done = requested->wait(); !done) return done;
  rows_.assign(next.size(), nullptr);
  for (size_t i = 0; i < cold_places_.size(); ++i) rows_[cold_places_[i]] = cold_.row(i);
  for (Leg& leg : legs_) {
    leg.rows.resize(leg.places.size() * width);
    row_codec_.decode(leg.reply.data(), leg.places.size(), leg.rows.data());
    for (size_t i = 0; i < leg.places.size(); ++i) {
      rows_[leg.places[i]] = leg.rows.data() + i * width;
    }
  }
  return {};
}

Result<void> ForwardWorker::pull(std::span<const uint64_t> keys) {
  return round(ForwardTask::kPull, nullptr, keys);
}

Result<void> ForwardWorker::push_pull(const float* gradients, std::span<const uint64_t> next) {
  return round(ForwardTask::kStep, gradients, next);
}

ForwardServer::ForwardServer(Group group, const sparse::Options& options, uint32_t rank)
    : group_(std::move(group)),
      options_(options),
      row_codec_(options.row_wire, options.shape.width),
      me_(rank - options.workers),
      table_(options.shape),
      requests_(options.workers),
      replies_(options.workers) {}

Result<void> ForwardServer::run() {
  auto counts = agree_on_slots(group_, std::vector<uint64_t>(options_.servers, 0));
  if (!counts) return fail(counts.error());
  counts_ = std::move(*counts);
  for (const uint64_t count : counts_) {
    if (count <= kSlotsMax) continue;
    return fail(ErrorCode::kMismatch,
                fmt::format("forward: {} hot rows of a server; {} are possible", count, kSlotsMax));
  }
  for (uint64_t slot = 0; slot < counts_[me_]; ++slot) {
    if (table_.find_or_make(slot) == table::RowTable::kNone) {
      return fail(ErrorCode::kUnavailable, "forward: no room for the hot rows");
    }
  }
  for (auto& request : requests_) request.resize(1 + words_of(counts_[me_]));
  for (;;) {
    const auto task = receive();
    if (!task) return fail(task.error());
    if (*task == ForwardTask::kLeave) return {};
    if (*task == ForwardTask::kStep) {
      if (auto done = sum(); !done) return done;
    }
    if (auto done = reply(); !done) return done;
  }
}

Result<ForwardTask> ForwardServer::receive() {
  std::vector<Message> receives;
  for (uint32_t worker = 0; worker < options_.workers; ++worker) {
    std::vector<uint64_t>& request = requests_[worker];
    receives.push_back({request.data(), request.size() * sizeof(uint64_t), worker, kRequestTag, 0});
  }
  Call call;
  call.timeout = kIdlePatience;
  if (auto got = group_.exchange({}, receives, call); !got) return fail(got.error());
  for (const std::vector<uint64_t>& request : requests_) {
    if (request[0] == requests_[0][0]) continue;
    return fail(ErrorCode::kMismatch,
                fmt::format("forward: workers have tasks {} and {}", requests_[0][0], request[0]));
  }
  return static_cast<ForwardTask>(requests_[0][0]);
}

/// A server has a part in the sums of all servers, without rows, and gets its own.
Result<void> ForwardServer::sum() {
  const size_t width = options_.shape.width;
  sums_.resize(std::max<size_t>(counts_[me_], 1) * width);
  present_.assign(words_of(std::max<size_t>(counts_[me_], 1)), 0);
  std::vector<Work> sums;
  for (uint32_t server = 0; server < options_.servers; ++server) {
    RowSum table = sum_for(server, counts_[server], options_);
    table.sums = server == me_ ? sums_.data() : nullptr;
    table.present = server == me_ ? present_.data() : nullptr;
    auto begun = group_.sum_rows_async(table, call_of(options_));
    if (!begun) return fail(begun.error());
    sums.push_back(std::move(*begun));
  }
  for (Work& sum : sums) {
    if (auto done = sum.wait(); !done) return done;
  }
  for_each_bit(present_, [&](uint32_t slot) { table_.step(slot, sums_.data() + slot * width); });
  return {};
}

Result<void> ForwardServer::reply() {
  const size_t row_bytes = row_codec_.row_bytes();
  std::vector<Message> sends;
  for (uint32_t worker = 0; worker < options_.workers; ++worker) {
    std::vector<std::byte>& rows = replies_[worker];
    rows.clear();
    bool is_known = true;
    for_each_bit(std::span<const uint64_t>(requests_[worker]).subspan(1), [&](uint32_t slot) {
      if (slot >= counts_[me_]) {
        is_known = false;
        return;
      }
      rows.resize(rows.size() + row_bytes);
      row_codec_.encode(table_.record(slot), rows.data() + rows.size() - row_bytes);
    });
    if (!is_known) {
      return fail(ErrorCode::kMismatch,
                  fmt::format("forward: worker {} asked for a slot that is not there", worker));
    }
    if (rows.empty()) continue;
    sends.push_back({rows.data(), rows.size(), worker, kReplyTag, 0});
  }
  return group_.exchange(sends, {});
}

}  // namespace sumcast::cli
