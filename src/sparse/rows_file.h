// Rows of one server in one part of a checkpoint (manifest.h), as a file:
//
//   magic u64, number u32, server u32, width u32, record lanes u32, rows u64
//   rows times: key u64, record f32[record lanes]
//
// Little endian, no padding. The manifest has its length and its CRC; nothing of a file is believed
// before its sizes fit.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>

#include "base/result.h"
#include "sparse/durable_file.h"
#include "sparse/manifest.h"

namespace sumcast::sparse {

class RowsWriter {
 public:
  /// @param rows  as many as will be added.
  static Result<RowsWriter> create(const std::string& directory, uint32_t number, uint32_t server,
                                   const table::TableShape& shape, uint64_t rows);
  /// @param record  f32[shape.record_lanes()].
  Result<void> add(uint64_t key, const float* record);
  /// The file is there. Once, last.
  Result<SavedFile> commit();

 private:
  RowsWriter(DurableFile file, SavedFile saved, size_t lanes)
      : file_(std::move(file)), saved_(std::move(saved)), lanes_(lanes) {}

  DurableFile file_;
  SavedFile saved_;
  size_t lanes_;
  uint64_t added_ = 0;
};

/// Keys, and f32[keys][record lanes].
using TakeRows = std::function<Result<void>(std::span<const uint64_t>, const float*)>;
/// Gives all rows of a file to `take`, block by block; what was given counts only if this succeeds.
/// kInvalidArgument: it is not the file that the manifest names.
Result<void> read_rows(const std::string& directory, const SavedFile& saved,
                       const table::TableShape& shape, const TakeRows& take);

}  // namespace sumcast::sparse
