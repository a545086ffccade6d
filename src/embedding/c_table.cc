// The C API of tables: translation only.
#include <cstddef>

#include "api/c_handles.h"
#include "sumcast/table.h"
#include "sumcast/table.hpp"

struct sumcast_table {
  std::unique_ptr<sumcast::Table> value;
};
struct sumcast_saved_table {
  sumcast::SavedTable value;
};

namespace {

using sumcast::ErrorCode;
using sumcast::Result;
using sumcast::c_api::check_room;
using sumcast::c_api::guarded;
using sumcast::c_api::known_part;
using sumcast::c_api::require;

/// The sizes of structures when they were first published.
constexpr size_t kFirstOptionsBytes =
    offsetof(sumcast_table_options, track) + sizeof(sumcast_table_options::track);
constexpr size_t kFirstCountersBytes =
    offsetof(sumcast_table_counters, checkpoints) + sizeof(sumcast_table_counters::checkpoints);
constexpr size_t kFirstViewBytes =
    offsetof(sumcast_saved_view, state_bytes) + sizeof(sumcast_saved_view::state_bytes);

Result<sumcast::TableOptions> convert(const sumcast_table_options* given) {
  const auto from = known_part(given, kFirstOptionsBytes, "table_options");
  if (!from) return sumcast::fail(from.error());
  for (const int32_t wire : {from->wire, from->row_wire}) {
    if (wire >= 0 && wire <= SUMCAST_WIRE_FIXED) continue;
    return sumcast::fail(ErrorCode::kInvalidArgument, "table: no such wire format");
  }
  sumcast::TableOptions to;
  if (from->optimizer != nullptr) to.optimizer = from->optimizer;
  to.width = from->width;
  to.rate = from->rate;
  to.momentum = from->momentum;
  to.beta1 = from->beta1;
  to.beta2 = from->beta2;
  to.epsilon = from->epsilon;
  to.beta = from->beta;
  to.l1 = from->l1;
  to.l2 = from->l2;
  to.initial = from->initial;
  to.init_scale = from->init_scale;
  to.seed = from->seed;
  to.servers = from->servers;
  to.segments = from->segments;
  to.wire = static_cast<sumcast::WireFormat>(from->wire);
  to.row_wire = static_cast<sumcast::WireFormat>(from->row_wire);
  to.resume = from->resume != 0;
  if (from->checkpoint_directory != nullptr) to.checkpoint_directory = from->checkpoint_directory;
  to.hot_max = from->hot_max;
  to.track = from->track;
  to.admit_after = from->admit_after;
  to.evict_after = from->evict_after;
  to.max_rows = from->max_rows;
  return to;
}

sumcast_table_options defaults() {
  const sumcast::TableOptions from;
  sumcast_table_options to{};
  to.optimizer = "sgd";
  to.width = from.width;
  to.rate = from.rate;
  to.momentum = from.momentum;
  to.beta1 = from.beta1;
  to.beta2 = from.beta2;
  to.epsilon = from.epsilon;
  to.beta = from.beta;
  to.l1 = from.l1;
  to.l2 = from.l2;
  to.initial = from.initial;
  to.init_scale = from.init_scale;
  to.seed = from.seed;
  to.servers = from.servers;
  to.segments = from.segments;
  to.hot_max = from.hot_max;
  to.track = from.track;
  to.admit_after = from.admit_after;
  to.evict_after = from.evict_after;
  to.max_rows = from.max_rows;
  return to;
}

Result<std::span<const uint64_t>> as_keys(const uint64_t* keys, size_t count) {
  if (keys == nullptr && count != 0) {
    return sumcast::fail(ErrorCode::kInvalidArgument, "keys is NULL");
  }
  return std::span(keys, count);
}

/// Calls `body(table, keys)`.
template <typename Body>
int with_keys(sumcast_table* table, const uint64_t* keys, size_t count, Body body) {
  return guarded([&]() -> Result<void> {
    if (auto r = require(table, "table"); !r) return r;
    const auto all = as_keys(keys, count);
    if (!all) return sumcast::fail(all.error());
    return body(*table->value, *all);
  });
}

}  // namespace

