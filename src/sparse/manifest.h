// What a checkpoint of a sparse job consists of: one small file that names all others.
//
//   DIR/manifest.json        the checkpoint, whole when it is there: written last, by worker 0
//   DIR/000012.server-0.rows keys and records (rows with their optimiser's state) of one server
//   DIR/000012.state         what the trainer wants back, opaque here
//
// A *part* is what the servers wrote for one checkpoint: all rows that ever moved (full), or those
// that moved since the checkpoint before (an increment). A checkpoint is a full part and the
// increments that follow it; of a key that stands in several the last one counts. Rows that never
// moved are not written: seed and key make them again (table/row_table.h). Rows carry their key, so
// another number of servers, segments or workers can take a checkpoint up.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "table/row_table.h"

namespace sumcast::sparse {

struct SavedFile {
  std::string name;  ///< In the directory; no path.
  uint64_t rows = 0, bytes = 0;
  uint32_t crc = 0;  ///< Of the whole file.
  bool operator==(const SavedFile&) const = default;
};

struct SavedPart {
  uint32_t number = 0;
  bool full = false;
  std::vector<SavedFile> files;  ///< By server of the job that wrote it.
  bool operator==(const SavedPart&) const = default;
};

struct Manifest {
  uint32_t number = 0;  ///< Of the last part, from 1.
  uint64_t steps = 0;   ///< Of the job, and those before it that it went on from.
  table::TableShape shape;
  std::vector<SavedPart> parts;  ///< The first is full, the others are not.
  SavedFile state;
};

/// Nothing if the directory has no checkpoint. kInvalidArgument: one that cannot be believed.
Result<std::optional<Manifest>> read_manifest(const std::string& directory);
/// From then on this is the directory's checkpoint.
Result<void> write_manifest(const std::string& directory, const Manifest& manifest);
/// Are rows of such a checkpoint rows of such a table? kMismatch names what differs. Rates and the
/// like may: they are the next run's.
Result<void> check_shape(const Manifest& manifest, const table::TableShape& shape);
/// Equal on members that read the same checkpoint.
uint64_t fingerprint(const Manifest& manifest);

/// "000012.server-0.rows" and "000012.state".
std::string rows_name(uint32_t number, uint32_t server);
std::string state_name(uint32_t number);
std::string path_in(const std::string& directory, std::string_view name);

Result<SavedFile> write_state(const std::string& directory, uint32_t number,
                              std::string_view state);
Result<std::string> read_state(const std::string& directory, const Manifest& manifest);
/// Removes the files of `before` that `now` does not name; what cannot be removed stays.
void remove_outdated(const std::string& directory, const Manifest& before, const Manifest& now);

}  // namespace sumcast::sparse
