// Joining a job: key, addresses, control connection, paths, the world group.
#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <numeric>

#include "api/context_state.h"
#include "auth/key_file.h"
#include "control/identity.h"
#include "control/wording.h"
#include "net/ifname.h"
#include "net/interface.h"
#include "net/udp.h"
#include "runtime/clock.h"
#include "runtime/environment.h"
#include "runtime/log.h"

namespace sumcast {
namespace {

constexpr Duration kLeavePatience = std::chrono::seconds(2);

Result<std::optional<auth::Key>> find_key(const Options& options) {
  if (options.insecure) {
    if (!options.key_file.empty() || options.key) {
      return fail(ErrorCode::kInvalidArgument, "a key and insecure exclude each other");
    }
    runtime::log_warn(runtime::Subsystem::kAuth,
                      "insecure: nothing is authenticated, anybody on this network can forge sums");
    return std::optional<auth::Key>{};
  }
  if (options.key) {
    if (!options.key_file.empty()) {
      return fail(ErrorCode::kInvalidArgument, "a key file and a key exclude each other");
    }
    auth::Key key;
    key.bytes = *options.key;
    return std::optional<auth::Key>{key};
  }
  if (!options.key_file.empty()) {
    auto key = auth::read_key_file(options.key_file);
    if (!key) return fail(key.error());
    return std::optional<auth::Key>{*key};
  }
  if (options.world == 1 && options.aggregator.empty()) {
    return std::optional<auth::Key>{auth::random_key()};  // Nobody else has to know it.
  }
  return fail(ErrorCode::kInvalidArgument,
              "no key: make one with `sumcast keygen FILE`, give it to all ranks and the daemon "
              "(SUMCAST_KEY_FILE), or set SUMCAST_INSECURE=1");
}

Result<net::Family> find_family(const Options& options) {
  if (options.family.empty()) return net::Family::kAny;
  if (options.family == "AF_INET") return net::Family::kIpv4;
  if (options.family == "AF_INET6") return net::Family::kIpv6;
  return fail(
      ErrorCode::kInvalidArgument,
      fmt::format("family \"{}\" does not exist; there are AF_INET and AF_INET6", options.family));
}

Result<net::Endpoint> find_coordinator(const Options& options) {
  const auto family = find_family(options);
  if (!family) return fail(family.error());
  if (!options.aggregator.empty()) {
    auto all = net::parse_endpoints(options.aggregator, *family);
    if (!all) return fail(all.error().within("aggregator"));
    return all->front();
  }
  if (!options.coordinator.empty()) {
    auto one = net::parse_endpoint(options.coordinator, *family);
    if (!one) return fail(one.error().within("coordinator"));
    return *one;
  }
  if (options.world == 1) {
    return net::Endpoint::loopback(
        *family == net::Family::kIpv6 ? net::Family::kIpv6 : net::Family::kIpv4, 0);
  }
  return fail(ErrorCode::kInvalidArgument,
              "nowhere to join: give an aggregator (SUMCAST_AGGREGATOR=host:port) or, without a "
              "daemon, where rank 0 listens (MASTER_ADDR and MASTER_PORT)");
}

bool wants_aggregator(Algorithm a) {
  return a == Algorithm::kAuto || a == Algorithm::kInNetwork || a == Algorithm::kServer;
}

}  // namespace

Context::Context() = default;

Context::~Context() {
  if (!impl_) return;
  world_.reset();
  impl_->leave();
}

Result<std::unique_ptr<Context>> Context::create(const Options& options) {
  if (options.world == 0 || options.rank >= options.world || options.world > runtime::kWorldMax) {
    return fail(ErrorCode::kInvalidArgument, fmt::format("rank {} of a world of {} does not exist",
                                                         options.rank, options.world));
  }
  auto context = std::unique_ptr<Context>(new Context());
  context->impl_ = std::make_shared<Impl>();
  Impl& impl = *context->impl_;
  impl.options = options;
  impl.options.timeout = bounded(options.timeout);
  impl.options.join_timeout = bounded(options.join_timeout);
  if (auto joined = impl.join(); !joined) return fail(joined.error());
  std::vector<uint32_t> all(options.world);
  for (uint32_t i = 0; i < options.world; ++i) all[i] = i;
  auto world = impl.open_group("world", all, context->impl_);
  if (!world) return fail(world.error().within("opening the world group"));
  context->world_ = std::make_unique<Group>(*world);
  if (auto r = measure_routes(*context->world_, impl); !r) {
    return fail(r.error().within("measuring algorithms"));
  }
  return context;
}

/// With both routes open and nobody's choice made, a few operations on each tell which is cheaper.
Result<void> Context::measure_routes(Group& world, Impl& impl) {
  using collective::Route;
  const bool one_host = world.state_->team && !world.state_->team->has_net();
  if (one_host || impl.options.algorithm != Algorithm::kAuto ||
      !impl.engine->has_route(Route::kAggregator) || !impl.engine->has_route(Route::kDirect)) {
    return {};
  }
  std::vector<float> tensor(api::CostModel::kLargeBytes / sizeof(float));
  std::array<double, 4> seconds{};
  for (size_t n = 0; n < seconds.size(); ++n) {
    Call call;
    call.algorithm = n < 2 ? Algorithm::kInNetwork : Algorithm::kDirect;
    const size_t count = n % 2 == 0 ? api::CostModel::kSmallBytes / sizeof(float) : tensor.size();
    double best = 1e9;
    for (int round = 0; round < 4; ++round) {
      const Instant start = runtime::monotonic_now();
      if (auto r = world.all_reduce(std::span(tensor).first(count), Reduction::kSum, call); !r) {
        return r;
      }
      const double took = 1e-9 * static_cast<double>((runtime::monotonic_now() - start).count());
      if (round > 0) best = std::min(best, took);  // The first one warms up.
    }
    seconds[n] = best;
  }
  Call call;
  call.algorithm = Algorithm::kInNetwork;
  if (auto r = world.all_reduce(std::span<double>(seconds), Reduction::kMax, call); !r) return r;
  impl.costs.set({seconds[0], seconds[1]}, {seconds[2], seconds[3]});
  return {};
}

uint32_t Context::rank() const { return impl_->options.rank; }
uint32_t Context::size() const { return impl_->options.world; }
Group& Context::world() { return *world_; }

Result<Group> Context::new_group(const std::vector<uint32_t>& ranks, const std::string& key) {
  std::string name = "group:" + key;
  for (const uint32_t rank : ranks) {
    if (rank >= impl_->options.world) {
      return fail(ErrorCode::kInvalidArgument,
                  fmt::format("rank {} is not in a world of {}", rank, impl_->options.world));
    }
    if (key.empty()) name += fmt::format(",{}", rank);
  }
  if (std::ranges::find(ranks, impl_->options.rank) == ranks.end()) {
    return fail(ErrorCode::kInvalidArgument, "a group is made by its members; this rank is none");
  }
  return impl_->open_group(name, ranks, impl_);
}

void Context::set_tag(const std::string& text) { impl_->set_tag(text); }
void Context::note_moves(uint32_t failovers, uint32_t returns) {
  impl_->failovers.store(failovers, std::memory_order_relaxed);
  impl_->returns.store(returns, std::memory_order_relaxed);
}
uint32_t Context::payload_bytes() const {
  // What members offer, and the plan has, are whole datagrams.
  const size_t tag = impl_->key ? wire::kTagBytes : 0;
  return static_cast<uint32_t>(world_->state_->plan.payload_bytes - wire::kHeaderBytes - tag);
}

std::optional<Error> Context::lost() const { return impl_->client->lost(); }
std::string Context::address() const { return impl_->address; }

Counters Context::counters() const {
  const collective::EngineCounters e = impl_->engine->counters();
  const collective::ShardCounters s = impl_->engine->shard_counters();
  using collective::ShardCount;
  using collective::ShardWork;
  Counters c;
  c.datagrams_sent = e.contributions + s[ShardWork::kResults];
  c.datagrams_received = e.results + e.duplicates + s[ShardCount::kReceived];
  c.compact = e.compact + s[ShardWork::kCompact];
  c.retransmits = e.repeats + s[ShardWork::kRepairs];
  c.probes = e.probes + e.gaps;
  c.asks = e.asks;
  c.rejected = e.malformed + e.unauthentic + s[ShardCount::kMalformed] +
               s[ShardCount::kUnauthentic] + s[ShardCount::kUnknownJob];
  c.send_blocked = e.blocked + s[ShardWork::kBlocked];
  c.bytes_folded = s[ShardWork::kBytesFolded];
  return c;
}

Result<void> Context::Impl::join() {
  const Instant deadline = runtime::monotonic_now() + options.join_timeout;
  auto found_key = find_key(options);
  if (!found_key) return fail(found_key.error());
  key = *found_key;
  if (options.key) auth::wipe(*options.key);
  options.key.reset();
  auto coordinator = find_coordinator(options);
  if (!coordinator) return fail(coordinator.error());
  auto selector = net::IfnameSelector::parse(options.interface);
  if (!selector) return fail(selector.error());
  auto local = net::choose_local(*coordinator, *selector);
  if (!local) return fail(local.error());
  address = local->with_port(0).text();
  runtime::log_info(runtime::Subsystem::kNet, "using {} to reach {} at {}", local->address_text(),
                    options.aggregator.empty() ? "rank 0" : "sumcastd", coordinator->text());

  collective::EngineOptions e;
  e.key = key;
  e.local = local->with_port(0);
  e.flows = options.flows;
  e.socket_buffer_bytes = options.socket_buffer_bytes;
  const uint32_t headers = local->family() == net::Family::kIpv6 ? 48 : 28;
  e.datagram_bytes_max = std::clamp(options.mtu, 576u, 9000u) - headers;
  e.window_max = options.window;
  e.spin = options.spin;
  // A parameter server, which this stands for, answers each worker.
  e.multicast = options.multicast && options.algorithm != Algorithm::kServer;
  e.faults = net::FaultPlan{.loss = options.faults.loss,
                            .duplicate = options.faults.duplicate,
                            .reorder = options.faults.reorder,
                            .delay = options.faults.delay,
                            .seed = options.faults.seed * 1000003 + options.rank};
  if (auto valid = e.faults.validate(); !valid) return fail(valid.error());
  auto made = collective::Engine::create(std::move(e));
  if (!made) return fail(made.error());
  engine = std::move(*made);
  // It takes what the kernel grants; who asked for more is told how to get it.
  if (const auto advice =
          net::receive_buffer_advice(options.socket_buffer_bytes, engine->receive_buffer_bytes())) {
    runtime::log_warn(runtime::Subsystem::kNet, "{}", *advice);
  }
  set_tag(options.tag);
  auto streams = mesh::Mesh::open(local->with_port(0), key);
  if (!streams) return fail(streams.error());
  mesh = std::move(*streams);
  const auto on_failure = [this](GroupId group, const Error& error) {
    end_group(group,
              error.within(fmt::format("rank {} ended group {}", options.rank, group.value)));
    if (auto* to = client_ready.load()) to->give_up(group, error);
  };
  const auto on_mismatch = [this](GroupId group, uint32_t mine, Rank peer, uint32_t theirs) {
    const Rank me(static_cast<uint16_t>(options.rank));
    if (auto* to = client_ready.load()) to->report_mismatch({group, me, mine, peer, theirs});
  };
  auto messages = mesh::Messenger::create(*mesh, on_failure, on_mismatch);
  if (!messages) return fail(messages.error());
  messenger = std::move(*messages);

  if (options.aggregator.empty() && options.rank == 0) {
    control::ServerOptions s;
    s.listen = *coordinator;
    s.key = key;
    if (options.heartbeat.count() <= 0 || options.death / 2 < options.heartbeat) {
      return fail(ErrorCode::kInvalidArgument, "death must be at least twice heartbeat, above 0");
    }
    s.coordinator.heartbeat = options.heartbeat;
    s.coordinator.death = options.death;
    auto started = control::CoordinatorServer::start(std::move(s), no_observer);
    if (!started) return fail(started.error());
    server = std::move(*started);
    coordinator = server->endpoint();
    if (options.on_listening) options.on_listening(coordinator->text());
  }

  control::JoinOptions j;
  j.coordinator = *coordinator;
  if (!local->is_loopback()) j.bind_local = local->with_port(0);
  j.key = key;
  j.key_source = options.key_file;
  j.join.job = options.job;
  j.join.rank = Rank(static_cast<uint16_t>(options.rank));
  j.join.world = options.world;
  j.join.host = host_name();
  j.join.name = control::process_name();
  j.join.shard = engine->shard_endpoint().text();
  j.join.mesh = mesh->endpoint().text();
  j.join.tag = options.tag;
  j.join.timeout =
      std::chrono::duration_cast<std::chrono::milliseconds>(deadline - runtime::monotonic_now());
  auto joined = control::ControlClient::join(j, *this);
  if (!joined) return fail(joined.error());
  client = std::move(*joined);
  client_ready.store(client.get());
  probe_host(deadline);
  return start_engine(*coordinator, deadline);
}

Result<void> Context::Impl::start_engine(const net::Endpoint& coordinator, Instant deadline) {
  const control::Welcome& welcome = client->welcome();
  control::JobPlan plan;
  plan.incarnation = welcome.incarnation;
  plan.epoch = welcome.epoch;
  plan.name = options.job;
  plan.members = welcome.members;
  std::vector<net::Endpoint> shards, meshes;
  for (const std::string& text : welcome.shards) {
    auto shard = net::parse_endpoint(text);
    if (!shard) return fail(shard.error().within("the daemon's shard"));
    // A daemon that listens on all addresses is reached where its coordinator was.
    shards.push_back(shard->is_wildcard() ? coordinator.with_port(shard->port()) : *shard);
  }
  for (const control::Member& member : welcome.members) {
    auto one = net::parse_endpoint(member.mesh);
    if (!one) return fail(one.error().within("a member's mesh address"));
    meshes.push_back(*one);
  }
  const Rank me(static_cast<uint16_t>(options.rank));
  engine->set_mismatch_observer([this](Incarnation, const control::Mismatch& mismatch) {
    if (auto* to = client_ready.load()) to->report_mismatch(mismatch);
  });
  mesh->start(welcome.incarnation, me, meshes);
  const bool use_aggregator = !shards.empty() && wants_aggregator(options.algorithm);
  const bool use_direct = shards.empty() || options.algorithm == Algorithm::kAuto ||
                          options.algorithm == Algorithm::kDirect;
  return engine->start(plan, me, shards, use_aggregator, use_direct || !use_aggregator, deadline);
}

Result<Group> Context::Impl::open_group(const std::string& name, const std::vector<uint32_t>& ranks,
                                        const std::shared_ptr<Impl>& self,
                                        std::optional<GroupId> beside) {
  control::OpenGroup request;
  request.key = name;
  for (const uint32_t rank : ranks) request.ranks.emplace_back(static_cast<uint16_t>(rank));
  request.payload_bytes_max = engine->datagram_bytes();
  request.slots_wanted = engine->slots_wanted();
  request.alone = alone;
  request.timeout = std::chrono::duration_cast<std::chrono::milliseconds>(
      std::min<std::chrono::nanoseconds>(options.join_timeout, options.timeout));
  auto plan = client->open_group(request, beside);
  if (!plan) return fail(plan.error());
  if (beside) std::iota(plan->hosts.begin(), plan->hosts.end(), 0u);
  messenger->open_group(plan->group);
  Group group;
  group.state_ = std::make_shared<Group::State>();
  group.state_->context = self;
  group.state_->plan = *plan;
  const auto me = std::ranges::find(plan->ranks, Rank(static_cast<uint16_t>(options.rank)));
  group.state_->rank = static_cast<uint32_t>(me - plan->ranks.begin());
  auto team = open_paths(*plan, request);
  if (!team) {  // The group's handle closes it; others may wait for this rank in the opening.
    client->give_up(plan->group, team.error());
    return fail(team.error());
  }
  group.state_->team = std::move(*team);
  // An abort may have come before everybody here knew the group.
  if (const auto aborted = client->abort_of(plan->group)) end_group(plan->group, *aborted);
  return group;
}

void Context::Impl::leave() {
  if (left || !client) return;
  left = true;
  // Slower members may still need this rank's shard: it serves until all have left.
  (void)client->leave(kLeavePatience);
}

Context::Impl::~Impl() {
  leave();
  if (engine) engine->set_mismatch_observer(nullptr);
  client_ready.store(nullptr);
  client.reset();
  if (server) server->stop();
}

void Context::Impl::on_abort(std::optional<GroupId> group, const Error& error,
                             const std::vector<Rank>&) {
  runtime::log_info(runtime::Subsystem::kControl, "aborted: {}", error.what);
  if (group) return end_group(*group, error);
  abort_teams(group, error);
  engine->abort(group, error);
  messenger->abort_all(error);
  mesh->abort_all(error);
}

/// Everything of this group that runs here ends; later calls return the error at once.
void Context::Impl::end_group(GroupId group, const Error& error) {
  // A group before that of its rows: whoever hears that rows have failed finds both ended.
  std::vector<GroupId> all;
  {
    const std::lock_guard lock(teams_mutex);
    for (const auto& [whole, rows] : row_groups) {
      if (rows == group) all.push_back(whole);
    }
    all.push_back(group);
    for (const auto& [whole, rows] : row_groups) {
      if (whole == group) all.push_back(rows);
    }
  }
  for (const GroupId one : all) end_one(one, error);
}

void Context::Impl::end_one(GroupId group, const Error& error) {
  abort_teams(group, error);
  engine->abort(group, error);
  messenger->abort(group, error);
  mesh->abort(group, error);
}

/// A rank that closes a group or leaves right after its last operation has posted as much as those
/// who still wait for the result. Without this the coordinator would go by an older heartbeat, and
/// end the group on them.
void Context::Impl::note_closing(GroupId group) {
  for (control::GroupActivity& one : current_activity()) {
    if (one.group != group) continue;
    const std::lock_guard lock(closed_mutex);
    closed.push_back(std::move(one));
  }
}

std::vector<control::GroupActivity> Context::Impl::activity() {
  std::vector<control::GroupActivity> all = current_activity();
  const std::lock_guard lock(closed_mutex);
  std::ranges::move(closed, std::back_inserter(all));
  closed.clear();
  return all;
}

control::Description Context::Impl::describe(const control::Describe& question) {
  control::Description answer;
  answer.group = question.group;
  answer.request = question.request;
  // Calls have numbers of their own, and digests that are as good as theirs alone.
  const bool by_call = (question.sequence & control::kCallNumber) != 0;
  if (by_call || question.sequence == 0) {
    const auto number = static_cast<uint32_t>(question.sequence);
    if (const auto call = messenger->find_call(question.group, number, question.digest)) {
      answer.sequence = call->number | control::kCallNumber;
      answer.text = call->text;
    }
    if (by_call || answer.sequence != 0) return answer;
  }
  if (const auto found = find_operation(question)) {
    answer.sequence = found->sequence;
    answer.text = wire::describe(*found);
  }
  return answer;
}

}  // namespace sumcast
