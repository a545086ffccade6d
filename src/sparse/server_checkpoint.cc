// A server's part in checkpoints: which rows it takes up when it starts, and what it writes.
#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "sparse/rows_file.h"
#include "sparse/server.h"

namespace sumcast::sparse {
namespace {

/// From a record of the checkpoint to one of this job. Where only one of them has rows that come
/// and go: rows without history were updated in the last step and are admitted; what is no row yet
/// is as new.
void convert_record(const Manifest& from, const table::TableShape& to, uint64_t key,
                    const float* saved, float* record) {
  const bool had = from.shape.life.is_on(), has = to.life.is_on();
  const size_t common = to.width + to.optimizer.state_lanes(to.width);
  const auto steps = static_cast<uint32_t>(std::min<uint64_t>(from.steps, UINT32_MAX - 1));
  table::History history{steps, to.life.admit_after + 1};
  if (had) history = from.shape.history(saved);
  const bool is_row =
      !had || (from.shape.life.has_row(history) && !from.shape.life.is_gone(history, steps));
  if (is_row) {
    std::memcpy(record, saved, common * sizeof(float));
    history.count = to.life.admit_after + 1;
  } else {
    to.make_record(key, record);
    history.count = std::min(history.count, to.life.admit_after);
  }
  if (has) to.set_history(record, history);
}

}  // namespace

/// Whoever wrote the files: of each this server takes what is its own, in the order of the parts.
Result<void> Server::restore() {
  if (!options_.restore) return {};
  const Manifest& manifest = *options_.restore;
  const size_t lanes = manifest.shape.record_lanes();
  std::vector<float> record(options_.shape.record_lanes());
  for (const auto& segment : segments_) segment->begin_restore(manifest.steps);
  const uint32_t me = context_->rank() - options_.workers;
  const auto take = [&](std::span<const uint64_t> keys, const float* records) -> Result<void> {
    for (size_t i = 0; i < keys.size(); ++i) {
      const uint64_t mixed = table::mix_key(keys[i]);
      if (server_of(mixed, options_) != me) continue;
      Segment& segment = *segments_[segment_of(mixed, options_)];
      convert_record(manifest, options_.shape, keys[i], records + i * lanes, record.data());
      auto written = segment.write_records(keys.subspan(i, 1), record.data());
      if (!written) return written;
    }
    return {};
  };
  for (const SavedPart& part : manifest.parts) {
    for (const SavedFile& file : part.files) {
      auto read = read_rows(options_.checkpoint_directory, file, manifest.shape, take);
      if (!read) return fail(read.error().within("checkpoint"));
    }
  }
  size_t rows = 0;
  for (const auto& segment : segments_) {
    // First: what goes to make room has changed since that checkpoint.
    segment->note_checkpoint(manifest.number);
    if (auto fits = segment->end_restore(); !fits) return fail(fits.error().within("checkpoint"));
    rows += segment->table().size();
  }
  rows_.store(rows, std::memory_order_relaxed);
  return {};
}

Result<SavedFile> Server::write_part(const SaveOrder& order) {
  if (options_.checkpoint_directory.empty()) {
    return fail(ErrorCode::kInvalidArgument, "no checkpoint directory was given");
  }
  uint64_t rows = 0;
  for (const auto& segment : segments_) rows += segment->count_moved(order.base);
  auto file = RowsWriter::create(options_.checkpoint_directory, order.number,
                                 context_->rank() - options_.workers, options_.shape, rows);
  if (!file) return fail(file.error());
  Result<void> written;
  for (const auto& segment : segments_) {
    segment->each_moved(order.base, [&](uint64_t key, const float* record) {
      if (written) written = file->add(key, record);
    });
  }
  if (!written) return fail(written.error());
  return file->commit();
}

/// A part that could not be written is worker 0's to report; training may go on.
Result<void> Server::save(const SaveOrder& order, uint32_t round) {
  if (order.number == 0 || order.base >= order.number) {
    return fail(ErrorCode::kMismatch, fmt::format("worker 0 orders checkpoint {} on top of {}",
                                                  order.number, order.base));
  }
  if (receipting_) {
    if (auto sent = receipting_->wait(); !sent) return sent;
  }
  for (const auto& segment : segments_) segment->forget_before(order.standing);
  auto file = write_part(order);
  receipt_ = {};
  if (file) {
    receipt_.rows = file->rows, receipt_.bytes = file->bytes, receipt_.crc = file->crc;
    for (const auto& segment : segments_) segment->note_checkpoint(order.number);
  } else {
    receipt_.code = static_cast<uint32_t>(file.error().code);
    const std::string& what = file.error().what;
    std::copy_n(what.begin(), std::min(what.size(), receipt_.what.size() - 1),
                receipt_.what.begin());
  }
  const Message message{&receipt_, sizeof receipt_, 0, kReceiptTag, round};
  auto work = context_->world().exchange_async(std::span(&message, 1), {});
  if (!work) return fail(work.error());
  receipting_ = std::move(*work);
  return {};
}

}  // namespace sumcast::sparse
