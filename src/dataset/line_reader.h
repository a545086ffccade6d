// Lines of a byte source, with their numbers for messages.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "dataset/byte_source.h"

namespace sumcast::dataset {

/// One thread at a time.
class LineReader {
 public:
  /// `name`: the file, or the command, as messages call it.
  LineReader(std::string name, std::unique_ptr<ByteSource> source)
      : name_(std::move(name)), source_(std::move(source)) {}

  /// Puts the next line into `line`, without "\n" or "\r\n"; valid until the next call. A last line
  /// without an end counts as one. False at the end. Errors: the source's, and a line of more than
  /// 16 MiB (a file of another kind), which must not ask for the machine's memory.
  Result<bool> next(std::string_view& line);

  /// Number of the line returned last, from 1.
  uint64_t line_number() const { return line_number_; }
  const std::string& name() const { return name_; }

  /// "FILE:LINE: `what`", as kInvalidArgument.
  Error malformed(const std::string& what) const;

 private:
  std::string name_;
  std::unique_ptr<ByteSource> source_;
  std::vector<char> buffer_;
  size_t begin_ = 0;    // Of what has not been returned yet.
  size_t scanned_ = 0;  // No line end before here.
  size_t end_ = 0;
  bool ended_ = false;
  uint64_t line_number_ = 0;
};

}  // namespace sumcast::dataset
