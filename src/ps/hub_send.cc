// Messages: to whom they go, here and elsewhere.
#include <fmt/format.h>

#include <algorithm>
#include <iterator>

#include "net/descriptor.h"
#include "ps/customer_core.h"
#include "ps/hub.h"
#include "ps/internal/postoffice.h"
#include "runtime/log.h"

namespace sumcast::ps {
namespace {

/// Which nodes have a connection: workers and servers, and all with the scheduler.
bool are_connected(::ps::Node::Role role, int other) {
  if (role == ::ps::Node::SCHEDULER || other == ::ps::kScheduler) return true;
  return (role == ::ps::Node::SERVER) != (other % 2 == 0);
}

}  // namespace

void Hub::add_customer(const CorePtr& core) {
  constexpr Duration kSettingUp = std::chrono::milliseconds(5);
  const std::pair name(core->app_id, core->customer_id);
  const bool waits = is_started();
  core->closed = waits;
  // What has waited for it comes first: until all of that is handed over, others wait behind it.
  for (;;) {
    std::vector<::ps::Message> waiting;
    {
      const std::lock_guard lock(links_mutex_);
      if (cores_.count(name) != 0) {
        LOG(FATAL) << "customer " << core->customer_id << " of application " << core->app_id
                   << " exists already";
      }
      waiting = take_unclaimed(*core);
      if (waiting.empty()) {
        if (const auto it = ended_at_.find(name); it != ended_at_.end()) {
          const std::lock_guard own(core->mutex);
          core->tracker.begin_at(it->second);
        }
        cores_.emplace(name, core);
        if (waits) closed_.emplace_back(net::monotonic_now() + kSettingUp, core);
        break;
      }
    }
    for (::ps::Message& message : waiting) crew_.deliver({core, std::move(message)});
  }
  crew_.add_attendant();
  if (waits) wake();  // The leader's next timer is another.
}

/// Messages that have waited for this customer, in the order in which they came. Under
/// links_mutex_.
std::vector<::ps::Message> Hub::take_unclaimed(const ::ps::Customer::Core& core) {
  const auto found = unclaimed_.find(core.app_id);
  if (found == unclaimed_.end()) return {};
  // Others are for a customer of the application that is still to come (see addressed()).
  const auto is_others = [&](const ::ps::Message& message) {
    return core.customer_id != core.app_id && core.customer_id != message.meta.customer_id;
  };
  auto& all = found->second;
  const auto own = std::stable_partition(all.begin(), all.end(), is_others);
  std::vector<::ps::Message> taken(std::make_move_iterator(own),
                                   std::make_move_iterator(all.end()));
  all.erase(own, all.end());
  if (all.empty()) unclaimed_.erase(found);
  return taken;
}

void Hub::open_customer(const CorePtr& core) {
  {
    const std::lock_guard lock(links_mutex_);
    std::erase_if(closed_, [&](const auto& entry) { return entry.second == core; });
  }
  crew_.open(core);
}

/// Opens those whose time has come. Returns when the next one is due.
Instant Hub::open_customers(Instant now) {
  Instant next = Instant::never();
  std::vector<CorePtr> due;
  {
    const std::shared_lock lock(links_mutex_);
    for (const auto& [at, core] : closed_) {
      if (at <= now) due.push_back(core);
      if (at > now) next = std::min(next, at);
    }
  }
  for (const CorePtr& core : due) open_customer(core);
  return next;
}

void Hub::remember_customer(int app_id, int customer_id, ::ps::Customer* customer) {
  const std::lock_guard lock(links_mutex_);
  customers_[{app_id, customer_id}] = customer;
}

void Hub::remove_customer(const CorePtr& core) {
  {
    const std::lock_guard lock(links_mutex_);
    const std::pair name(core->app_id, core->customer_id);
    {
      const std::lock_guard own(core->mutex);
      ended_at_[name] = core->tracker.next();
    }
    cores_.erase(name);
    customers_.erase({core->app_id, core->customer_id});
    std::erase_if(closed_, [&](const auto& entry) { return entry.second == core; });
  }
  rooms_.withdraw(core->app_id, core->customer_id);
  crew_.retire(core);
}

::ps::Customer* Hub::find_customer(int app_id, int customer_id) {
  const std::shared_lock lock(links_mutex_);
  const auto it = customers_.find({app_id, customer_id});
  return it != customers_.end() ? it->second : nullptr;
}

/// Finds the customer. Servers and the scheduler have one for each application, called like it;
/// workers may have several. Without one the message is kept until there is.
std::optional<Arrival> Hub::addressed(::ps::Message message) {
  const int app = message.meta.app_id, customer = message.meta.customer_id;
  const bool by_app = settings_.role != ::ps::Node::WORKER;
  const auto find = [&]() -> CorePtr {
    auto it = cores_.find({app, by_app ? app : customer});
    if (it == cores_.end()) it = cores_.find({app, by_app ? customer : app});
    return it != cores_.end() ? it->second : nullptr;
  };
  {
    const std::shared_lock lock(links_mutex_);
    if (CorePtr core = find()) return Arrival{std::move(core), std::move(message)};
  }
  const std::lock_guard lock(links_mutex_);
  if (CorePtr core = find()) return Arrival{std::move(core), std::move(message)};
  auto& kept = unclaimed_[app];
  if (kept.empty()) {
    runtime::log_info(runtime::Subsystem::kNet,
                      "ps: a message waits for application {}, customer {}, which does not exist "
                      "here yet",
                      app, customer);
  }
  kept.push_back(std::move(message));
  return std::nullopt;
}

void Hub::offer_room(const Rooms::Name& name, const ::ps::SArray<char>& memory) {
  constexpr size_t kWorthIt = 64 << 10;  // Smaller answers come in the link's buffer.
  if (memory.size() < kWorthIt || key_ || settings_.resend) return;
  rooms_.post(name, memory);
}

LinkPtr Hub::link_to(int id) {
  const std::shared_lock lock(links_mutex_);
  const auto it = by_node_.find(id);
  return it != by_node_.end() ? it->second : nullptr;
}

CorePtr Hub::find_core(int app_id, int customer_id) {
  const std::shared_lock tables(links_mutex_);
  const auto it = cores_.find({app_id, customer_id});
  return it != cores_.end() ? it->second : nullptr;
}

void Hub::fail_request(const ::ps::Meta& meta, const std::string& why) {
  if (const CorePtr core = find_core(meta.app_id, meta.customer_id)) {
    const std::lock_guard lock(core->mutex);
    core->tracker.fail(meta.timestamp, why);
  }
}

int64_t Hub::send(const ::ps::Message& message) {
  const int to = message.meta.recver;
  const auto bytes = static_cast<int64_t>(message.meta.data_size);
  PS_VLOG(2) << my_node_.id << " sends " << message.DebugString();
  if (to == my_node_.id) {
    ::ps::Message copy = message;
    copy.meta.sender = to;
    if (auto arrival = addressed(std::move(copy))) crew_.deliver(std::move(*arrival));
    return bytes;
  }
  const bool is_worker = settings_.role == ::ps::Node::WORKER;
  const bool merges = merge_.on.load(std::memory_order_acquire);
  if (merges && is_worker) {
    if (const auto sent = send_merged(message)) return *sent;
  }
  if (replica_.on.load(std::memory_order_acquire)) {
    if (const auto sent = send_replicated(message)) return *sent;
  }
  if (merges && !is_worker) {
    if (const auto sent = send_merged(message)) return *sent;
  }
  LinkPtr link = link_to(to);
  if (link == nullptr) {
    std::string why;
    const std::lock_guard lock(state_mutex_);
    link = link_to(to);
    if (link == nullptr) {
      if (!are_connected(settings_.role, to)) {
        why = fmt::format(
            "{} has no connection to {}: workers and servers have, and all have one "
            "to the scheduler",
            node_text(my_node_.id), node_text(to));
      } else if (auto gone = why_gone(to)) {
        why = std::move(*gone);
      } else {
        unsent_[to].push_back(message);
        return bytes;
      }
    }
    if (link == nullptr) {
      if (message.meta.request) fail_request(message.meta, why);
      return 0;
    }
  }
  FrameHeader header = header_of(message);
  header.sender = my_node_.id;
  pass_on(link, link->send(header, message.data, message.meta.data_type, message.meta.body));
  if (settings_.water_mark > 0) await_room(link);
  return bytes;
}

std::optional<std::string> Hub::why_lost(int group) {
  if (group < 8) return why_lost(members(group));
  const std::lock_guard lock(state_mutex_);
  return why_gone(group);
}

std::optional<std::string> Hub::why_lost(const std::vector<int>& nodes) {
  const std::lock_guard lock(state_mutex_);
  if (lost_.empty() && left_.empty()) return std::nullopt;
  for (int id : nodes) {
    if (covered_.count(id) != 0) continue;
    if (auto why = why_gone(id)) return why;
  }
  return std::nullopt;
}

std::optional<std::string> Hub::why_gone(int id) const {
  if (const auto it = lost_.find(id); it != lost_.end()) return it->second;
  if (left_.count(id) != 0) return node_text(id) + " has left the job";
  return std::nullopt;
}

std::string Hub::describe_wait(::ps::Customer::Core& core, int timestamp) {
  const std::lock_guard lock(core.mutex);
  return fmt::format("{} responses to request {} of application {} have come",
                     core.tracker.progress_text(timestamp), timestamp, core.app_id);
}

}  // namespace sumcast::ps
