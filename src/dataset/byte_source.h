// Where bytes of a data set come from: a file, plain or gzip'ed, or the output of a program.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "base/time.h"

namespace sumcast::dataset {

/// One thread at a time.
class ByteSource {
 public:
  virtual ~ByteSource() = default;

  /// Fills the front of `out` (not empty) and returns how much; 0 at the end, once everything was
  /// sound: the checksum of a gzip'ed file, the exit code of a program.
  virtual Result<size_t> read(std::span<char> out) = 0;
};

/// kUnavailable if the file cannot be opened.
Result<std::unique_ptr<ByteSource>> open_file(const std::string& path);

/// Starts `command` (looked up in PATH; without standard input) and reads what it prints. A program
/// that prints nothing for `patience` is ended and the read fails with kTimeout. It is ended, too,
/// if the source goes before the end was read. kUnavailable if it cannot be started.
Result<std::unique_ptr<ByteSource>> open_command(const std::vector<std::string>& command,
                                                 Duration patience = 30s);

}  // namespace sumcast::dataset
