#include "pipeline/encoder.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <numeric>

#include "base/prng.h"

namespace sumcast::pipeline {
namespace {

std::vector<float> noise(size_t count, uint64_t seed, float scale = 1.0f) {
  Prng prng(seed);
  std::vector<float> values(count);
  for (float& value : values) value = (static_cast<float>(prng.unit()) - 0.5f) * scale;
  return values;
}

std::vector<float> sent_of(Encoder& encoder, const std::vector<float>& wanted, uint64_t step = 0,
                           uint32_t rank = 0) {
  std::vector<float> sent(wanted.size());
  encoder.encode(wanted, step, rank, sent);
  return sent;
}

TEST(Encoder, EncodingWhatWasDecodedChangesNothing) {
  // The library encodes what this encoder gives it once more.
  for (const WireFormat format : {WireFormat::kBF16, WireFormat::kFP16, WireFormat::kInt8}) {
    const auto encoder = make_wire_encoder(format);
    for (uint64_t seed = 1; seed < 50; ++seed) {
      for (const size_t count : {1u, 255u, 256u, 1000u}) {
        const auto once = sent_of(*encoder, noise(count, seed, std::ldexp(1.0f, int(seed) - 25)));
        EXPECT_EQ(sent_of(*encoder, once), once) << encoder->name() << " " << seed;
      }
    }
  }
  EXPECT_EQ(make_wire_encoder(WireFormat::kNative), nullptr);
}

TEST(Encoder, FeedbackOwesExactlyWhatWasNotSent) {
  const auto encoder = make_top_k_encoder(0.1);
  Feedback feedback(100);
  std::vector<double> given(100), sent(100);
  for (uint64_t step = 0; step < 200; ++step) {
    std::vector<float> values = noise(100, step + 1);
    for (size_t i = 0; i < 100; ++i) given[i] += values[i];
    feedback.encode(*encoder, step, 0, values);
    EXPECT_EQ(std::count_if(values.begin(), values.end(), [](float v) { return v != 0; }), 10);
    for (size_t i = 0; i < 100; ++i) sent[i] += values[i];
  }
  for (size_t i = 0; i < 100; ++i) {
    EXPECT_NEAR(given[i], sent[i] + feedback.residual()[i], 1e-4);
    EXPECT_LT(std::fabs(feedback.residual()[i]), 10.0f);  // Nothing is owed for ever.
  }
}

TEST(Encoder, TopKKeepsTheLargestAndExactlySoMany) {
  const auto encoder = make_top_k_encoder(0.25);
  EXPECT_EQ(sent_of(*encoder, {1, -8, 3, 2, 5, -1, 0, 4}),
            (std::vector<float>{0, -8, 0, 0, 5, 0, 0, 0}));
  EXPECT_EQ(sent_of(*encoder, {2, 2, 2, 2}), (std::vector<float>{2, 0, 0, 0}));
  EXPECT_EQ(encoder->bytes(8), 16);
  EXPECT_EQ(sent_of(*make_top_k_encoder(1e-9), {1, 2}), (std::vector<float>{0, 2}));
  const auto with_nan = sent_of(*make_top_k_encoder(0.5), {NAN, 1, 2, INFINITY});
  EXPECT_TRUE(std::isnan(with_nan[0]));
  EXPECT_TRUE(std::isinf(with_nan[3]));
}

TEST(Encoder, QsgdIsUnbiasedSeededAndOnItsGrid) {
  const auto encoder = make_qsgd_encoder(4);
  const std::vector<float> wanted = noise(512, 3);
  double squares = 0;
  for (const float v : wanted) squares += double(v) * v;
  const auto norm = static_cast<float>(std::sqrt(squares));
  std::vector<double> mean(512);
  constexpr int kTimes = 4000;
  for (int i = 0; i < kTimes; ++i) {
    const auto sent = sent_of(*encoder, wanted, static_cast<uint64_t>(i), 1);
    for (size_t j = 0; j < 512; ++j) mean[j] += sent[j] / kTimes;
  }
  // A level is norm / 4; the mean of 4000 coin flips between levels deviates by under a hundredth.
  for (size_t j = 0; j < 512; ++j) EXPECT_NEAR(mean[j], wanted[j], 0.04 * norm / 4);
  const auto once = sent_of(*encoder, wanted, 5, 1);
  EXPECT_EQ(once, sent_of(*encoder, wanted, 5, 1));
  EXPECT_NE(once, sent_of(*encoder, wanted, 5, 2));
  EXPECT_NE(once, sent_of(*encoder, wanted, 6, 1));
  for (const float v : once) {
    EXPECT_NEAR(std::fabs(v) / norm * 4, std::round(std::fabs(v) / norm * 4), 1e-5);
  }
  EXPECT_EQ(encoder->bytes(1024), 1024 + 8);
}

TEST(Encoder, MessagesStandForTheBitsThatWereSent) {
  std::vector<float> wanted = noise(1300, 7);
  wanted[3] = -0.0f;
  const auto top_k = make_top_k_encoder(0.01);
  const auto qsgd = make_qsgd_encoder(127);
  for (Encoder* const encoder : {top_k.get(), qsgd.get()}) {
    const std::vector<float> sent = sent_of(*encoder, wanted, 3, 1);
    EXPECT_EQ(double(encoder->message().size()), encoder->bytes(wanted.size()));
    std::vector<float> sum(wanted.size(), 0.0f);
    ASSERT_TRUE(encoder->add_message(encoder->message(), sum));
    EXPECT_EQ(sum, sent) << encoder->name();
    ASSERT_TRUE(encoder->add_message(encoder->message(), sum));
    for (size_t i = 0; i < sum.size(); ++i) EXPECT_EQ(sum[i], 2 * sent[i]);
    // Of another length, or for another number of values: refused.
    EXPECT_FALSE(encoder->add_message(encoder->message().first(4), sum));
    EXPECT_FALSE(encoder->add_message(encoder->message(), std::span(sum).first(10)));
  }
  std::vector<std::byte> wild(top_k->message().begin(), top_k->message().end());
  wild[3] = std::byte{0xFF};
  std::vector<float> sum(wanted.size());
  EXPECT_FALSE(top_k->add_message(wild, sum));
  EXPECT_TRUE(make_wire_encoder(WireFormat::kInt8)->message().empty());
  wanted[600] = NAN;  // In QSGD's second bucket: the message says so too.
  sent_of(*qsgd, wanted, 3, 1);
  std::fill(sum.begin(), sum.end(), 0.0f);
  ASSERT_TRUE(qsgd->add_message(qsgd->message(), sum));
  EXPECT_TRUE(std::isnan(sum[600]));
  EXPECT_FALSE(std::isnan(sum[0]));
}

TEST(Encoder, WhatIsNotFiniteTravelsAndIsNeverOwed) {
  for (const WireFormat format : {WireFormat::kBF16, WireFormat::kInt8}) {
    const auto encoder = make_wire_encoder(format);
    Feedback feedback(3);
    std::vector<float> values = {NAN, INFINITY, 1.0f};
    feedback.encode(*encoder, 0, 0, values);
    EXPECT_TRUE(std::isnan(values[0]));
    EXPECT_TRUE(std::isinf(values[1]));
    for (const float owed : feedback.residual()) EXPECT_TRUE(std::isfinite(owed));
  }
}

}  // namespace
}  // namespace sumcast::pipeline
