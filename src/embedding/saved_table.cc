// A checkpoint read back without a job: all its parts in order, of a key the last one counts (P18).
#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "sparse/manifest.h"
#include "sparse/rows_file.h"
#include "sumcast/table.hpp"

namespace sumcast {
namespace {

Result<void> read_part(const std::string& directory, const sparse::SavedPart& part,
                       const table::TableShape& shape, table::RowTable& rows) {
  const size_t lanes = shape.record_lanes();
  const auto take = [&](std::span<const uint64_t> keys, const float* records) -> Result<void> {
    for (const uint64_t key : keys) {
      const uint32_t row = rows.find_or_make(key);
      if (row == table::RowTable::kNone) {
        return fail(ErrorCode::kUnsupported,
                    fmt::format("{}: more rows than one table can hold", directory));
      }
      std::memcpy(rows.record(row), records, lanes * sizeof(float));
      records += lanes;
    }
    return {};
  };
  for (const sparse::SavedFile& file : part.files) {
    if (auto read = sparse::read_rows(directory, file, shape, take); !read) return read;
  }
  return {};
}

}  // namespace

Result<SavedTable> read_table(const std::string& checkpoint_directory) {
  auto manifest = sparse::read_manifest(checkpoint_directory);
  if (!manifest) return fail(manifest.error());
  if (!*manifest) {
    return fail(ErrorCode::kInvalidArgument,
                fmt::format("{} holds no checkpoint of a table", checkpoint_directory));
  }
  table::TableShape shape = (*manifest)->shape;
  shape.rows_max = UINT32_MAX - 1;
  table::RowTable rows(shape);
  for (const sparse::SavedPart& part : (*manifest)->parts) {
    auto read = read_part(checkpoint_directory, part, shape, rows);
    if (!read) return fail(read.error());
  }
  auto state = sparse::read_state(checkpoint_directory, **manifest);
  if (!state) return fail(state.error());
  SavedTable saved;
  const size_t state_lanes = shape.optimizer.state_lanes(shape.width);
  const size_t lanes = shape.width + state_lanes;  // Without a history.
  saved.width = shape.width;
  saved.state_lanes = static_cast<uint32_t>(state_lanes);
  saved.optimizer = table::name_of(shape.optimizer.kind);
  saved.number = (*manifest)->number;
  saved.state = std::move(*state);
  const auto is_row = [&](uint32_t row) {
    if (!shape.life.is_on()) return true;
    const table::History history = shape.history(rows.record(row));
    const auto steps =
        static_cast<uint32_t>(std::min<uint64_t>((*manifest)->steps, UINT32_MAX - 1));
    return shape.life.has_row(history) && !shape.life.is_gone(history, steps);
  };
  std::vector<uint32_t> order;
  for (uint32_t row = 0; row < rows.size(); ++row) {
    if (is_row(row)) order.push_back(row);
  }
  std::ranges::sort(order, {}, [&](uint32_t row) { return rows.key(row); });
  saved.keys.reserve(order.size());
  saved.records.resize(order.size() * lanes);
  for (const uint32_t row : order) {
    std::memcpy(saved.records.data() + saved.keys.size() * lanes, rows.record(row),
                lanes * sizeof(float));
    saved.keys.push_back(rows.key(row));
  }
  return saved;
}

}  // namespace sumcast
