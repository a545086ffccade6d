#include "sparse/rows_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <vector>

#include "base/assert.h"

namespace sumcast::sparse {
namespace {

static_assert(std::endian::native == std::endian::little, "files are little endian");

constexpr uint64_t kMagic = 0x31'73'77'6f'72'63'73'73;  // "sscrows1"
constexpr uint64_t kBlockRows = 4096;

struct Header {
  uint64_t magic = kMagic;
  uint32_t number = 0, server = 0;
  uint32_t width = 0, record_lanes = 0;
  uint64_t rows = 0;
};
static_assert(sizeof(Header) == 32);

uint64_t row_bytes(size_t lanes) { return sizeof(uint64_t) + lanes * sizeof(float); }

template <typename T>
std::span<const std::byte> bytes_of(const T& value) {
  return std::as_bytes(std::span(&value, 1));
}

}  // namespace

Result<RowsWriter> RowsWriter::create(const std::string& directory, uint32_t number,
                                      uint32_t server, const table::TableShape& shape,
                                      uint64_t rows) {
  SavedFile saved;
  saved.name = rows_name(number, server);
  saved.rows = rows;
  auto file = DurableFile::create(path_in(directory, saved.name));
  if (!file) return fail(file.error());
  const size_t lanes = shape.record_lanes();
  Header header;
  header.number = number, header.server = server;
  header.width = shape.width, header.record_lanes = static_cast<uint32_t>(lanes);
  header.rows = rows;
  if (auto written = file->write(bytes_of(header)); !written) return fail(written.error());
  return RowsWriter(std::move(*file), std::move(saved), lanes);
}

Result<void> RowsWriter::add(uint64_t key, const float* record) {
  ++added_;
  if (auto written = file_.write(bytes_of(key)); !written) return written;
  return file_.write(std::as_bytes(std::span(record, lanes_)));
}

Result<SavedFile> RowsWriter::commit() {
  SUMCAST_ASSERT(added_ == saved_.rows);
  if (auto done = file_.commit(); !done) return fail(done.error());
  saved_.bytes = file_.bytes();
  saved_.crc = file_.crc();
  return saved_;
}

Result<void> read_rows(const std::string& directory, const SavedFile& saved,
                       const table::TableShape& shape, const TakeRows& take) {
  const std::string path = path_in(directory, saved.name);
  const auto refuse = [&](std::string_view why) {
    return fail(ErrorCode::kInvalidArgument, fmt::format("{}: {}", path, why));
  };
  auto file = WholeFile::open(path);
  if (!file) return fail(file.error());
  Header header;
  if (auto read = file->read(std::as_writable_bytes(std::span(&header, 1))); !read) return read;
  const size_t lanes = shape.record_lanes();
  if (header.magic != kMagic || header.width != shape.width || header.record_lanes != lanes) {
    return refuse("it does not hold such rows");
  }
  const uint64_t expected = sizeof(Header) + header.rows * row_bytes(lanes);
  if (header.rows != saved.rows || file->bytes() != saved.bytes || saved.bytes != expected) {
    return refuse("it is not as long as the manifest says");
  }
  std::vector<std::byte> block;
  std::vector<uint64_t> keys;
  std::vector<float> records;
  for (uint64_t left = header.rows; left != 0; left -= keys.size()) {
    keys.resize(std::min(left, kBlockRows));
    records.resize(keys.size() * lanes);
    block.resize(keys.size() * row_bytes(lanes));
    if (auto read = file->read(block); !read) return read;
    for (size_t i = 0; i < keys.size(); ++i) {
      const std::byte* const at = block.data() + i * row_bytes(lanes);
      std::memcpy(&keys[i], at, sizeof(uint64_t));
      std::memcpy(records.data() + i * lanes, at + sizeof(uint64_t), lanes * sizeof(float));
    }
    if (auto taken = take(keys, records.data()); !taken) return taken;
  }
  if (file->crc() != saved.crc) return refuse("it is damaged, or of another checkpoint");
  return {};
}

}  // namespace sumcast::sparse
