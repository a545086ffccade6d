#include "cli/train_checkpoint.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>

namespace sumcast::cli {
namespace {

using ::testing::HasSubstr;

TrainOptions options_of(uint32_t workers, uint32_t batch) {
  TrainOptions options;
  options.model = "deepfm";
  options.workers = workers;
  options.batch = batch;
  return options;
}

TEST(TrainCheckpoint, APositionComesBackWithItsDenseParameters) {
  const std::vector<float> dense = {1.5f, -0.0f, 3e-42f};
  const TrainPosition here{.epoch = 3, .step = 17, .loss = {.sum = 0.1, .examples = 68}};
  const std::string state = encode_position(here, options_of(4, 16), dense);
  std::vector<float> back(3);
  const auto position = decode_position(state, options_of(4, 16), back);
  ASSERT_TRUE(position.has_value()) << position.error().what;
  EXPECT_EQ(position->epoch, 3u);
  EXPECT_EQ(position->step, 17u);
  EXPECT_EQ(position->loss.sum, 0.1);
  EXPECT_EQ(position->loss.examples, 68u);
  EXPECT_EQ(std::memcmp(back.data(), dense.data(), 12), 0);
  // Of the same samples fewer, larger steps; what does not make a whole step comes again.
  EXPECT_EQ(decode_position(state, options_of(2, 64), back)->step, 8u);
}

TEST(TrainCheckpoint, AnotherModelsStateIsRefusedAndNothingIsWritten) {
  const std::vector<float> dense = {1, 2};
  const std::string state = encode_position({}, options_of(1, 1), dense);
  std::vector<float> three(3, 7.0f), two(2, 7.0f);
  auto other = decode_position(state, options_of(1, 1), three);
  EXPECT_THAT(other.error().what, HasSubstr("2 dense parameters with their state, this model 3"));
  TrainOptions lr = options_of(1, 1);
  lr.model = "lr";
  other = decode_position(state, lr, two);
  EXPECT_THAT(other.error().what, HasSubstr("of --model deepfm, this training of lr"));
  for (const std::string& text : {std::string(), std::string("x\n"), std::string("{}\n"),
                                  state.substr(0, state.size() - 1)}) {
    EXPECT_FALSE(decode_position(text, options_of(1, 1), two).has_value()) << text;
  }
  EXPECT_THAT(two, testing::Each(7.0f));
}

}  // namespace
}  // namespace sumcast::cli
