// Fashion-MNIST as Debian ships it: four gzip'ed IDX files (the format of MNIST).
//
// An IDX file is a big-endian header - two zero bytes, the type 0x08 (u8), the number of
// dimensions, then one u32 per dimension - and the elements, row-major. The reader takes nothing
// on trust: a wrong magic, a shape that does not fit the other file, a short or an overlong file
// and a label out of range are errors that name the file. It knows nothing of models; pixels stay
// u8, because four workers on one host would otherwise hold 188 MB of floats each.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "base/result.h"

namespace sumcast::trainer {

/// Where the Debian package dataset-fashion-mnist puts its files.
inline constexpr const char* kFashionMnistDirectory = "/usr/share/datasets/fashion-mnist";

inline constexpr int kClasses = 10;

/// Grey images with one label each.
struct ImageSet {
  size_t count = 0;
  int rows = 0;
  int columns = 0;
  std::vector<uint8_t> pixels;  ///< u8[count, rows, columns], 0 is background.
  std::vector<uint8_t> labels;  ///< u8[count], each below kClasses.

  size_t pixels_per_image() const { return static_cast<size_t>(rows) * columns; }
};

struct FashionMnist {
  ImageSet training;  ///< 60,000 images of 28x28 in the published set.
  ImageSet test;      ///< 10,000.
};

/// The elements of one IDX file with their shape.
struct IdxArray {
  std::vector<uint32_t> shape;
  std::vector<uint8_t> elements;
};

/// Reads one gzip'ed (or plain) IDX file of u8 elements with `dimensions` dimensions.
/// Errors: kUnavailable if the file is missing, kInvalidArgument if it is not what it should be.
Result<IdxArray> read_idx(const std::string& path, size_t dimensions);

/// Reads a file of images and the file of their labels.
Result<ImageSet> read_image_set(const std::string& images_path, const std::string& labels_path);

/// Reads all four files of `directory`. The error for a missing set names the Debian package.
Result<FashionMnist> load_fashion_mnist(const std::string& directory = kFashionMnistDirectory);

}  // namespace sumcast::trainer
