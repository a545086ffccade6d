#include "trainer/idx.h"

#include <gtest/gtest.h>
#include <unistd.h>
#include <zlib.h>

#include <filesystem>
#include <fstream>
#include <iterator>

namespace sumcast::trainer {
namespace {

using Bytes = std::vector<uint8_t>;

class Idx : public testing::Test {
 protected:
  void SetUp() override {
    std::string name = (std::filesystem::temp_directory_path() / "sumcast-idx-XXXXXX").string();
    ASSERT_NE(mkdtemp(name.data()), nullptr);
    directory_ = name;
  }
  void TearDown() override { std::filesystem::remove_all(directory_); }

  std::string path(const std::string& name) const { return directory_ + "/" + name; }

  std::string write(const std::string& name, const Bytes& bytes) const {
    gzFile file = gzopen(path(name).c_str(), "wb");
    EXPECT_EQ(gzwrite(file, bytes.data(), static_cast<unsigned>(bytes.size())),
              static_cast<int>(bytes.size()));
    gzclose(file);
    return path(name);
  }

  /// Two images of 2 rows and 3 columns, pixels 0 to 11.
  std::string write_images() const {
    Bytes bytes = {0, 0, 8, 3, 0, 0, 0, 2, 0, 0, 0, 2, 0, 0, 0, 3};
    for (uint8_t i = 0; i < 12; ++i) bytes.push_back(i);
    return write("images.gz", bytes);
  }

  std::string directory_;
};

std::string error_of(const auto& result) { return result ? "no error" : result.error().what; }

TEST_F(Idx, ReadsImagesWithTheirLabels) {
  const auto set =
      read_image_set(write_images(), write("labels.gz", {0, 0, 8, 1, 0, 0, 0, 2, 9, 4}));
  ASSERT_TRUE(set.has_value()) << error_of(set);
  EXPECT_EQ(set->count, 2u);
  EXPECT_EQ(set->rows, 2);
  EXPECT_EQ(set->columns, 3);
  EXPECT_EQ(set->pixels_per_image(), 6u);
  EXPECT_EQ(set->pixels[11], 11);
  EXPECT_EQ(set->labels, (Bytes{9, 4}));
}

TEST_F(Idx, RefusesAnotherMagicNumberAndSaysWhichItFound) {
  const auto file = read_idx(write("x.gz", {0, 0, 9, 1, 0, 0, 0, 1, 5}), 1);
  EXPECT_NE(error_of(file).find("starts with 00000901, not 00000801"), std::string::npos)
      << error_of(file);
  // Labels where images are expected: the number of dimensions is part of the magic.
  EXPECT_FALSE(read_idx(write("y.gz", {0, 0, 8, 1, 0, 0, 0, 1, 5}), 3).has_value());
}

TEST_F(Idx, RefusesFilesThatAreShorterOrLongerThanTheirShape) {
  EXPECT_NE(
      error_of(read_idx(write("short.gz", {0, 0, 8, 1, 0, 0, 0, 3, 5}), 1)).find("ends after"),
      std::string::npos);
  EXPECT_NE(
      error_of(read_idx(write("long.gz", {0, 0, 8, 1, 0, 0, 0, 1, 5, 6}), 1)).find("more bytes"),
      std::string::npos);
  EXPECT_FALSE(read_idx(write("header.gz", {0, 0, 8, 1, 0, 0}), 1).has_value());
  EXPECT_FALSE(read_idx(write("empty.gz", {}), 1).has_value());
}

TEST_F(Idx, RefusesShapesThatWouldTakeAllMemory) {
  EXPECT_FALSE(read_idx(write("big.gz", {0, 0, 8, 2, 255, 255, 255, 255, 255, 255, 255, 255}), 2)
                   .has_value());
  EXPECT_FALSE(read_idx(write("none.gz", {0, 0, 8, 1, 0, 0, 0, 0}), 1).has_value());
}

TEST_F(Idx, NoticesADamagedStream) {
  const std::string good = write_images();
  std::ifstream in(good, std::ios::binary);
  std::string bytes((std::istreambuf_iterator<char>(in)), {});
  bytes[bytes.size() - 6] = static_cast<char>(bytes[bytes.size() - 6] ^ 1);  // In the checksum.
  std::ofstream(path("damaged.gz"), std::ios::binary) << bytes;
  EXPECT_NE(error_of(read_idx(path("damaged.gz"), 3)).find("damaged.gz"), std::string::npos);
}

TEST_F(Idx, RefusesLabelsThatDoNotFit) {
  const std::string images = write_images();
  EXPECT_NE(error_of(read_image_set(images, write("few.gz", {0, 0, 8, 1, 0, 0, 0, 1, 5})))
                .find("1 labels for the 2 images"),
            std::string::npos);
  EXPECT_NE(error_of(read_image_set(images, write("ten.gz", {0, 0, 8, 1, 0, 0, 0, 2, 5, 10})))
                .find("the label 10"),
            std::string::npos);
}

TEST_F(Idx, NamesThePackageWhenThereIsNoDataSet) {
  const auto data = load_fashion_mnist(directory_ + "/nowhere");
  ASSERT_FALSE(data.has_value());
  EXPECT_EQ(data.error().code, ErrorCode::kInvalidArgument);
  EXPECT_NE(error_of(data).find("apt-get install dataset-fashion-mnist"), std::string::npos);
  EXPECT_EQ(error_of(data).find('\n'), std::string::npos);
}

TEST(FashionMnistPackage, HasTheShapesThatWerePublished) {
  if (!std::filesystem::exists(kFashionMnistDirectory)) GTEST_SKIP() << "package not installed";
  const auto data = load_fashion_mnist();
  ASSERT_TRUE(data.has_value()) << error_of(data);
  EXPECT_EQ(data->training.count, 60'000u);
  EXPECT_EQ(data->test.count, 10'000u);
  EXPECT_EQ(data->training.pixels_per_image(), 784u);
  EXPECT_EQ(data->test.labels[0], 9);  // An ankle boot.
}

}  // namespace
}  // namespace sumcast::trainer
