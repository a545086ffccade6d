// Batches of keys as training would touch them: what benches and `sumcast hot` feed on.
//
//   ctr    `fields` categorical fields, one key of each in every row. Frequencies follow the
//          click-log shape that reference measurements show at any size: the top 0.1 / 1 / 10 % of
//          the keys take .31 / .55 / .73 of the updates (skew_law.h).
//   flat   the same fields, every key equally likely.
//   text   rows of real text, as words and word pairs: package descriptions, or a file.
//
// Keys are hashed ids, spread over all of u64. A stream holds no position: rows are drawn from the
// generator that the caller passes, so any number of threads may share one stream.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/prng.h"
#include "base/result.h"

namespace sumcast::dataset {

class KeyStream {
 public:
  virtual ~KeyStream() = default;

  /// Replaces `keys` by the keys of `rows` rows, one row after the other. A row's keys are
  /// distinct; a key that several rows have comes several times. Thread-safe.
  virtual void next_batch(size_t rows, Prng& prng, std::vector<uint64_t>& keys) const = 0;

  /// Distinct keys that exist, V.
  virtual uint64_t vocabulary() const = 0;
};

struct KeyStreamOptions {
  uint64_t vocabulary = 1'000'000;  ///< ctr, flat: keys of all fields together; >= 100 a field.
  uint32_t fields = 26;             ///< ctr, flat: keys of a row. Criteo's categorical fields.
  /// text: "debian-packages" (what `apt-cache dumpavail` knows), or a text file, plain or gzip'ed,
  /// a row per line.
  std::string text = "debian-packages";
};

/// `kind`: "ctr", "flat" or "text". Errors: kInvalidArgument for another kind or options out of
/// range, and what reading the text may say.
Result<std::unique_ptr<KeyStream>> make_key_stream(std::string_view kind,
                                                   const KeyStreamOptions& options = {});

}  // namespace sumcast::dataset
