// The C API over the C++ one: translation only. No exception passes (allocation failures become
// SUMCAST_SYSTEM), and the last error is kept per thread.
#include <algorithm>
#include <cstddef>
#include <cstring>
#include <string>
#include <utility>

#include "api/c_handles.h"

namespace sumcast::c_api {
namespace {

/// The sizes of structures when they were first published.
constexpr size_t kFirstCallBytes =
    offsetof(sumcast_call, timeout_ms) + sizeof(sumcast_call::timeout_ms);
constexpr size_t kFirstOptionsBytes = offsetof(sumcast_options, key);

std::string text_or(const char* text, const std::string& otherwise) {
  return text == nullptr ? otherwise : text;
}

}  // namespace

std::string& last_error() {
  thread_local std::string text;
  return text;
}

int report(const Error& error) {
  last_error() = error.what;
  return static_cast<int>(error.code);
}

Result<Call> convert(const sumcast_call* given) {
  Call to;
  if (given == nullptr) return to;
  const auto from = known_part(given, kFirstCallBytes, "call");
  if (!from) return fail(from.error());
  if (from->algorithm < 0 || from->algorithm > SUMCAST_SERVER || from->wire < 0 ||
      from->wire > SUMCAST_WIRE_FIXED) {
    return fail(ErrorCode::kInvalidArgument, "call: no such algorithm or wire");
  }
  to.algorithm = static_cast<Algorithm>(from->algorithm);
  to.wire = static_cast<WireFormat>(from->wire);
  if (from->timeout_ms > 0) to.timeout = milliseconds_of(from->timeout_ms);
  return to;
}

Result<Options> convert(const sumcast_options* given) {
  const auto from = known_part(given, kFirstOptionsBytes, "options");
  if (!from) return fail(from.error());
  Options to;
  if (from->world == 0 || from->use_settings != 0) {
    auto found = from->world == 0 ? Options::from_environment() : Options::from_settings();
    if (!found) return fail(found.error());
    to = std::move(*found);
  }
  if (from->world != 0) {
    to.rank = from->rank;
    to.world = from->world;
  }
  to.job = text_or(from->job, to.job);
  to.aggregator = text_or(from->aggregator, to.aggregator);
  to.coordinator = text_or(from->coordinator, to.coordinator);
  to.key_file = text_or(from->key_file, to.key_file);
  to.interface = text_or(from->interface_name, to.interface);
  if (from->insecure != 0) to.insecure = true;
  if (from->one_rank_per_host != 0) to.one_rank_per_host = true;
  if (from->key != nullptr) {
    to.key.emplace();
    std::memcpy(to.key->data(), from->key, to.key->size());
  }
  if (from->on_listening != nullptr) {
    to.on_listening = [call = from->on_listening, user = from->user](const std::string& address) {
      call(user, address.c_str());
    };
  }
  if (from->algorithm < 0 || from->algorithm > SUMCAST_SERVER) {
    return fail(ErrorCode::kInvalidArgument, "options: no such algorithm");
  }
  if (from->algorithm != SUMCAST_AUTO) {
    to.algorithm = static_cast<Algorithm>(from->algorithm);
  }
  if (from->timeout_ms > 0) to.timeout = milliseconds_of(from->timeout_ms);
  if (from->join_timeout_ms > 0) to.join_timeout = milliseconds_of(from->join_timeout_ms);
  return to;
}

}  // namespace sumcast::c_api

namespace {

using sumcast::ErrorCode;
using sumcast::c_api::convert;
using sumcast::c_api::guarded;
using sumcast::c_api::require;

sumcast::Result<void> check(int type, int reduction) {
  if (type < 0 || type > SUMCAST_BOOL || reduction < 0 || reduction > SUMCAST_XOR) {
    return sumcast::fail(ErrorCode::kInvalidArgument, "no such type or reduction");
  }
  return {};
}

/// Starts an operation with `begin(group, call)`; hands its work over, or waits.
template <typename Begin>
int start(sumcast_group* group, int type, int reduction, const sumcast_call* call,
          sumcast_work** work, Begin begin) noexcept {
  return guarded([&]() -> sumcast::Result<void> {
    if (auto r = require(group, "group"); !r) return r;
    if (auto r = check(type, reduction); !r) return r;
    auto options = convert(call);
    if (!options) return sumcast::fail(options.error());
    auto begun = begin(group->value, *options);
    if (!begun) return sumcast::fail(begun.error());
    if (work == nullptr) return begun->wait();
    *work = new sumcast_work{std::move(*begun)};
    return {};
  });
}

sumcast::ElementType element(int type) { return static_cast<sumcast::ElementType>(type); }
sumcast::Reduction combine(int reduction) { return static_cast<sumcast::Reduction>(reduction); }

}  // namespace

