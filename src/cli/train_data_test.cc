// What may be trained on: labels that fit the model, whatever they are called.
#include "cli/train_data.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdio>
#include <fstream>
#include <set>

namespace sumcast::cli {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

class TrainDataTest : public ::testing::Test {
 protected:
  ~TrainDataTest() override { std::remove(path_.c_str()); }

  /// A sample for each label, over and over.
  Result<TrainData> load(const std::string& model, const std::vector<std::string>& labels) {
    std::ofstream file(path_);
    for (size_t i = 0; i < 60; ++i) file << labels[i % labels.size()] << " 1:1 " << i + 2 << ":1\n";
    file.close();
    TrainOptions options;
    options.data = path_;
    options.model = model;
    return load_train_data(options);
  }
  static std::set<float> labels_of(const TrainData& data) {
    std::set<float> labels;
    for (const auto& sample : data.train) labels.insert(sample.label);
    for (const auto& sample : data.test) labels.insert(sample.label);
    return labels;
  }
  const std::string path_ =
      testing::TempDir() + "sumcast_train_data_" + std::to_string(::getpid()) + ".svm";
};

TEST_F(TrainDataTest, OfTwoNumbersTheLargerIsThePositiveClass) {
  for (const auto& [negative, positive] : {std::pair{"0", "1"}, {"-1", "1"}, {"1", "2"}}) {
    const auto data = load("lr", {positive, negative});  // On lines 1 and 2, and so on.
    ASSERT_TRUE(data.has_value()) << data.error().what;
    EXPECT_THAT(labels_of(*data), ElementsAre(0, 1));
    for (const auto& sample : data->train) EXPECT_EQ(sample.label, sample.group % 2);
  }
}

TEST_F(TrainDataTest, MoreClassesThanAModelTellsApartAreRefused) {
  for (const char* model : {"lr", "fm", "deepfm"}) {
    const auto refused = load(model, {"1", "2", "3"});
    ASSERT_FALSE(refused.has_value());
    EXPECT_THAT(refused.error().what, HasSubstr("has three labels or more (1, 2, 3)"));
  }
  const auto classes = load("softmax", {"1", "2", "3"});
  ASSERT_TRUE(classes.has_value());
  EXPECT_EQ(classes->classes, 4u);
}

TEST_F(TrainDataTest, TextHasNothingToPredict) {
  std::ofstream(path_) << "the cat sat\non the mat\n";
  TrainOptions options;
  options.data = path_;
  for (const char* model : {"lr", "softmax"}) {
    options.model = model;
    const auto refused = load_train_data(options);
    ASSERT_FALSE(refused.has_value());
    EXPECT_EQ(refused.error().code, ErrorCode::kInvalidArgument);
    EXPECT_THAT(refused.error().what, HasSubstr("is text, which says nothing to predict"));
  }
}

}  // namespace
}  // namespace sumcast::cli
