#include "collective/shard_host.h"

#include <algorithm>

#include "auth/derive.h"
#include "base/assert.h"
#include "collective/multicast.h"
#include "collective/shard_state.h"

namespace sumcast::collective {
namespace {

constexpr size_t kBatchesPerCall = 8;
constexpr size_t kDatagramsPerDrain = 512;  // Then the others get their turn, and timers.

}  // namespace

ShardHost::Group::Group(Job& owner, const control::GroupPlan& plan, size_t tag,
                        const core::SlotPoolConfig& config)
    : job(owner),
      id(plan.group),
      ranks(plan.ranks),
      member_of_rank(owner.members.size(), -1),
      slot_base(plan.slot_base.value),
      slots(config.slots),
      lanes_bytes_max(static_cast<uint32_t>(plan.payload_bytes - wire::kHeaderBytes - tag)),
      tag_bytes(tag),
      pool_memory(core::SlotPool::bytes_needed(config)),
      pool(config, pool_memory),
      stash(size_t{config.slots} * config.members * lanes_bytes_max),
      result_stride(plan.payload_bytes),
      results(2 * size_t{config.slots} * result_stride),
      empty_results(2 * size_t{config.slots} * (wire::kHeaderBytes + wire::kTagBytes)),
      result_lanes(2 * size_t{config.slots}),
      result_counter(2 * size_t{config.slots}),
      open_measure(config.slots),
      open_kind(config.slots),
      open_compact(config.slots),
      has_quiet(2 * size_t{config.slots}) {
  completed.reserve(config.slots);
  unsealed.reserve(config.slots);
  for (size_t i = 0; i < ranks.size(); ++i) {
    member_of_rank[ranks[i].value] = static_cast<int32_t>(i);
  }
}

Result<std::unique_ptr<ShardHost>> ShardHost::open(ShardHostOptions options, net::Poller& poller,
                                                   uint64_t token_base) {
  net::UdpOptions udp;
  udp.local = options.listen;
  udp.dual_stack = options.listen.family() == net::Family::kIpv6;
  udp.reuse_address = options.socket_per_member;
  udp.receive_buffer_bytes = udp.send_buffer_bytes = options.socket_buffer_bytes;
  auto socket = net::UdpSocket::open(udp);
  if (!socket) return fail(socket.error());
  const int fd = socket->fd();
  auto host = std::unique_ptr<ShardHost>(
      new ShardHost(std::move(options), poller, token_base, std::move(*socket)));
  if (auto added = poller.add(fd, token_base); !added) return fail(added.error());
  return host;
}

ShardHost::ShardHost(ShardHostOptions options, net::Poller& poller, uint64_t token_base,
                     net::UdpSocket socket)
    : options_(std::move(options)),
      poller_(poller),
      token_base_(token_base),
      socket_(std::move(socket)),
      buffers_(options_.receive_buffers),
      faults_(options_.faults),
      flows_by_token_(1, nullptr),
      batches_(kBatchesPerCall) {}

ShardHost::~ShardHost() = default;

const net::Endpoint& ShardHost::endpoint() const { return socket_.local(); }

void ShardHost::start_job(const control::JobPlan& plan, const std::optional<auth::Key>& key) {
  std::optional<auth::DatagramKey> downlink;
  if (key) downlink = auth::derive_downlink_key(*key, plan.incarnation, plan.epoch);
  const auto sender = static_cast<uint16_t>(wire::kShardBit | options_.index);
  auto job = std::make_unique<Job>(plan.incarnation, plan.epoch, Signer(sender, downlink));
  if (!options_.socket_per_member) {
    job->direct_group = direct_multicast_group(plan);
    job->shares_address = is_address_shared(plan, endpoint());
  }
  for (size_t i = 0; i < plan.members.size(); ++i) {
    const Rank rank(static_cast<uint16_t>(i));
    std::optional<auth::DatagramKey> worker;
    if (key) worker = auth::derive_worker_key(*key, plan.incarnation, plan.epoch, rank);
    job->members.push_back(Member{Verifier(rank.value, worker), {}});
    job->members.back().flows.resize(Member::kFlowsMax);
  }
  jobs_[plan.incarnation] = std::move(job);
}

void ShardHost::end_job(Incarnation incarnation) {
  const auto found = jobs_.find(incarnation);
  if (found == jobs_.end()) return;
  Job& job = *found->second;
  while (!job.groups.empty()) {
    if (job.groups.back()) close_group(incarnation, job.groups.back()->id);
    job.groups.pop_back();
  }
  for (Member& member : job.members) {
    for (Flow& flow : member.flows) {
      if (!flow.socket) continue;
      (void)poller_.remove(flow.socket->fd());
      flows_by_token_[flow.token - token_base_] = nullptr;
    }
  }
  if (last_job_ == &job) last_job_ = nullptr;
  jobs_.erase(found);
}

void ShardHost::open_group(const control::GroupPlan& plan) {
  const auto found = jobs_.find(plan.incarnation);
  if (found == jobs_.end()) return;
  Job& job = *found->second;
  core::SlotPoolConfig config;
  config.members = static_cast<uint16_t>(plan.ranks.size());
  config.slots = static_cast<uint16_t>(plan.slot_count);
  SUMCAST_ASSERT(plan.payload_bytes > wire::kHeaderBytes + wire::kTagBytes);
  const size_t end = size_t{plan.slot_base.value} + plan.slot_count;
  if (end > job.group_of_slot.size()) job.group_of_slot.resize(end, -1);
  // Slots are granted again only after all members closed the group that had them. Until then it
  // stays, to answer those who lost a last result.
  for (size_t slot = plan.slot_base.value; slot < end; ++slot) {
    if (Group* old = group_of_slot(job, static_cast<uint16_t>(slot))) {
      close_group(plan.incarnation, old->id);
    }
  }
  auto group = std::make_unique<Group>(job, plan, job.signer.tag_bytes(), config);
  auto place = std::ranges::find_if(job.groups, [](const auto& g) { return g == nullptr; });
  if (place == job.groups.end()) place = job.groups.insert(job.groups.end(), nullptr);
  const auto index = static_cast<int32_t>(place - job.groups.begin());
  for (uint32_t i = 0; i < plan.slot_count; ++i) {
    job.group_of_slot[plan.slot_base.value + i] = index;
  }
  *place = std::move(group);
}

void ShardHost::close_group(Incarnation incarnation, GroupId id) {
  const auto found = jobs_.find(incarnation);
  if (found == jobs_.end()) return;
  Job& job = *found->second;
  for (auto& group : job.groups) {
    if (!group || group->id != id) continue;
    for (uint16_t slot = 0; slot < group->slots; ++slot) {
      job.group_of_slot[size_t{group->slot_base} + slot] = -1;
      if (!group->pool.is_open(slot)) continue;
      for (uint16_t member = 0; member < group->members(); ++member) {
        if (!group->pool.has_counted(slot, member)) continue;
        const auto buffer = payload_buffer(group->pool.payloads(slot)[member]);
        if (buffer != net::kNoBuffer) buffers_.release(buffer);
      }
    }
    std::erase(dirty_, group.get());
    const auto of_group = [&](const Repair& r) { return r.group == group.get(); };
    std::erase_if(repairs_, of_group);
    std::erase_if(blocked_, of_group);
    std::erase_if(told_, of_group);
    group.reset();
    return;
  }
}

void ShardHost::poison_group(Incarnation incarnation, GroupId id) {
  const auto found = jobs_.find(incarnation);
  if (found == jobs_.end()) return;
  for (auto& group : found->second->groups) {
    if (group && group->id == id) group->poisoned = true;
  }
}

uint32_t ShardHost::intern(const net::Endpoint& origin) {
  const auto [at, fresh] =
      origin_index_.try_emplace(origin, static_cast<uint32_t>(origins_.size()));
  if (fresh) origins_.push_back(origin);
  return at->second;
}

void ShardHost::set_local_member(Incarnation incarnation, Rank rank, LocalMember* member) {
  const auto found = jobs_.find(incarnation);
  SUMCAST_ASSERT(found != jobs_.end());
  found->second->local_rank = rank;
  found->second->local = member;
}

ShardHost::Group* ShardHost::group_of_slot(Job& job, uint16_t slot) {
  if (slot >= job.group_of_slot.size() || job.group_of_slot[slot] < 0) return nullptr;
  return job.groups[static_cast<size_t>(job.group_of_slot[slot])].get();
}

size_t ShardHost::receive(uint64_t token, Instant now) {
  SUMCAST_ASSERT(token - token_base_ < flows_by_token_.size());
  Flow* flow = flows_by_token_[token - token_base_];
  if (flow == nullptr && token != token_base_) return 0;  // Of a job that has just ended.
  net::UdpSocket& socket = flow != nullptr ? *flow->socket : socket_;
  size_t handled = 0;
  while (handled < kDatagramsPerDrain) {
    const size_t count = socket.receive(buffers_, batches_);
    for (size_t i = 0; i < count; ++i) {
      const net::ReceivedBatch& batch = batches_[i];
      const net::Endpoint* from = flow != nullptr ? &flow->to : &batch.from;
      const net::Segments all = net::segments(batch);
      // A buffer that stays costs 64 KiB: worth it for a batch, while buffers last.
      const bool keep = all.size() >= 8 && buffers_.available() > buffers_.count() / 4;
      const net::BufferIndex buffer = keep ? batch.buffer : net::kNoBuffer;
      for (const auto datagram : all) {
        ++handled;
        if (faults_.active()) {
          faults_.admit(datagram, intern(*from), now,
                        [&](std::span<const std::byte> survivor, uint32_t origin) {
                          on_datagram(Arrival{survivor, net::kNoBuffer, &origins_[origin], now});
                        });
        } else {
          on_datagram(Arrival{datagram, buffer, from, now});
        }
      }
      buffers_.release(batch.buffer);
    }
    if (count < batches_.size()) break;
  }
  return handled;
}

/// P13, P14: nothing is believed before job, sender and tag are known to be right.
void ShardHost::on_datagram(const Arrival& in) {
  counters_.add(ShardCount::kReceived);
  wire::Header header;
  if (wire::parse(in.bytes, header) != wire::ParseError::kNone) {
    return counters_.add(ShardCount::kMalformed);
  }
  if (last_job_ == nullptr || last_job_->incarnation.value != header.incarnation) {
    const auto found = jobs_.find(Incarnation(header.incarnation));
    if (found == jobs_.end()) return counters_.add(ShardCount::kUnknownJob);
    last_job_ = found->second.get();
  }
  Job& job = *last_job_;
  if (header.epoch != static_cast<uint8_t>(job.epoch.value)) {
    return counters_.add(ShardCount::kUnknownJob);
  }
  if (header.sender >= job.members.size() || !job.members[header.sender].verifier.open(in.bytes)) {
    return counters_.add(ShardCount::kUnauthentic);
  }
  uint32_t& heard = job.members[header.sender].heard;
  if (serial_before(heard, header.counter)) heard = header.counter;
  const size_t tag = job.signer.tag_bytes();
  const auto payload =
      in.bytes.subspan(wire::kHeaderBytes, in.bytes.size() - wire::kHeaderBytes - tag);
  if (header.kind == wire::Kind::kContribution) {
    return on_contribution(job, header, payload, in.buffer, in.buffer == net::kNoBuffer, in.now);
  }
  counters_.add(ShardCount::kControl);
  switch (header.kind) {
    case wire::Kind::kProbe:
      return on_probe(job, header, payload, in.now);
    case wire::Kind::kGap:
      return on_gap(job, Rank(header.sender), payload);
    case wire::Kind::kHello:
      return on_hello(job, header, in.bytes, *in.from);
    case wire::Kind::kPing:
      return on_ping(job, header, payload);
    case wire::Kind::kTuneIn:
      return on_tune_in(job, header, in.bytes.size(), in.now);
    default:
      return;  // What only shards send: nothing to do with it.
  }
}

void ShardHost::on_timeout(Instant now) {
  if (faults_.active()) {
    faults_.release_due(now, [&](std::span<const std::byte> datagram, uint32_t origin) {
      on_datagram(Arrival{datagram, net::kNoBuffer, &origins_[origin], now});
    });
  }
  if (now >= retry_at_) retry_blocked();
  std::array<core::Ask, 256> memory;
  for (auto& [incarnation, job] : jobs_) {
    for (auto& group : job->groups) {
      // A group that was ended completes nothing any more: nobody is asked.
      if (!group || group->poisoned || now < group->pool.next_deadline()) continue;
      BoundedList<core::Ask> asks(memory);
      group->pool.on_timeout(now, asks);
      counters_.add(ShardWork::kAsksOvertaken, asks.size());
      send_asks(*group, asks.view());
    }
  }
}

Instant ShardHost::next_deadline() const {
  Instant due = retry_at_;
  if (faults_.active()) due = std::min(due, faults_.next_due());
  for (const auto& [incarnation, job] : jobs_) {
    for (const auto& group : job->groups) {
      if (group && !group->poisoned) due = std::min(due, group->pool.next_deadline());
    }
  }
  return due;
}

uint64_t ShardHost::socket_drops() {
  uint64_t drops = socket_.receive_drops();
  for (Flow* flow : flows_by_token_) {
    if (flow != nullptr && flow->socket) drops += flow->socket->receive_drops();
  }
  return drops;
}

}  // namespace sumcast::collective
