// Encoders whose messages are gathered instead of summed: top-k and QSGD.
//
// A message has a length that the number of values alone gives, so that ranks need not exchange it.
//
//   top-k   kept(count) times: u32 index, f32 value; ascending
//   QSGD    per bucket of 512 values: f32 norm, then an i8 level for each of its values
//
// Both in the machine's byte order: all ranks of a job are of one kind (docs/numerics.md).
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>

#include "base/assert.h"
#include "base/prng.h"
#include "pipeline/encoder.h"

namespace sumcast::pipeline {
namespace {

template <typename Value>
void put(std::byte*& at, Value value) {
  std::memcpy(at, &value, sizeof(value));
  at += sizeof(value);
}

template <typename Value>
Value take(const std::byte*& at) {
  Value value;
  std::memcpy(&value, at, sizeof(value));
  at += sizeof(value);
  return value;
}

Error wrong_length(const std::string& name, size_t got, size_t expected) {
  return {ErrorCode::kInvalidArgument,
          fmt::format("a message of {} has {} bytes, not {}", name, got, expected)};
}

class TopKEncoder final : public Encoder {
 public:
  explicit TopKEncoder(double share) : share_(share) {}
  std::string name() const override { return fmt::format("top-{:.3g}%", share_ * 100); }
  bool wants_feedback() const override { return true; }
  double bytes(size_t count) const override { return 8.0 * static_cast<double>(kept(count)); }
  std::span<const std::byte> message() const override { return message_; }

  void encode(std::span<const float> wanted, uint64_t, uint32_t, std::span<float> sent) override {
    SUMCAST_ASSERT(wanted.size() == sent.size());
    SUMCAST_ASSERT(wanted.size() <= UINT32_MAX);
    message_.clear();
    if (wanted.empty()) return;
    const size_t keep = kept(wanted.size());
    magnitudes_.resize(wanted.size());
    // NaN counts as largest: it must travel, not hide.
    for (size_t i = 0; i < wanted.size(); ++i) magnitudes_[i] = magnitude_of(wanted[i]);
    const auto place = magnitudes_.begin() + static_cast<ptrdiff_t>(keep - 1);
    std::nth_element(magnitudes_.begin(), place, magnitudes_.end(), std::greater<>());
    const float threshold = *place;
    // Of elements equal to the threshold the first ones are kept, so that exactly `keep` are.
    const auto above = std::count_if(wanted.begin(), wanted.end(),
                                     [&](float v) { return magnitude_of(v) > threshold; });
    size_t equal_left = keep - static_cast<size_t>(above);
    message_.resize(8 * keep);
    std::byte* at = message_.data();
    for (size_t i = 0; i < wanted.size(); ++i) {
      const float magnitude = magnitude_of(wanted[i]);
      bool keeps = magnitude > threshold;
      if (magnitude == threshold && equal_left > 0) {
        keeps = true;
        --equal_left;
      }
      const float value = wanted[i];  // `sent` may be the same memory.
      sent[i] = keeps ? value : 0.0f;
      if (!keeps) continue;
      put(at, static_cast<uint32_t>(i));
      put(at, value);
    }
    SUMCAST_ASSERT(at == message_.data() + message_.size());
  }

  Result<void> add_message(std::span<const std::byte> message,
                           std::span<float> sum) const override {
    const size_t expected = sum.empty() ? 0 : 8 * kept(sum.size());
    if (message.size() != expected) return fail(wrong_length(name(), message.size(), expected));
    const std::byte* at = message.data();
    while (at != message.data() + message.size()) {
      const auto index = take<uint32_t>(at);
      const auto value = take<float>(at);
      if (index >= sum.size()) {
        return fail(ErrorCode::kInvalidArgument,
                    fmt::format("a message of {} names value {} of {}", name(), index, sum.size()));
      }
      sum[index] += value;
    }
    return {};
  }