extern "C" {

const char* sumcast_last_error(void) { return sumcast::c_api::last_error().c_str(); }
const char* sumcast_version(void) { return SUMCAST_VERSION; }

int sumcast_context_create(const sumcast_options* options, sumcast_context** context) {
  return guarded([&]() -> sumcast::Result<void> {
    if (auto r = require(context, "context"); !r) return r;
    auto converted = convert(options);
    if (!converted) return sumcast::fail(converted.error());
    auto made = sumcast::Context::create(*converted);
    if (converted->key) converted->key->fill(std::byte{0});
    if (!made) return sumcast::fail(made.error());
    *context = new sumcast_context{std::move(*made)};
    return {};
  });
}
void sumcast_context_free(sumcast_context* context) { delete context; }
uint32_t sumcast_context_rank(const sumcast_context* context) {
  return context == nullptr ? 0 : context->value->rank();
}
uint32_t sumcast_context_size(const sumcast_context* context) {
  return context == nullptr ? 0 : context->value->size();
}

int sumcast_world(sumcast_context* context, sumcast_group** group) {
  return guarded([&]() -> sumcast::Result<void> {
    if (auto r = require(context, "context"); !r) return r;
    if (auto r = require(group, "group"); !r) return r;
    *group = new sumcast_group{context->value->world()};
    return {};
  });
}

int sumcast_group_create(sumcast_context* context, const uint32_t* ranks, size_t count,
                         const char* key, sumcast_group** group) {
  return guarded([&]() -> sumcast::Result<void> {
    if (auto r = require(context, "context"); !r) return r;
    if (auto r = require(ranks, "ranks"); !r) return r;
    if (auto r = require(group, "group"); !r) return r;
    auto made = context->value->new_group({ranks, ranks + count}, key == nullptr ? "" : key);
    if (!made) return sumcast::fail(made.error());
    *group = new sumcast_group{std::move(*made)};
    return {};
  });
}
void sumcast_group_free(sumcast_group* group) { delete group; }
uint32_t sumcast_group_rank(const sumcast_group* group) {
  return group == nullptr ? 0 : group->value.rank();
}
uint32_t sumcast_group_size(const sumcast_group* group) {
  return group == nullptr ? 0 : group->value.size();
}

int sumcast_all_reduce(sumcast_group* group, const void* in, void* out, uint64_t count, int type,
                       int reduction, const sumcast_call* call, sumcast_work** work) {
  return start(group, type, reduction, call, work, [&](sumcast::Group& g, const auto& c) {
    return g.all_reduce_async(in, out, count, element(type), combine(reduction), c);
  });
}
int sumcast_reduce(sumcast_group* group, const void* in, void* out, uint64_t count, int type,
                   int reduction, uint32_t root, const sumcast_call* call, sumcast_work** work) {
  return start(group, type, reduction, call, work, [&](sumcast::Group& g, const auto& c) {
    return g.reduce_async(in, out, count, element(type), combine(reduction), root, c);
  });
}
int sumcast_broadcast(sumcast_group* group, void* data, uint64_t count, int type, uint32_t root,
                      const sumcast_call* call, sumcast_work** work) {
  return start(group, type, SUMCAST_SUM, call, work, [&](sumcast::Group& g, const auto& c) {
    return g.broadcast_async(data, count, element(type), root, c);
  });
}
int sumcast_all_gather(sumcast_group* group, const void* in, void* out, uint64_t count, int type,
                       const sumcast_call* call, sumcast_work** work) {
  return start(group, type, SUMCAST_SUM, call, work, [&](sumcast::Group& g, const auto& c) {
    return g.all_gather_async(in, out, count, element(type), c);
  });
}
int sumcast_reduce_scatter(sumcast_group* group, const void* in, void* out, uint64_t count,
                           int type, int reduction, const sumcast_call* call, sumcast_work** work) {
  return start(group, type, reduction, call, work, [&](sumcast::Group& g, const auto& c) {
    return g.reduce_scatter_async(in, out, count, element(type), combine(reduction), c);
  });
}
int sumcast_barrier(sumcast_group* group, const sumcast_call* call, sumcast_work** work) {
  return start(group, SUMCAST_F32, SUMCAST_SUM, call, work,
               [&](sumcast::Group& g, const auto& c) { return g.barrier_async(c); });
}

int sumcast_work_wait(sumcast_work* work, int64_t timeout_ms) {
  return guarded([&]() -> sumcast::Result<void> {
    if (auto r = require(work, "work"); !r) return r;
    if (timeout_ms < 0) return work->value.wait();
    return work->value.wait(sumcast::c_api::milliseconds_of(timeout_ms));
  });
}
int sumcast_work_is_done(const sumcast_work* work) {
  return work != nullptr && work->value.is_done() ? 1 : 0;
}
void sumcast_work_free(sumcast_work* work) { delete work; }

}  // extern "C"
