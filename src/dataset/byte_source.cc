#include "dataset/byte_source.h"

#include <fmt/format.h>
#include <zlib.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

namespace sumcast::dataset {
namespace {

struct CloseGzip {
  void operator()(gzFile_s* file) const { gzclose(file); }
};

class GzipFile final : public ByteSource {
 public:
  GzipFile(std::string path, gzFile_s* file) : path_(std::move(path)), file_(file) {
    gzbuffer(file, 1u << 17);
  }

  Result<size_t> read(std::span<char> out) override {
    const auto step = static_cast<unsigned>(std::min<size_t>(out.size(), 1u << 20));
    errno = 0;
    const int got = gzread(file_.get(), out.data(), step);
    int code = Z_OK;
    const char* const trouble = gzerror(file_.get(), &code);
    // A compressed file that was cut short reads to its last byte and then says Z_BUF_ERROR.
    if (got < 0 || (got == 0 && code != Z_OK && code != Z_STREAM_END)) {
      const char* const what = code == Z_ERRNO ? std::strerror(errno) : trouble;
      return fail(ErrorCode::kInvalidArgument, fmt::format("{}: {}", path_, what));
    }
    return static_cast<size_t>(got);
  }

 private:
  std::string path_;
  std::unique_ptr<gzFile_s, CloseGzip> file_;
};

}  // namespace

Result<std::unique_ptr<ByteSource>> open_file(const std::string& path) {
  errno = 0;
  gzFile_s* const file = gzopen(path.c_str(), "rb");
  if (file == nullptr) {
    const int error = errno != 0 ? errno : ENOMEM;
    return fail(ErrorCode::kInvalidArgument, fmt::format("{}: {}", path, std::strerror(error)));
  }
  return std::make_unique<GzipFile>(path, file);
}

}  // namespace sumcast::dataset