 private:
  static float magnitude_of(float value) { return std::isnan(value) ? INFINITY : std::fabs(value); }
  size_t kept(size_t count) const {
    const auto wished = static_cast<size_t>(std::ceil(share_ * static_cast<double>(count)));
    return std::clamp<size_t>(wished, 1, std::max<size_t>(count, 1));
  }

  double share_;
  std::vector<float> magnitudes_;
  std::vector<std::byte> message_;
};

class QsgdEncoder final : public Encoder {
 public:
  explicit QsgdEncoder(int levels) : levels_(static_cast<float>(levels)) {}
  std::string name() const override { return fmt::format("qsgd-{}", static_cast<int>(levels_)); }
  bool wants_feedback() const override { return false; }
  double bytes(size_t count) const override { return static_cast<double>(message_bytes(count)); }
  std::span<const std::byte> message() const override { return message_; }

  void encode(std::span<const float> wanted, uint64_t step, uint32_t rank,
              std::span<float> sent) override {
    SUMCAST_ASSERT(wanted.size() == sent.size());
    Prng prng(Prng(step).next_u64() ^ Prng(~uint64_t{rank}).next_u64());
    message_.resize(message_bytes(wanted.size()));
    std::byte* at = message_.data();
    for (size_t first = 0; first < wanted.size(); first += kBucket) {
      const size_t count = std::min(kBucket, wanted.size() - first);
      encode_bucket(wanted.subspan(first, count), prng, sent.subspan(first, count), at);
    }
  }

  Result<void> add_message(std::span<const std::byte> message,
                           std::span<float> sum) const override {
    const size_t expected = message_bytes(sum.size());
    if (message.size() != expected) return fail(wrong_length(name(), message.size(), expected));
    const std::byte* at = message.data();
    for (size_t first = 0; first < sum.size(); first += kBucket) {
      const auto norm = take<float>(at);
      const size_t count = std::min(kBucket, sum.size() - first);
      for (size_t i = first; i < first + count; ++i) sum[i] += value_of(norm, take<int8_t>(at));
    }
    return {};
  }

 private:
  static constexpr size_t kBucket = 512;

  static size_t message_bytes(size_t count) {
    return count + sizeof(float) * ((count + kBucket - 1) / kBucket);
  }
  float value_of(float norm, int8_t level) const {
    return norm * static_cast<float>(level) / levels_;
  }

  void encode_bucket(std::span<const float> wanted, Prng& prng, std::span<float> sent,
                     std::byte*& at) const {
    double squares = 0;
    for (const float value : wanted) squares += static_cast<double>(value) * value;
    auto norm = static_cast<float>(std::sqrt(squares));
    if (!std::isfinite(norm)) norm = NAN;
    put(at, norm);
    const bool scales = norm > 0;  // Not of zeros, not of NaN.
    for (size_t i = 0; i < wanted.size(); ++i) {
      int8_t level = 0;
      if (scales) {
        const float scaled = std::fabs(wanted[i]) / norm * levels_;
        const float below = std::floor(scaled);
        const bool up = prng.unit() < static_cast<double>(scaled - below);
        level = static_cast<int8_t>(std::min(below + (up ? 1.0f : 0.0f), levels_));
        if (std::signbit(wanted[i])) level = static_cast<int8_t>(-level);
      }
      put(at, level);
      sent[i] = value_of(norm, level);
    }
  }

  float levels_;
  std::vector<std::byte> message_;
};

}  // namespace

std::unique_ptr<Encoder> make_top_k_encoder(double share) {
  SUMCAST_ASSERT(share > 0 && share <= 1);
  return std::make_unique<TopKEncoder>(share);
}

std::unique_ptr<Encoder> make_qsgd_encoder(int levels) {
  SUMCAST_ASSERT(levels >= 1 && levels <= 127);
  return std::make_unique<QsgdEncoder>(levels);
}

}  // namespace sumcast::pipeline