extern "C" {

int sumcast_table_defaults(sumcast_table_options* options) {
  return guarded([&]() -> Result<void> {
    if (auto r = check_room(options, kFirstOptionsBytes, "table_options"); !r) return r;
    sumcast::c_api::fill_known_part(options, defaults());
    return {};
  });
}

int sumcast_table_open(const sumcast_options* job, const sumcast_table_options* options,
                       sumcast_table** table) {
  return guarded([&]() -> Result<void> {
    if (auto r = require(table, "table"); !r) return r;
    const auto of_table = convert(options);
    if (!of_table) return sumcast::fail(of_table.error());
    sumcast::Options of_job;
    if (job != nullptr) {
      auto converted = sumcast::c_api::convert(job);
      if (!converted) return sumcast::fail(converted.error());
      of_job = std::move(*converted);
    }
    auto opened = sumcast::Table::open(of_job, *of_table);
    if (of_job.key) of_job.key->fill(std::byte{0});
    if (!opened) return sumcast::fail(opened.error());
    *table = new sumcast_table{std::move(*opened)};
    return {};
  });
}
void sumcast_table_free(sumcast_table* table) { delete table; }

int sumcast_table_pull(sumcast_table* table, const uint64_t* keys, size_t count, float* rows) {
  return with_keys(table, keys, count,
                   [&](sumcast::Table& of, auto all) { return of.pull(all, rows); });
}
int sumcast_table_push(sumcast_table* table, const float* gradients, size_t count,
                       const uint64_t* next, size_t next_count, float* next_rows) {
  return with_keys(table, next, next_count, [&](sumcast::Table& of, auto all) -> Result<void> {
    if (gradients == nullptr && count != 0) return require(nullptr, "gradients");
    return of.push({gradients, count * of.width()}, all, next_rows);
  });
}
int sumcast_table_peek(sumcast_table* table, const uint64_t* keys, size_t count, float* rows) {
  return with_keys(table, keys, count,
                   [&](sumcast::Table& of, auto all) { return of.peek(all, rows); });
}
int sumcast_table_set_hot(sumcast_table* table, const uint64_t* keys, size_t count) {
  return with_keys(table, keys, count,
                   [&](sumcast::Table& of, auto all) { return of.set_hot(all); });
}

int sumcast_table_save(sumcast_table* table, int full, const void* state, size_t bytes) {
  return guarded([&]() -> Result<void> {
    if (auto r = require(table, "table"); !r) return r;
    if (bytes != 0) {
      if (auto r = require(state, "state"); !r) return r;
    }
    return table->value->save(full != 0, {static_cast<const char*>(state), bytes});
  });
}

int sumcast_table_restored(const sumcast_table* table, const void** state, size_t* bytes) {
  return guarded([&]() -> Result<void> {
    if (auto r = require(table, "table"); !r) return r;
    if (auto r = require(state, "state"); !r) return r;
    if (auto r = require(bytes, "bytes"); !r) return r;
    const auto& restored = table->value->restored();
    *state = restored ? restored->data() : nullptr;
    *bytes = restored ? restored->size() : 0;
    return {};
  });
}

int sumcast_table_abort(sumcast_table* table, const char* reason) {
  return guarded([&]() -> Result<void> {
    if (auto r = require(table, "table"); !r) return r;
    table->value->abort(reason == nullptr ? "aborted by its caller" : reason);
    return {};
  });
}

int sumcast_table_set_rate(sumcast_table* table, float rate) {
  return guarded([&]() -> Result<void> {
    if (auto r = require(table, "table"); !r) return r;
    return table->value->set_rate(rate);
  });
}

int sumcast_table_count(const sumcast_table* table, sumcast_table_counters* counters) {
  return guarded([&]() -> Result<void> {
    if (auto r = require(table, "table"); !r) return r;
    if (auto r = check_room(counters, kFirstCountersBytes, "table_counters"); !r) return r;
    const sumcast::TableCounters from = table->value->counters();
    sumcast::c_api::fill_known_part(
        counters,
        sumcast_table_counters{0, from.rounds, from.hot_pushed, from.cold_pushed, from.hot_moved,
                               from.cold_pulled, from.hot_keys, from.hot_changes, from.rows_held,
                               from.failovers, from.checkpoints, from.returns});
    return {};
  });
}

int sumcast_saved_table_read(const char* directory, sumcast_saved_table** saved) {
  return guarded([&]() -> Result<void> {
    if (auto r = require(directory, "directory"); !r) return r;
    if (auto r = require(saved, "saved"); !r) return r;
    auto read = sumcast::read_table(directory);
    if (!read) return sumcast::fail(read.error());
    *saved = new sumcast_saved_table{std::move(*read)};
    return {};
  });
}

int sumcast_saved_table_view(const sumcast_saved_table* saved, sumcast_saved_view* view) {
  return guarded([&]() -> Result<void> {
    if (auto r = require(saved, "saved"); !r) return r;
    if (auto r = check_room(view, kFirstViewBytes, "saved_view"); !r) return r;
    const sumcast::SavedTable& from = saved->value;
    sumcast::c_api::fill_known_part(
        view, sumcast_saved_view{0, from.width, from.state_lanes, from.number, 0,
                                 from.optimizer.c_str(), from.keys.size(), from.keys.data(),
                                 from.records.data(), from.state.data(), from.state.size()});
    return {};
  });
}
void sumcast_saved_table_free(sumcast_saved_table* saved) { delete saved; }

}  // extern "C"
