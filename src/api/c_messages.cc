// The C API's messages, ends, meeting places and counters: translation only, as c_api.cc.
#include <cstddef>
#include <cstring>
#include <string_view>
#include <vector>

#include "api/c_handles.h"
#include "sumcast/meeting.hpp"

namespace {

using sumcast::ErrorCode;
using sumcast::c_api::guarded;

using sumcast::c_api::require;

/// The sizes of structures when they were first published.
constexpr size_t kFirstMessageBytes = offsetof(sumcast_message, tag) + sizeof(sumcast_message::tag);
constexpr size_t kFirstCountersBytes =
    offsetof(sumcast_counters, bytes_folded) + sizeof(sumcast_counters::bytes_folded);

/// Messages lie side by side, each as long as the program's version of it.
sumcast::Result<std::vector<sumcast::Message>> convert_all(const sumcast_message* from,
                                                           size_t count) {
  std::vector<sumcast::Message> all;
  if (count == 0) return all;
  if (auto r = require(from, "an array of messages"); !r) return sumcast::fail(r.error());
  const auto* bytes = reinterpret_cast<const unsigned char*>(from);
  const size_t stride = from->size;
  for (size_t i = 0; i < count; ++i) {
    const auto* at = reinterpret_cast<const sumcast_message*>(bytes + i * stride);
    const auto one = sumcast::c_api::known_part(at, kFirstMessageBytes, "message");
    if (!one) return sumcast::fail(one.error());
    if (one->size != stride) {
      return sumcast::fail(ErrorCode::kInvalidArgument, "messages of one call differ in `size`");
    }
    all.push_back({one->data, one->bytes, one->peer, one->tag, one->check});
  }
  return all;
}

/// Copies a text that has to fit.
sumcast::Result<void> give(const std::string& text, char* buffer, size_t bytes) {
  if (buffer == nullptr || bytes <= text.size()) {
    return sumcast::fail(ErrorCode::kInvalidArgument, "the buffer is too small for the text");
  }
  std::memcpy(buffer, text.c_str(), text.size() + 1);
  return {};
}

}  // namespace

extern "C" {

int sumcast_exchange(sumcast_group* group, const sumcast_message* sends, size_t send_count,
                     const sumcast_message* receives, size_t receive_count,
                     const sumcast_call* call, void (*on_done)(void* user), void* user,
                     sumcast_work** work) {
  return guarded([&]() -> sumcast::Result<void> {
    if (auto r = require(group, "group"); !r) return r;
    auto options = sumcast::c_api::convert(call);
    if (!options) return sumcast::fail(options.error());
    const auto out = convert_all(sends, send_count);
    if (!out) return sumcast::fail(out.error());
    const auto in = convert_all(receives, receive_count);
    if (!in) return sumcast::fail(in.error());
    std::function<void()> callback;
    if (on_done != nullptr) callback = [on_done, user] { on_done(user); };
    auto begun = group->value.exchange_async(*out, *in, *options, std::move(callback));
    if (!begun) return sumcast::fail(begun.error());
    if (work == nullptr) return begun->wait();
    *work = new sumcast_work{std::move(*begun)};
    return {};
  });
}

int sumcast_group_note_call(sumcast_group* group, uint32_t number, const char* text,
                            uint64_t* tag) {
  return guarded([&]() -> sumcast::Result<void> {
    if (auto r = require(group, "group"); !r) return r;
    if (auto r = require(text, "text"); !r) return r;
    const uint64_t made = group->value.note_call(number, text);
    if (tag != nullptr) *tag = made;
    return {};
  });
}

uint32_t sumcast_work_source(const sumcast_work* work) {
  return work == nullptr ? SUMCAST_ANY_RANK : work->value.source();
}

int sumcast_group_abort(sumcast_group* group, const char* reason) {
  return guarded([&]() -> sumcast::Result<void> {
    if (auto r = require(group, "group"); !r) return r;
    group->value.abort(reason == nullptr ? "aborted by this rank" : reason);
    return {};
  });
}

int sumcast_group_check(const sumcast_group* group) {
  return guarded([&]() -> sumcast::Result<void> {
    if (auto r = require(group, "group"); !r) return r;
    const auto aborted = group->value.aborted();
    if (aborted) return sumcast::fail(*aborted);
    return {};
  });
}

int sumcast_context_counters(const sumcast_context* context, sumcast_counters* counters) {
  return guarded([&]() -> sumcast::Result<void> {
    if (auto r = require(context, "context"); !r) return r;
    auto room = sumcast::c_api::check_room(counters, kFirstCountersBytes, "counters");
    if (!room) return room;
    const sumcast::Counters now = context->value->counters();
    sumcast::c_api::fill_known_part(
        counters, {0, now.datagrams_sent, now.datagrams_received, now.retransmits, now.rejected,
                   now.bytes_folded, now.compact});
    return {};
  });
}

int sumcast_host_identity(char* buffer, size_t bytes) {
  return guarded([&] { return give(sumcast::host_identity(), buffer, bytes); });
}

int sumcast_setting(const char* name, char* buffer, size_t bytes) {
  return guarded([&]() -> sumcast::Result<void> {
    auto settings = sumcast::Options::from_settings();
    if (!settings) return sumcast::fail(settings.error());
    const std::string_view which = name == nullptr ? "" : name;
    if (which == "aggregator") return give(settings->aggregator, buffer, bytes);
    if (which == "key_file") return give(settings->key_file, buffer, bytes);
    if (which == "insecure") return give(settings->insecure ? "1" : "", buffer, bytes);
    if (which == "socket_ifname") return give(settings->interface, buffer, bytes);
    if (which == "algorithm") {
      return give(std::string(name_of(settings->algorithm)), buffer, bytes);
    }
    return sumcast::fail(ErrorCode::kInvalidArgument, "no such setting: " + std::string(which));
  });
}

int sumcast_reachable_address(const char* peer, const char* interface_name, int allow_loopback,
                              char* buffer, size_t bytes) {
  return guarded([&]() -> sumcast::Result<void> {
    std::string interface = interface_name == nullptr ? "" : interface_name;
    if (interface_name == nullptr) {
      auto settings = sumcast::Options::from_settings();
      if (!settings) return sumcast::fail(settings.error());
      interface = settings->interface;
    }
    auto found =
        sumcast::reachable_address(peer == nullptr ? "" : peer, interface, allow_loopback != 0);
    if (!found) return sumcast::fail(found.error());
    return give(*found, buffer, bytes);
  });
}

}  // extern "C"
