#include "trainer/idx.h"

#include <fmt/format.h>
#include <zlib.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <memory>
#include <span>

namespace sumcast::trainer {
namespace {

constexpr uint8_t kTypeU8 = 0x08;
/// Far above any set of this kind (MNIST's largest file is 47 MB): a damaged header must not make
/// us ask for the machine's memory.
constexpr uint64_t kElementsMax = uint64_t{1} << 30;

struct CloseGzip {
  void operator()(gzFile_s* file) const { gzclose(file); }
};
using GzipFile = std::unique_ptr<gzFile_s, CloseGzip>;

Error damaged(const std::string& path, const std::string& why) {
  return Error{ErrorCode::kInvalidArgument,
               fmt::format("{} is not a sound IDX file: {}", path, why)};
}

/// Fills `out` or says why not. gzread takes 32-bit sizes and may return less than asked for.
Result<void> read_exactly(gzFile_s* file, std::span<uint8_t> out, const std::string& path) {
  size_t done = 0;
  while (done < out.size()) {
    const auto step = static_cast<unsigned>(std::min<size_t>(out.size() - done, 1u << 20));
    const int got = gzread(file, out.data() + done, step);
    if (got < 0) {
      int code = 0;
      return fail(damaged(path, gzerror(file, &code)));
    }
    if (got == 0) {
      return fail(
          damaged(path, fmt::format("it ends after {} of {} bytes of a field", done, out.size())));
    }
    done += static_cast<size_t>(got);
  }
  return {};
}

uint32_t big_endian(const uint8_t* bytes) {
  return uint32_t{bytes[0]} << 24 | uint32_t{bytes[1]} << 16 | uint32_t{bytes[2]} << 8 |
         uint32_t{bytes[3]};
}

/// Reads and checks the header; returns the shape.
Result<std::vector<uint32_t>> read_shape(gzFile_s* file, size_t dimensions,
                                         const std::string& path) {
  std::array<uint8_t, 4> magic{};
  if (auto read = read_exactly(file, magic, path); !read) return fail(read.error());
  if (magic[0] != 0 || magic[1] != 0 || magic[2] != kTypeU8 || magic[3] != dimensions) {
    return fail(
        damaged(path, fmt::format("it starts with {:08x}, not {:08x}", big_endian(magic.data()),
                                  uint32_t{kTypeU8} << 8 | dimensions)));
  }
  std::vector<uint8_t> bytes(4 * dimensions);
  if (auto read = read_exactly(file, bytes, path); !read) return fail(read.error());
  std::vector<uint32_t> shape;
  uint64_t elements = 1;
  for (size_t i = 0; i < dimensions; ++i) {
    shape.push_back(big_endian(&bytes[4 * i]));
    elements *= shape.back();
    if (elements == 0 || elements > kElementsMax) {
      return fail(damaged(
          path, fmt::format("its shape [{}, ...] is out of range", fmt::join(shape, ", "))));
    }
  }
  return shape;
}

}  // namespace

Result<IdxArray> read_idx(const std::string& path, size_t dimensions) {
  errno = 0;
  const GzipFile file(gzopen(path.c_str(), "rb"));
  if (!file) {
    const int error = errno != 0 ? errno : ENOMEM;
    return fail(ErrorCode::kUnavailable, fmt::format("{}: {}", path, std::strerror(error)));
  }
  gzbuffer(file.get(), 1u << 17);
  auto shape = read_shape(file.get(), dimensions, path);
  if (!shape) return fail(shape.error());
  size_t elements = 1;
  for (const uint32_t extent : *shape) elements *= extent;
  IdxArray array{std::move(*shape), std::vector<uint8_t>(elements)};
  if (auto read = read_exactly(file.get(), array.elements, path); !read) return fail(read.error());
  // Reading on also makes zlib compare the checksum at the end of the stream.
  uint8_t beyond = 0;
  const int more = gzread(file.get(), &beyond, 1);
  if (more > 0) return fail(damaged(path, "more bytes follow than its shape says"));
  if (more < 0) {
    int code = 0;
    return fail(damaged(path, gzerror(file.get(), &code)));
  }
  return array;
}

Result<ImageSet> read_image_set(const std::string& images_path, const std::string& labels_path) {
  auto images = read_idx(images_path, 3);
  if (!images) return fail(images.error());
  auto labels = read_idx(labels_path, 1);
  if (!labels) return fail(labels.error());
  if (images->shape[0] != labels->shape[0]) {
    return fail(ErrorCode::kInvalidArgument,
                fmt::format("{} holds {} labels for the {} images of {}", labels_path,
                            labels->shape[0], images->shape[0], images_path));
  }
  const auto wrong = std::find_if(labels->elements.begin(), labels->elements.end(),
                                  [](uint8_t label) { return label >= kClasses; });
  if (wrong != labels->elements.end()) {
    return fail(damaged(labels_path, fmt::format("it holds the label {}, not one of 0 to {}",
                                                 int{*wrong}, kClasses - 1)));
  }
  ImageSet set;
  set.count = images->shape[0];
  set.rows = static_cast<int>(images->shape[1]);
  set.columns = static_cast<int>(images->shape[2]);
  set.pixels = std::move(images->elements);
  set.labels = std::move(labels->elements);
  return set;
}

Result<FashionMnist> load_fashion_mnist(const std::string& directory) {
  const auto path = [&](const char* name) { return directory + "/" + name; };
  const auto explain = [&](const Error& error) {
    if (error.code != ErrorCode::kUnavailable) return error;
    return Error{ErrorCode::kInvalidArgument,
                 fmt::format("no Fashion-MNIST ({}); 'apt-get install dataset-fashion-mnist' puts "
                             "it into {}",
                             error.what, kFashionMnistDirectory)};
  };
  FashionMnist data;
  auto training =
      read_image_set(path("train-images-idx3-ubyte.gz"), path("train-labels-idx1-ubyte.gz"));
  if (!training) return fail(explain(training.error()));
  auto test = read_image_set(path("t10k-images-idx3-ubyte.gz"), path("t10k-labels-idx1-ubyte.gz"));
  if (!test) return fail(explain(test.error()));
  if (training->rows != test->rows || training->columns != test->columns) {
    return fail(ErrorCode::kInvalidArgument,
                fmt::format("{}: training images are {}x{}, test images {}x{}", directory,
                            training->rows, training->columns, test->rows, test->columns));
  }
  data.training = std::move(*training);
  data.test = std::move(*test);
  return data;
}

}  // namespace sumcast::trainer
