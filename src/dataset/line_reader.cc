#include "dataset/line_reader.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

namespace sumcast::dataset {
namespace {

constexpr size_t kReadBytes = size_t{1} << 16;
constexpr size_t kLineBytesMax = size_t{16} << 20;

}  // namespace

Error LineReader::malformed(const std::string& what) const {
  return Error{ErrorCode::kInvalidArgument, fmt::format("{}:{}: {}", name_, line_number_, what)};
}

Result<bool> LineReader::next(std::string_view& line) {
  for (;;) {
    char* const from = buffer_.data() + scanned_;
    const auto* const found =
        end_ > scanned_ ? static_cast<char*>(std::memchr(from, '\n', end_ - scanned_)) : nullptr;
    if (found != nullptr || (ended_ && end_ > begin_)) {
      const size_t stop = found != nullptr ? static_cast<size_t>(found - buffer_.data()) : end_;
      line = std::string_view(buffer_.data() + begin_, stop - begin_);
      if (line.ends_with('\r')) line.remove_suffix(1);
      begin_ = scanned_ = std::min(stop + 1, end_);
      ++line_number_;
      return true;
    }
    if (ended_) return false;
    scanned_ = end_;
    if (end_ - begin_ > kLineBytesMax) {
      ++line_number_;
      return fail(malformed(fmt::format("a line of more than {} MiB", kLineBytesMax >> 20)));
    }
    if (begin_ > 0) {  // What is left goes to the front, so that the buffer stays small.
      std::memmove(buffer_.data(), buffer_.data() + begin_, end_ - begin_);
      scanned_ -= begin_;
      end_ -= begin_;
      begin_ = 0;
    }
    if (buffer_.size() - end_ < kReadBytes) buffer_.resize(2 * end_ + kReadBytes);
    const auto got = source_->read(std::span(buffer_).subspan(end_));
    if (!got) return fail(got.error());
    ended_ = *got == 0;
    end_ += *got;
  }
}

}  // namespace sumcast::dataset
